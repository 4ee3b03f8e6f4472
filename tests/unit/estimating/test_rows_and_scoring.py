"""A row of a table of measured runs is read without what was measured, and scored with it."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.estimating import counting
from reconciler.estimating.constants import Constants
from reconciler.estimating.margins import Verdict
from reconciler.estimating.rows import model_of, run_from
from reconciler.estimating.score_text import lines
from reconciler.estimating.scoring import Case, case, errors, larger, order, scores
from reconciler.estimating.training import (
    Attention,
    Checkpointing,
    Engine,
    Lengths,
    Loss,
    Offload,
    Optimizer,
    Quantisation,
    Sharding,
    Task,
)
from reconciler.specs.model_catalogue import shipped_gpus, shipped_models
from tests.unit.estimating.trainings import constants

ROW = {
    "id": "X1",
    "source": "somebody",
    "model": "Llama-3.1-8B",
    "gpu": "A100-80GB",
    "gpu_mem_gb": "80",
    "n_gpus": "1",
    "task": "sft",
    "tuner": "full",
    "optimizer": "adamw",
    "precision": "bf16",
    "master_fp32": "no",
    "seq_len": "2048",
    "micro_batch": "1",
    "grad_accum": "1",
    "grad_ckpt": "full",
    "attention": "flash2",
    "zero_fsdp": "none",
    "quant": "none",
    "offload": "none",
    "fused_ce": "no",
    "packing": "yes",
    "compile": "no",
    "sp": "no",
    "seq_exact": "yes",
    "fits": "yes",
    "quality": "A",
}


def a_case(given: Constants | None = None, **changes: str) -> Case:
    row = ROW | changes
    return case(row, shipped_models(), shipped_gpus(), given or constants())


@pytest.mark.parametrize(
    ("column", "text", "field", "value"),
    [
        ("optimizer", "galore-adamw8bit per-layer r1024", "optimizer", Optimizer.GALORE_8BIT),
        ("optimizer", "galore-adamw8bit per-layer r1024", "galore_rank", 1024),
        ("optimizer", "galore-adamw8bit per-layer r1024", "in_backward", True),
        ("optimizer", "paged-adamw8bit(in-backward)", "optimizer", Optimizer.PAGED_ADAMW_8BIT),
        ("optimizer", "adamw(bf16 moments)", "optimizer", Optimizer.ADAMW_BF16_MOMENTS),
        ("precision", "bf16-mixed(fp32 params)", "master", True),
        ("grad_ckpt", "selective_op", "checkpointing", Checkpointing.SELECTIVE_OP),
        ("grad_ckpt", "selective(moe,ln)", "recompute", ("moe", "layernorm")),
        ("attention", "flash1/triton", "attention", Attention.FLASH1),
        ("attention", "eager", "attention", Attention.EAGER),
        ("fused_ce", "chunked", "loss", Loss.CHUNKED),
        ("fused_ce", "yes", "loss", Loss.FUSED),
        ("offload", "optimizer-cpu fraction 1", "offload", Offload.OPTIMIZER),
        ("offload", "params-cpu", "offload", Offload.PARAMETERS),
        ("tuner", "lisa", "optimizer", Optimizer.LISA),
        ("tuner", "adalora", "lora_rank", 8),
        ("task", "kto", "task", Task.DPO),
        ("task", "continued pretraining", "task", Task.SFT),
        ("seq_exact", "max_length truncation, variable", "lengths", Lengths.CHURNING),
        ("seq_exact", "alpaca, not given", "lengths", Lengths.VARIABLE),
        ("source", "torchtune README", "engine", Engine.NATIVE),
        ("source", "llm-foundry benchmarking README", "loss", Loss.IN_PLACE),
        ("source", "ms-swift v2 Benchmark.md", "shifts_logits", True),
        ("zero_fsdp", "megatron-distopt", "engine", Engine.MEGATRON),
    ],
)
def test_each_column_sets_its_field(column: str, text: str, field: str, value: Any) -> None:
    training = run_from(ROW | {column: text}, shipped_models()).training

    assert getattr(training, field) == value


@pytest.mark.parametrize(
    ("text", "quantisation"),
    [
        ("gptq-int4", Quantisation.GPTQ4),
        ("bnb-nf4-dq", Quantisation.NF4_DOUBLE),
        ("bnb-int4", Quantisation.NF4),
    ],
)
def test_quantised_rows_have_an_adapter(text: str, quantisation: Quantisation) -> None:
    row = ROW | {"tuner": "qlora", "quant": text, "lora_rank": "16", "lora_targets": "q,v"}

    training = run_from(row, shipped_models()).training

    assert training.quantisation is quantisation
    assert training.lora_targets == ("q", "v")


def test_matrices_of_another_family_mean_all_of_them() -> None:
    row = ROW | {"tuner": "lora", "lora_targets": "Wqkv2,fc9"}

    assert run_from(row, shipped_models()).training.lora_targets == ("all-linear",)


def test_replicas_follow_from_the_gpus_where_the_row_does_not_say() -> None:
    row = ROW | {"n_gpus": "16", "tp": "2", "pp": "2", "zero_fsdp": "megatron-distopt"}

    assert run_from(row, shipped_models()).training.layout.data == 4


def test_a_hierarchical_group_is_read_from_its_brackets() -> None:
    row = ROW | {"zero_fsdp": "zero1(8)", "dp": "64", "n_gpus": "64"}

    layout = run_from(row, shipped_models()).training.layout

    assert (layout.sharding, layout.shards) == (Sharding.ZERO1, 8)


def test_a_pipeline_without_an_engine_is_a_naive_one() -> None:
    row = ROW | {"pp": "2", "n_gpus": "2", "tuner": "lora"}

    assert run_from(row, shipped_models()).training.layout.naive_pipeline


@pytest.mark.parametrize(
    ("params_b", "gated", "tied"), [("6.738", True, False), ("6.659", False, True)]
)
def test_an_unlisted_shape_is_told_apart_by_its_published_count(
    params_b: str, gated: bool, tied: bool
) -> None:
    wide = {"ffn": "11008", "vocab": "32000"} if gated else {"ffn": "16384", "vocab": "50368"}
    row = ROW | {
        "model": "somebody-7b",
        "layers": "32",
        "hidden": "4096",
        "heads": "32",
        "params_b": params_b,
        **wide,
    }

    model = model_of(row, shipped_models())

    assert (model.gated, model.tied) == (gated, tied)
    assert counting.total(model) / 1e9 == pytest.approx(float(params_b), rel=0.002)


def test_an_unreadable_row_names_itself_and_the_column() -> None:
    with pytest.raises(ValueError, match="row X1: column seq_len is empty"):
        run_from(ROW | {"seq_len": ""}, shipped_models())


def test_measured_columns_change_nothing_that_is_predicted() -> None:
    bare = a_case()
    told = a_case(
        measured_peak_mem_gb="12",
        mem_unit="GiB",
        measured_tokens_per_s_per_gpu="1",
        fits="OOM",
        note="seen",
        mfu="0.9",
    )

    assert told.estimate == bare.estimate
    assert (told.peak_gib, told.tokens_per_s, told.fitted) == (12, 1, False)


def test_units_and_instruments_are_told_apart() -> None:
    decimal = a_case(measured_peak_mem_gb="100", mem_unit="GB", mem_kind="allocated")
    label = a_case(measured_peak_mem_gb="100", mem_unit="GB(label)", mem_kind="unknown")

    assert decimal.peak_gib == pytest.approx(93.13, abs=0.01)
    assert label.peak_gib == 100
    assert decimal.p50_gib == decimal.estimate.memory.allocated_gib
    assert label.p50_gib == label.estimate.memory.device_gib


def test_a_prediction_beyond_the_device_counts_as_the_device_where_the_run_fitted() -> None:
    fitted = a_case(micro_batch="64", measured_peak_mem_gb="79.15", mem_unit="GiB")
    crashed = a_case(micro_batch="64", measured_peak_mem_gb="79.15", mem_unit="GiB", fits="OOM")

    assert fitted.memory_error == pytest.approx(0)
    assert (crashed.memory_error or 0) > 1


def test_statistics_of_errors() -> None:
    found = errors([0.05, -0.12, 0.30, None])

    assert (found.count, found.median, found.bias) == (3, 0.12, 0.05)
    assert (found.within_10, found.within_15, found.within_20) == pytest.approx(
        (1 / 3, 2 / 3, 2 / 3)
    )
    assert errors([]).count == 0


def test_the_next_power_of_two_beyond_the_device_is_a_synthetic_out_of_memory_run() -> None:
    one = a_case(measured_peak_mem_gb="75", mem_unit="GiB", seq_len="3000")
    states = one.estimate.memory.states_gib

    found = {item.axis: item for item in larger([one], constants())}

    assert found["micro_batch"].value == 2
    assert found["seq_len"].value == 4096
    assert found["seq_len"].implied_gib == pytest.approx(75 + (75 - states) * (4096 / 3000 - 1))


def test_a_small_run_has_no_synthetic_neighbour() -> None:
    one = a_case(measured_peak_mem_gb="60", mem_unit="GiB", tuner="full")

    assert larger([replace(one, peak_gib=61.0)], constants()) == ()


def test_refusals_and_misses_are_named() -> None:
    cases = [
        a_case(id="FITS", micro_batch="64"),
        a_case(id="OOM", fits="OOM", tuner="lora", lora_rank="8"),
    ]

    found = scores(cases, constants())

    assert found.fitting_refused == ("FITS",)
    assert found.oom_called_fitting == ("OOM",)
    text = "\n".join(lines(found))
    assert "fitting rows refused: 1 of 1" in text
    assert "LLaMA-Factory's table" in text


def test_rows_of_quality_c_do_not_count() -> None:
    found = scores([a_case(quality="C", measured_peak_mem_gb="10", mem_unit="GiB")], constants())

    assert (found.memory.count, found.fitting_rows) == (0, 0)


def test_order_compares_alternatives_of_the_same_model_gpus_and_batch() -> None:
    fast = a_case(measured_tokens_per_s_per_gpu="4000", grad_ckpt="none")
    slow = a_case(measured_tokens_per_s_per_gpu="3000")
    wrong = replace(slow, tokens_per_s=5000.0)
    other = a_case(measured_tokens_per_s_per_gpu="9000", grad_accum="2")

    assert order([fast, slow]) == [True]
    assert order([fast, wrong]) == [False]
    assert order([fast, other]) == []


def test_an_out_of_memory_verdict_is_a_verdict() -> None:
    assert a_case(micro_batch="64").estimate.fit.verdict is Verdict.DOES_NOT_FIT
