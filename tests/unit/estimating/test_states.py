"""Weights, gradients and optimizer states are arithmetic: bytes a parameter, divided by ranks."""

import pytest

from reconciler.estimating import counting
from reconciler.estimating.states import stages, states
from reconciler.estimating.training import (
    Engine,
    Layout,
    Offload,
    Optimizer,
    Precision,
    Quantisation,
    Sharding,
    Task,
    Training,
)
from tests.unit.estimating.trainings import a_model, a_training


def bytes_each(training: Training) -> float:
    """Return bytes of all states on the first stage's rank, over the model's parameters."""
    held = states(training, stages(training)[0])
    total = held.weights + held.gradients + held.optimizer
    return total / counting.total(training.model)


def test_pure_bf16_adamw_takes_8_bytes_a_parameter() -> None:
    assert bytes_each(a_training()) == pytest.approx(8)


def test_fp32_adamw_takes_16_bytes_a_parameter() -> None:
    assert bytes_each(a_training(precision=Precision.FP32)) == pytest.approx(16)


@pytest.mark.parametrize("sharding", [Sharding.ZERO1, Sharding.ZERO2, Sharding.ZERO3])
def test_mixed_precision_adamw_takes_16_bytes_on_one_rank(sharding: Sharding) -> None:
    training = a_training(master=True, layout=Layout(sharding=sharding))

    assert bytes_each(training) == pytest.approx(16)


@pytest.mark.parametrize(
    ("sharding", "whole", "shared"),
    [
        (Sharding.ZERO1, 4, 12),
        (Sharding.ZERO2, 2, 14),
        (Sharding.ZERO3, 0, 16),
        (Sharding.FSDP, 0, 16),
        (Sharding.DISTRIBUTED_OPTIMIZER, 6, 12),
    ],
)
def test_each_engine_shards_what_its_paper_says(
    sharding: Sharding, whole: float, shared: float
) -> None:
    training = a_training(master=True, layout=Layout(data=8, sharding=sharding))

    assert bytes_each(training) == pytest.approx(whole + shared / 8)


def test_fsdp_under_a_pipeline_keeps_weights_and_gradients_whole() -> None:
    plain = a_training(master=True, layout=Layout(data=8, sharding=Sharding.FSDP))
    piped = a_training(master=True, layout=Layout(data=8, pipeline=4, sharding=Sharding.FSDP))

    stage = stages(piped)[0]
    held = states(piped, stage)

    assert held.weights + held.gradients > 6 * stage.parameters
    assert bytes_each(plain) == pytest.approx(2)


def test_hierarchical_zero_shards_inside_its_group_only() -> None:
    layout = Layout(data=64, shard_group=8, sharding=Sharding.ZERO1)

    assert bytes_each(a_training(master=True, layout=layout)) == pytest.approx(4 + 12 / 8)


@pytest.mark.parametrize(
    ("optimizer", "moments"),
    [
        (Optimizer.ADAMW, 4),
        (Optimizer.ADAMW_8BIT, 2.04),
        (Optimizer.ADAMW_4BIT, 1.06),
        (Optimizer.PAGED_ADAMW_8BIT, 0),
        (Optimizer.LION, 2),
        (Optimizer.SGD, 0),
    ],
)
def test_moments_follow_the_optimizer(optimizer: Optimizer, moments: float) -> None:
    assert bytes_each(a_training(optimizer=optimizer)) == pytest.approx(4 + moments)


@pytest.mark.parametrize("optimizer", [Optimizer.GALORE, Optimizer.GALORE_8BIT])
@pytest.mark.parametrize("rank", [16, 64, 128])
def test_galore_halves_the_optimizer_state_at_least(optimizer: Optimizer, rank: int) -> None:
    def optimizer_bytes(training: Training) -> float:
        return states(training, stages(training)[0]).optimizer

    adamw = optimizer_bytes(a_training("Llama-2-7B"))
    galore = optimizer_bytes(a_training("Llama-2-7B", optimizer=optimizer, galore_rank=rank))

    assert galore < 0.5 * adamw


def test_galore_keeps_moments_of_the_projected_side_and_a_projector() -> None:
    model = a_model("Llama-2-7B")
    rank, projected, matrices = 4, 0.0, 0
    for linear in counting.linears(model):
        short, long = sorted((linear.inputs, linear.outputs))
        projected += linear.layers * (2 * 2 * rank * long + 2 * rank * short)
        matrices += linear.layers * linear.parameters
    training = a_training("Llama-2-7B", optimizer=Optimizer.GALORE, galore_rank=rank)

    held = states(training, stages(training)[0])

    rest = counting.total(model) - matrices
    assert held.optimizer == pytest.approx(projected + 4 * rest)


