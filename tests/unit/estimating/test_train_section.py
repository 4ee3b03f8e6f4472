"""The train section means what the trainer's contract says."""

import re
from pathlib import Path
from typing import Any

import pytest

from reconciler.estimating import train_section
from reconciler.estimating.train_section import DEFAULTS, READ_KEYS, Setting, training_from
from reconciler.estimating.training import (
    Checkpointing,
    Engine,
    Lengths,
    Offload,
    Optimizer,
    Precision,
    Quantisation,
    Sharding,
    Task,
    Training,
)
from reconciler.specs.contract_files import train_schema
from tests.unit.estimating.trainings import a_model


def read(gpus: int = 1, is_cpu: bool = False, **train: Any) -> Training:
    given = {"model": "Qwen/Qwen3-8B", "task": "sft", **train}
    return training_from(given, a_model(), Setting(gpus=gpus, is_cpu=is_cpu))


def test_defaults_are_those_of_the_contract() -> None:
    properties = train_schema()["properties"]

    for key, value in DEFAULTS.items():
        assert properties[key]["default"] == value, key


def test_fsdp_keeps_no_32_bit_copy_and_a_sampled_completion_lengthens_the_row() -> None:
    sharded = read(gpus=4, tuner_type="full", fsdp="fsdp2")
    sampled = read(task="grpo", max_length=1024, max_completion_length=256)

    assert (sharded.layout.sharding, sharded.master) == (Sharding.FSDP, False)
    assert sampled.seq_len == 1280


def test_an_empty_section_is_an_adapter_on_one_gpu() -> None:
    found = read()

    assert (found.lora_rank, found.seq_len, found.micro_batch) == (8, 2048, 1)
    assert found.checkpointing is Checkpointing.FULL
    assert found.lengths is Lengths.VARIABLE
    assert found.precision is Precision.BF16


def test_cpu_slots_do_not_recompute_unless_asked() -> None:
    assert read(is_cpu=True).checkpointing is Checkpointing.NONE
    assert read(is_cpu=True, gradient_checkpointing=True).checkpointing is Checkpointing.FULL


def test_models_the_trainer_makes_itself_are_32_bit() -> None:
    assert read(model="random:qwen3-tiny").precision is Precision.FP32
    assert read(model="random:qwen3-tiny", torch_dtype="bfloat16").precision is Precision.BF16


def test_packing_makes_rows_of_equal_length() -> None:
    found = read(packing=True, packing_length=4096)

    assert (found.seq_len, found.lengths) == (4096, Lengths.FIXED)


@pytest.mark.parametrize(
    ("train", "field", "value"),
    [
        ({"task": "dpo"}, "task", Task.DPO),
        ({"tuner_type": "full"}, "lora_rank", 0),
        ({"optim": "adafactor", "tuner_type": "full"}, "optimizer", Optimizer.ADAFACTOR),
        ({"use_galore": True, "tuner_type": "full"}, "optimizer", Optimizer.GALORE),
        (
            {"use_galore": True, "galore_quantization": True, "tuner_type": "full"},
            "optimizer",
            Optimizer.Q_GALORE,
        ),
        ({"quant_method": "bnb", "quant_bits": 4}, "quantisation", Quantisation.NF4_DOUBLE),
        ({"quant_method": "gptq", "quant_bits": 8}, "quantisation", Quantisation.GPTQ8),
        ({"modules_to_save": ["embed_tokens"]}, "trains_embedding", True),
        ({"use_dora": True}, "dora", True),
        (
            {"use_galore": True, "galore_optim_per_parameter": True, "tuner_type": "full"},
            "in_backward",
            True,
        ),
        ({"lora_dropout": 0.0}, "lora_dropout", False),
        ({"deepspeed": "zero3_offload"}, "offload", Offload.PARAMETERS),
        ({"deepspeed": "zero2_offload"}, "offload", Offload.OPTIMIZER),
    ],
)
def test_each_key_sets_its_field(train: dict[str, Any], field: str, value: Any) -> None:
    assert getattr(read(**train), field) == value


@pytest.mark.parametrize(
    ("train", "sharding"),
    [
        ({}, Sharding.NONE),
        ({"deepspeed": "zero3"}, Sharding.ZERO3),
        ({"fsdp": "fsdp2"}, Sharding.FSDP),
        ({"tensor_model_parallel_size": 2}, Sharding.DISTRIBUTED_OPTIMIZER),
    ],
)
def test_each_engine_is_asked_for_in_its_own_words(
    train: dict[str, Any], sharding: Sharding
) -> None:
    assert read(gpus=8, **train).layout.sharding is sharding


def test_parallel_sizes_take_their_share_of_the_gang() -> None:
    found = read(gpus=16, tensor_model_parallel_size=4, pipeline_model_parallel_size=2)

    assert found.layout.data == 2
    assert found.engine is Engine.MEGATRON


@pytest.mark.parametrize(
    ("train", "engine"),
    [
        ({"tensor_model_parallel_size": 4}, Engine.TRANSFORMERS),
        ({"pipeline_model_parallel_size": 4}, Engine.TRANSFORMERS),
        (
            {"tensor_model_parallel_size": 4, "expert_model_parallel_size": 4},
            Engine.TRANSFORMERS,
        ),
        ({"tensor_model_parallel_size": 2}, Engine.MEGATRON),
        (
            {"tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2},
            Engine.MEGATRON,
        ),
        (
            {"tensor_model_parallel_size": 4, "recompute_granularity": "full"},
            Engine.MEGATRON,
        ),
    ],
)
def test_one_model_split_among_all_gpus_is_what_this_trainer_runs(
    train: dict[str, Any], engine: Engine
) -> None:
    found = read(gpus=4, **train)

    assert found.engine is engine
    assert found.layout.sequence is (engine is Engine.MEGATRON)
    plain = Sharding.NONE if engine is Engine.TRANSFORMERS else Sharding.DISTRIBUTED_OPTIMIZER
    assert found.layout.sharding is plain


def test_weights_kept_between_the_passes_are_counted_whole() -> None:
    assert read(gpus=4, fsdp="fsdp2").layout.sharding is Sharding.FSDP
    kept = read(gpus=4, fsdp="fsdp2", fsdp_reshard_after_forward=False)
    assert kept.layout.sharding is Sharding.ZERO2
    assert not kept.master


def test_parallel_sizes_that_do_not_divide_the_gang_are_refused() -> None:
    with pytest.raises(ValueError, match="needs a multiple of 8 GPUs, the gang has 4"):
        read(gpus=4, tensor_model_parallel_size=4, pipeline_model_parallel_size=2)


def test_galore_with_an_adapter_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match="an adapter has none"):
        read(use_galore=True)


def test_every_key_that_is_read_is_kept_of_a_finished_run() -> None:
    source = Path(train_section.__file__).read_text(encoding="utf-8")
    read = set(re.findall(r'given(?:\.get\(|\[)"(\w+)"', source))

    assert read | set(train_section.SIZES) == set(READ_KEYS)
