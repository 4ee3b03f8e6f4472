"""The peak is the worst of a step's moments, and every setting moves it the way it should."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.estimating.constants import MemoryConstants
from reconciler.estimating.memory import GIB, Memory, memory
from reconciler.estimating.training import (
    Attention,
    Checkpointing,
    Engine,
    Layout,
    Lengths,
    Loss,
    Offload,
    Optimizer,
    Precision,
    Quantisation,
    Rollout,
    Sharding,
    Task,
    Training,
)
from tests.unit.estimating.trainings import a_training

CONSTANTS = MemoryConstants()


def peak(name: str = "Qwen3-8B", **changes: Any) -> Memory:
    return memory(a_training(name, **changes), CONSTANTS)


def test_parts_sum_to_what_the_device_must_give() -> None:
    for training in (a_training(), a_training(lora_rank=8), a_training(seq_len=32768)):
        found = memory(training, CONSTANTS)
        assert found.parts.total() == pytest.approx(found.device_gib)


def test_each_instrument_sees_more_than_the_one_before() -> None:
    found = peak(layout=Layout(data=8, sharding=Sharding.ZERO3), master=True)

    assert found.states_gib < found.allocated_gib < found.reserved_gib < found.device_gib


def test_a_foreach_optimizer_peaks_in_its_step_and_a_fused_one_does_not() -> None:
    short = {"seq_len": 512}

    assert peak(**short).peak == "step"
    assert peak(**short, optimizer=Optimizer.ADAMW_FUSED).peak != "step"
    assert peak(**short).parts.temporaries == pytest.approx(15.26, abs=0.01)  # 2 bytes a parameter


def test_logits_of_a_large_vocabulary_are_the_peak_under_checkpointing() -> None:
    found = peak("Qwen2.5-7B", seq_len=8192, lora_rank=8)

    assert found.peak == "loss"
    assert found.parts.logits == pytest.approx(8192 * 152064 * 12 / GIB)


@pytest.mark.parametrize(
    ("loss", "most_bytes"), [(Loss.FULL, 12), (Loss.CHUNKED, 6), (Loss.FUSED, 0.3)]
)
def test_chunked_and_fused_losses_hold_less_of_the_logits(loss: Loss, most_bytes: float) -> None:
    found = peak(
        "Qwen2.5-7B", seq_len=8192, loss=loss, lora_rank=8, checkpointing=Checkpointing.NONE
    )

    assert found.parts.logits <= 8192 * 152064 * most_bytes / GIB + 1e-6


@pytest.mark.parametrize("task", [Task.EMBEDDING, Task.RERANKER, Task.REWARD])
def test_tasks_without_a_language_head_have_no_logits(task: Task) -> None:
    assert peak(task=task, lora_rank=8, checkpointing=Checkpointing.NONE).parts.logits == 0


def test_preference_pairs_double_the_tokens_unless_packed() -> None:
    pairs = a_training(task=Task.DPO, lora_rank=8)

    assert pairs.micro_tokens == 2 * a_training().micro_tokens
    assert replace(pairs, packed=True).micro_tokens == a_training().micro_tokens


def test_tensor_parallel_ranks_split_the_logits() -> None:
    given: dict[str, Any] = {
        "engine": Engine.MEGATRON,
        "seq_len": 32768,
        "checkpointing": Checkpointing.FULL,
        "lora_rank": 8,
    }

    one = peak(layout=Layout(), **given)
    four = peak(
        layout=Layout(tensor=4, sequence=True, sharding=Sharding.DISTRIBUTED_OPTIMIZER), **given
    )

    assert four.parts.logits == pytest.approx(one.parts.logits / 4)


def test_the_last_stage_of_a_pipeline_holds_the_logits_and_the_first_the_flights() -> None:
    short = peak("Llama-3.1-8B", layout=Layout(pipeline=4), accumulation=8, lora_rank=8)
    long = peak(
        "Llama-3.1-8B",
        layout=Layout(pipeline=4),
        accumulation=8,
        lora_rank=8,
        checkpointing=Checkpointing.NONE,
    )

    assert short.parts.logits > 0
    assert long.parts.logits == 0


def test_varying_lengths_cost_more_than_packed_ones_and_an_old_allocator_most() -> None:
    packed, varying, churning = (
        peak(lora_rank=8, lengths=kind).reserved_gib
        for kind in (Lengths.FIXED, Lengths.VARIABLE, Lengths.CHURNING)
    )

    assert packed < varying < churning


def test_a_rollout_engine_takes_its_pool_while_it_samples() -> None:
    asleep = peak(task=Task.GRPO, lora_rank=8, rollout=Rollout(pool_gib=60))
    awake = peak(task=Task.GRPO, lora_rank=8, rollout=Rollout(pool_gib=60, sleeps=False))

    assert asleep.peak == "rollout"
    assert asleep.parts.weights + 60 < asleep.device_gib < awake.device_gib


def test_replicas_hold_a_second_copy_of_their_gradients() -> None:
    one = peak(seq_len=512, optimizer=Optimizer.ADAMW_FUSED)
    two = peak(seq_len=512, optimizer=Optimizer.ADAMW_FUSED, layout=Layout(data=2))

    assert two.parts.buffers == pytest.approx(two.states_gib / 4)
    assert one.parts.buffers == 0


def test_streaming_weights_from_the_host_leaves_a_few_layers() -> None:
    sharded = {"lora_rank": 8, "quantisation": Quantisation.NF4, "seq_len": 512}
    layout = Layout(data=2, sharding=Sharding.FSDP)

    found = peak("Llama-2-70B", layout=layout, offload=Offload.PARAMETERS, **sharded)

    assert found.states_gib == 0
    assert found.device_gib < 0.4 * peak("Llama-2-70B", layout=layout, **sharded).device_gib


def test_image_tokens_put_the_tower_to_work() -> None:
    text, image = (
        peak("Qwen3-VL-8B", lora_rank=8, checkpointing=Checkpointing.NONE, image_tokens=count)
        for count in (0, 1024)
    )

    assert image.parts.activations > text.parts.activations + 1


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        ("an adapter has none", {"lora_rank": 8, "optimizer": Optimizer.GALORE}),
        ("they need an adapter", {"quantisation": Quantisation.NF4}),
        ("whole numbers from 1", {"micro_batch": 0}),
    ],
)
def test_contradictions_are_refused_with_the_reason(message: str, changes: Any) -> None:
    with pytest.raises(ValueError, match=message):
        a_training(**changes)


SETTINGS = st.fixed_dictionaries(
    {
        "seq_len": st.sampled_from([256, 2048, 8192]),
        "micro_batch": st.sampled_from([1, 2, 8]),
        "lora_rank": st.sampled_from([0, 8]),
        "accumulation": st.sampled_from([1, 4]),
        "checkpointing": st.sampled_from(list(Checkpointing)),
        "attention": st.sampled_from(list(Attention)),
        "loss": st.sampled_from(list(Loss)),
        "engine": st.sampled_from(list(Engine)),
        "lengths": st.sampled_from(list(Lengths)),
        "precision": st.sampled_from(list(Precision)),
        "layout": st.sampled_from(
            [
                Layout(),
                Layout(data=4),
                Layout(data=4, sharding=Sharding.ZERO2),
                Layout(data=4, sharding=Sharding.FSDP),
                Layout(tensor=2, pipeline=2, sharding=Sharding.DISTRIBUTED_OPTIMIZER),
                Layout(data=2, context=2, sharding=Sharding.ZERO3),
            ]
        ),
    }
)


@given(name=st.sampled_from(["Qwen3-8B", "DeepSeek-V2-Lite", "MPT-7B"]), settings=SETTINGS)
def test_more_work_never_takes_less_memory(name: str, settings: dict[str, Any]) -> None:
    training: Training = a_training(name, **settings)
    now = memory(training, CONSTANTS).device_gib

    longer = replace(training, seq_len=2 * training.seq_len)
    wider = replace(training, micro_batch=2 * training.micro_batch)

    assert memory(longer, CONSTANTS).device_gib >= now * (1 - 1e-12)
    assert memory(wider, CONSTANTS).device_gib >= now * (1 - 1e-12)


@given(settings=SETTINGS)
def test_full_checkpointing_never_takes_more_than_none(settings: dict[str, Any]) -> None:
    training: Training = a_training(**settings)

    found = {
        kind: memory(replace(training, checkpointing=kind), CONSTANTS).device_gib
        for kind in (Checkpointing.NONE, Checkpointing.FULL)
    }

    assert found[Checkpointing.FULL] <= found[Checkpointing.NONE] * 1.02