@pytest.mark.parametrize(
    ("optimizer", "moment", "projector"),
    [
        (Optimizer.GALORE, 4.0, 4.0),
        (Optimizer.GALORE_8BIT, 1.02, 4.0),
        (Optimizer.Q_GALORE, 1.02, 0.5 + 8 / 256),
    ],
)
def test_a_32_bit_model_has_projectors_and_plain_moments_of_32_bits(
    optimizer: Optimizer, moment: float, projector: float
) -> None:
    model = a_model("Llama-2-7B")
    rank, projected, matrices = 4, 0.0, 0
    for linear in counting.linears(model):
        short, long = sorted((linear.inputs, linear.outputs))
        projected += linear.layers * (2 * moment * rank * long + projector * rank * short)
        matrices += linear.layers * linear.parameters
    training = a_training(
        "Llama-2-7B", optimizer=optimizer, galore_rank=rank, precision=Precision.FP32
    )

    held = states(training, stages(training)[0])

    rest = counting.total(model) - matrices
    assert held.optimizer == pytest.approx(projected + 2 * moment * rest)
    assert held.gradients == 4 * counting.total(model)


@pytest.mark.parametrize(("precision", "plain"), [(Precision.BF16, 2), (Precision.FP32, 4)])
def test_q_galore_keeps_embedding_and_head_in_floating_point(
    precision: Precision, plain: int
) -> None:
    model = a_model("Llama-2-7B")
    matrices = sum(linear.layers * linear.parameters for linear in counting.linears(model))
    training = a_training("Llama-2-7B", optimizer=Optimizer.Q_GALORE, precision=precision)

    held = states(training, stages(training)[0])

    rest = counting.total(model) - matrices
    assert held.weights == pytest.approx(1.02 * matrices + plain * rest)


def test_a_quantised_base_leaves_embedding_and_head_alone() -> None:
    training = a_training(
        "Qwen2.5-72B",
        lora_rank=8,
        quantisation=Quantisation.GPTQ4,
        engine=Engine.TRANSFORMERS,
    )
    model = training.model
    vocabulary = counting.embedding(model) + counting.head(model)

    held = states(training, stages(training)[0])

    base = 2 * vocabulary + 0.54 * (counting.total(model) - vocabulary)
    adapter = 4 * counting.adapter(model, 8, ("all-linear",))
    assert held.weights == pytest.approx(base + adapter)
    assert 2 * vocabulary / 1e9 == pytest.approx(5.0, abs=0.02)


def test_an_adapter_keeps_32_bit_states_of_itself_alone() -> None:
    training = a_training("Llama-3.2-3B", lora_rank=32, lora_targets=("q", "v"))

    held = states(training, stages(training)[0])

    assert held.gradients == 4 * 9_175_040
    assert held.optimizer == 8 * 9_175_040


def test_preference_training_keeps_a_frozen_reference_unless_an_adapter_can_be_switched_off() -> (
    None
):
    full, adapter = a_training(task=Task.DPO), a_training(task=Task.DPO, lora_rank=8)
    plain = a_training()

    def weights(training: Training) -> float:
        return states(training, stages(training)[0]).weights

    assert weights(full) == pytest.approx(2 * weights(plain))
    assert weights(adapter) < 1.1 * weights(plain)


def test_offloading_the_optimizer_leaves_weights_and_gradients() -> None:
    training = a_training(
        master=True,
        offload=Offload.OPTIMIZER,
        layout=Layout(tensor=8, sharding=Sharding.DISTRIBUTED_OPTIMIZER),
    )

    assert bytes_each(training) == pytest.approx(6 / 8)


def test_expert_parallelism_splits_the_experts_and_nothing_else() -> None:
    model = a_model("Qwen3-30B-A3B")
    training = a_training(
        "Qwen3-30B-A3B",
        layout=Layout(data=8, expert=8, sharding=Sharding.DISTRIBUTED_OPTIMIZER),
    )

    stage = stages(training)[0]

    assert stage.experts == pytest.approx(counting.routed(model) / 8)
    assert stage.parameters - stage.experts == pytest.approx(
        counting.total(model) - counting.routed(model)
    )


def test_the_first_stage_of_a_pipeline_has_the_most_in_flight() -> None:
    training = a_training(accumulation=32, layout=Layout(pipeline=4))
    interleaved = a_training(accumulation=32, layout=Layout(pipeline=4, virtual=3))

    first, last = stages(training)

    assert (first.in_flight, last.in_flight) == (4, 1)
    assert first.has_embedding and last.has_head
    assert stages(interleaved)[0].in_flight == pytest.approx(4 * (1 + 3 / 12))
