"""Formulas against torch's own memory tracker, on real model classes under FakeTensorMode.

The tracer sees tensors alone: no allocator, no context.  Its attention keeps copies on CPU that
a GPU's kernels do not, so estimates lie a little below.
"""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.estimating.config_json import model_from_config
from reconciler.estimating.memory import Memory, memory
from reconciler.estimating.training import (
    Checkpointing,
    Layout,
    Optimizer,
    Precision,
    Sharding,
    Training,
)
from tests.unit.estimating.trainings import constants

pytestmark = pytest.mark.slow

LLAMA = {
    "model_type": "llama",
    "vocab_size": 8000,
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "tie_word_embeddings": False,
}
LORA = {"rank": 8, "targets": ["all-linear"], "dropout": 0.0}
QV = {"rank": 8, "targets": ["q_proj", "v_proj"], "dropout": 0.0}
DROPPED = {"rank": 8, "targets": ["all-linear"], "dropout": 0.05}


def shape_of(name: str) -> dict[str, Any]:
    """Return one of the trainer's own small shapes, or the test's larger one."""
    random_models = pytest.importorskip("trainer.random_models")
    return dict(random_models.SHAPES[name]) if name in random_models.SHAPES else LLAMA


def estimated(request: dict[str, Any]) -> Memory:
    """Return the estimate of what a tracer request describes."""
    lora, shards = request.get("lora"), request.get("shards", 1)
    training = Training(
        model=model_from_config(request["config"], "traced"),
        seq_len=request["seq_len"],
        micro_batch=request["micro_batch"],
        precision=Precision.FP32 if request["dtype"] == "float32" else Precision.BF16,
        lora_rank=lora["rank"] if lora else 0,
        lora_targets=tuple(lora["targets"]) if lora else ("all-linear",),
        lora_dropout=bool(lora and lora["dropout"]),
        autocast=False,
        optimizer=Optimizer.ADAMW_FUSED,
        checkpointing=Checkpointing.FULL
        if request["gradient_checkpointing"]
        else Checkpointing.NONE,
        layout=Layout(data=shards, sharding=Sharding.FSDP if shards > 1 else Sharding.NONE),
    )
    return memory(training, replace(constants().memory, workspace_gib=0.0))


@pytest.mark.parametrize(
    ("name", "dtype", "batch", "length", "again", "lora", "shards"),
    [
        ("qwen3-tiny", "float32", 2, 128, False, None, 1),
        ("qwen3-tiny", "float32", 1, 256, False, DROPPED, 1),
        ("qwen3-small", "float32", 4, 256, False, None, 1),
        ("llama-small", "float32", 2, 256, True, None, 1),
        ("llama", "bfloat16", 2, 512, False, None, 1),
        ("llama", "bfloat16", 2, 512, False, LORA, 1),
        ("llama", "float32", 2, 512, True, QV, 1),
        ("llama", "float32", 2, 512, True, None, 2),
        ("llama", "float32", 2, 512, True, None, 4),
    ],
)
def test_an_estimate_is_within_15_percent_of_the_traced_peak(
    name: str, dtype: str, batch: int, length: int, again: bool, lora: Any, shards: int
) -> None:
    exact_memory = pytest.importorskip("trainer.exact_memory")
    request = {
        "config": shape_of(name),
        "dtype": dtype,
        "seq_len": length,
        "micro_batch": batch,
        "gradient_checkpointing": again,
        "lora": lora,
        "shards": shards,
    }

    traced = exact_memory.measure(request)
    found = estimated(request)

    assert found.allocated_gib * 1024**3 == pytest.approx(traced["peak"], rel=0.15)
    held = traced["parameters"] + traced["optimizer"]
    gradients = found.states_gib * 1024**3 - held
    assert gradients == pytest.approx(traced["optimizer"] / 2, rel=0.01)


def test_the_depth_is_extrapolated_from_two_short_models() -> None:
    exact_memory = pytest.importorskip("trainer.exact_memory")
    request = {
        "config": shape_of("llama-small"),
        "seq_len": 128,
        "gradient_checkpointing": False,
    }

    whole = exact_memory.measure(request)
    short = exact_memory.measure({**request, "layers": (1, 2)})

    assert short["peak"] == pytest.approx(whole["peak"], rel=0.02)
    assert short["parameters"] == whole["parameters"]


def test_the_verb_shows_the_traced_peak_beside_the_estimate() -> None:
    pytest.importorskip("torch")
    from tests.unit.estimating.command_line import run

    result = run(
        "estimate --model random:qwen3-tiny tuner_type=full max_length=64 --gpu-type cpu --exact"
    )

    assert result.exception is None, result.exception
    assert "Traced:" in result.output and "MiB of tensors" in result.output


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("quant_method=bnb quant_bits=4", "no quantised weights"),
        ("tensor_model_parallel_size=2 --gpus 2", "one GPU, replicas and FSDP only"),
    ],
)
def test_what_cannot_be_traced_is_refused(words: str, reason: str) -> None:
    from tests.unit.estimating.command_line import refusal

    assert reason in str(refusal(f"estimate --model Qwen3-8B {words} --exact"))


def test_a_model_that_is_no_plain_decoder_is_not_traced() -> None:
    from tests.unit.estimating.command_line import refusal

    line = "estimate --model Qwen3-30B-A3B max_length=512 --exact --gpu-type H200"
    assert "no plain decoder" in str(refusal(line))


def test_a_broken_request_is_one_line_not_a_traceback() -> None:
    pytest.importorskip("torch")
    from reconciler.errors import LauncherError
    from reconciler.launchers.exact_memory import traced

    with pytest.raises(LauncherError, match="the request has no config"):
        traced({"seq_len": 8})


def test_ranks_that_do_not_exist_are_gone_after_a_trace() -> None:
    exact_memory = pytest.importorskip("trainer.exact_memory")
    import torch.distributed as dist

    exact_memory.measure({"config": shape_of("llama-small"), "seq_len": 64, "shards": 2})

    assert not dist.is_initialized()
