"""How large weights, gradients and optimizer states are on one GPU.

Sources: ZeRO (Rajbhandari et al., 1910.02054): 2 + 2 + 12 bytes a parameter for AdamW in mixed
precision, and which of them each stage shards; torchtitan's
``get_fsdp_reshard_after_forward_policy``: FSDP under a pipeline keeps weights and gradients
whole; QLoRA (2305.14314): 0.5 + 4/64 bytes for NF4, 0.516 with double quantisation; GaLore
(2403.03507): moments 2 r n and a projector m r for an m x n matrix, m <= n.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.estimating import counting
from reconciler.estimating.counting import Linear
from reconciler.estimating.model import Model
from reconciler.estimating.training import (
    GALORE_FAMILY,
    Engine,
    Layout,
    Offload,
    Optimizer,
    Precision,
    Quantisation,
    Sharding,
    Training,
)

QUANTISED_BYTES = {
    Quantisation.NF4: 0.5 + 4 / 64,
    Quantisation.NF4_DOUBLE: 0.516,
    Quantisation.INT8: 1.02,
    Quantisation.GPTQ4: 0.54,
    Quantisation.GPTQ8: 1.04,
}
"""Bytes a parameter of a quantised matrix: GPTQ's at group size 128 (scales, zeros, order)."""

MOMENT_BYTES = {
    Optimizer.ADAMW_BF16_MOMENTS: 4.0,
    Optimizer.ADAMW_8BIT: 2.04,
    Optimizer.PAGED_ADAMW_8BIT: 2.04,
    Optimizer.ADAMW_4BIT: 1.06,
    Optimizer.ADAFACTOR: 0.02,
    Optimizer.SGD: 0.0,
}
"""Bytes of moments a parameter where they do not follow the weights' type; scales included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The slice of the model that one pipeline stage's rank holds, before data sharding."""

    layers: int
    has_embedding: bool
    has_head: bool
    in_flight: float
    """Micro-batches whose activations it keeps at once."""
    block: float
    """Parameters of its layers without routed experts."""
    experts: float
    embedding: float
    head: float

    @property
    def parameters(self) -> float:
        """Return all parameters of the slice."""
        return self.block + self.experts + self.embedding + self.head


def stages(training: Training) -> tuple[Stage, ...]:
    """Return the stages that can hold the peak: the first and the last of the pipeline.

    1F1B (Narayanan et al., 2104.04473): stage 0 has min(stages, micro-batches) forward passes
    in flight, the last one has one; interleaving multiplies by 1 + (p - 1) / (p v)
    (Korthikanti et al., 2205.05198, section 4.2.3).
    """
    model, layout = training.model, training.layout
    p = layout.pipeline
    layers = -(-model.layers // p)
    if p == 1 or layout.naive_pipeline:
        whole = _stage(training, layers, embedding=True, head=p == 1, in_flight=1.0)
        if p == 1:
            return (whole,)
        return whole, _stage(training, layers, embedding=False, head=True, in_flight=1.0)
    flying = float(min(p, training.accumulation))
    last = 1.0
    if layout.virtual > 1:
        flying *= 1 + (p - 1) / (p * layout.virtual)
        last = min(flying, 1.0 + (layout.virtual - 1) * p / (p * layout.virtual))
    return (
        _stage(training, layers, embedding=True, head=False, in_flight=flying),
        _stage(training, layers, embedding=False, head=True, in_flight=last),
    )


def _stage(
    training: Training, layers: int, *, embedding: bool, head: bool, in_flight: float
) -> Stage:
    model, layout = training.model, training.layout
    vocabulary = counting.embedding(model)
    rest = counting.total(model) - counting.routed(model) - vocabulary - counting.head(model)
    share = layers / model.layers
    owns_head = head and (not model.tied or not embedding)
    return Stage(
        layers=layers,
        has_embedding=embedding,
        has_head=head,
        in_flight=in_flight,
        block=rest * share / layout.tensor,
        experts=counting.routed(model) * share / expert_split(layout),
        embedding=embedding * vocabulary / layout.tensor,
        head=owns_head * model.vocab * model.hidden / layout.tensor,
    )


def expert_split(layout: Layout) -> int:
    """Return over how many ranks routed experts are spread: EP, else with the other matrices."""
    return layout.expert if layout.expert > 1 else layout.tensor


def expert_shards(layout: Layout) -> float:
    """Return how many ranks share one copy of an expert's sharded states."""
    return max(layout.shards * layout.tensor / expert_split(layout), 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """Bytes on one GPU."""

    weights: float
    gradients: float
    optimizer: float
    step_temporaries: float
    """Alive only while the optimizer runs."""
    trained: float
    """Trained parameters of the rank's slice, before data sharding."""


def states(training: Training, stage: Stage) -> States:
    """Return what the rank keeps between steps, and what the optimizer step adds for a moment."""
    return _adapter(training, stage) if training.is_adapter else _full(training, stage)


def _full(training: Training, stage: Stage) -> States:
    layout, sharding = training.layout, training.layout.sharding
    dense, experts = stage.parameters - stage.experts, stage.experts
    whole = dense + experts
    shard = dense / layout.shards + experts / expert_shards(layout)
    weight, gradient, kept = _bytes_each(training, stage)
    pipelined = sharding is Sharding.FSDP and layout.pipeline > 1
    weights = weight * (shard if sharding in (Sharding.ZERO3, Sharding.FSDP) else whole)
    gradients = gradient * (
        shard if sharding in (Sharding.ZERO2, Sharding.ZERO3, Sharding.FSDP) else whole
    )
    optimizer = _optimizer_bytes(training, stage, whole if sharding is Sharding.NONE else shard)
    if pipelined:
        weights += 2 * whole
        gradients += 4 * whole
    if training.in_backward:
        gradients = gradient * max(whole / max(stage.layers, 1), stage.embedding)
    held = whole if sharding is Sharding.NONE else shard
    temporaries = _step_temporaries(training, held, kept)
    if training.offload is Offload.PARAMETERS:
        weights, gradients, optimizer, temporaries = 0.0, 0.0, 0.0, 0.0
    if training.offload is Offload.OPTIMIZER:
        optimizer, temporaries = 0.0, 0.0
    if training.optimizer is Optimizer.PAGED_ADAMW_8BIT:
        optimizer = 0.0
    if training.has_reference:
        frozen = 2 * (shard if sharding in (Sharding.ZERO3, Sharding.FSDP) else whole)
        weights += 0.0 if training.offload is Offload.PARAMETERS else frozen
    return States(
        weights=weights,
        gradients=gradients,
        optimizer=optimizer,
        step_temporaries=temporaries,
        trained=whole,
    )


def _bytes_each(training: Training, stage: Stage) -> tuple[float, float, float]:
    """Return bytes a parameter of weights, gradients, and of one optimizer temporary.

    Q-GaLore keeps the matrices it projects in 8 bits, embedding, head and norms as they were;
    gradients have the type that products are computed in.
    """
    sharding = training.layout.sharding
    if training.optimizer is Optimizer.Q_GALORE:
        plain = _float_bytes(training)
        small = min(_projected_parameters(training, stage) / stage.parameters, 1.0)
        return EIGHT_BIT * small + plain * (1 - small), plain, plain
    if training.precision is Precision.FP32:
        return 4.0, 4.0, 4.0
    if not training.master:
        return 2.0, 2.0, 2.0
    if sharding in (Sharding.FSDP, Sharding.NONE):
        return 4.0, 4.0, 4.0
    if sharding is Sharding.DISTRIBUTED_OPTIMIZER:
        return 2.0, 2.0 if training.reduces_in_16_bit else 4.0, 4.0
    return 2.0, 2.0, 4.0


def _optimizer_bytes(training: Training, stage: Stage, parameters: float) -> float:
    """Return the optimizer's bytes for ``parameters`` held on this rank."""
    weight, _, _ = _bytes_each(training, stage)
    master = 4.0 if training.master and weight < 4.0 else 0.0
    wide = training.master or training.precision is Precision.FP32
    moment = 4.0 if wide else 2.0
    if training.optimizer in GALORE_FAMILY:
        return master * parameters + _galore(training, stage) * parameters / stage.parameters
    each = MOMENT_BYTES.get(training.optimizer, 2 * moment)
    if training.optimizer in (Optimizer.LION, Optimizer.MUON):
        each = moment
    if training.optimizer is Optimizer.LISA:
        each *= LISA_LAYERS / training.model.layers
    return (master + each) * parameters


LISA_LAYERS = 2
"""Layers LISA trains at a time by default (2403.17919)."""


EIGHT_BIT = 1.02
"""Bytes of a number in 8 bits with its share of a 32-bit scale for 256 of them."""


def _float_bytes(training: Training) -> float:
    return 4.0 if training.precision is Precision.FP32 else 2.0


def _galore(training: Training, stage: Stage) -> float:
    """Return GaLore's bytes for the whole stage: projected matrices, full Adam for the rest.

    Moments and projectors have the type of the weights; 8 bits for the moments of the 8-bit
    kinds, 4 for Q-GaLore's projectors (0.5 and two 32-bit numbers for 256).
    """
    plain = _float_bytes(training)
    moment = plain if training.optimizer is Optimizer.GALORE else EIGHT_BIT
    projector = 0.5 + 8 / 256 if training.optimizer is Optimizer.Q_GALORE else plain
    projected = 0.0
    for linear, copies in _projected(training, stage):
        short, long = sorted((linear.inputs, linear.outputs))
        rank = min(training.galore_rank, short)
        projected += copies * (2 * moment * rank * long + projector * rank * short)
    matrices = _projected_parameters(training, stage)
    return projected + 2 * moment * max(stage.parameters - matrices, 0.0)


def _projected(training: Training, stage: Stage) -> Iterator[tuple[Linear, float]]:
    """Yield the matrices that GaLore projects, with their copies on this stage's rank."""
    model = training.model
    share = stage.layers / model.layers
    for linear in counting.linears(model):
        yield linear, linear.copies * linear.layers * share / training.layout.tensor


def _projected_parameters(training: Training, stage: Stage) -> float:
    return sum(copies * linear.parameters for linear, copies in _projected(training, stage))


def _step_temporaries(training: Training, held: float, each: float) -> float:
    """Return what the optimizer step needs for a moment.

    torch's AdamW takes the square root of every second moment at once (``foreach``), one more
    copy of the parameters it holds; DeepSpeed's makes 32-bit gradients a billion at a time;
    InternEvo's flattens the gradients, widens them, and then runs torch's; a fused or 8-bit
    kernel needs nothing.
    """
    if training.in_backward or training.optimizer is not Optimizer.ADAMW:
        return 0.0
    if training.engine is Engine.INTERNEVO:
        return (2 + 4 + 4) * held
    if training.layout.sharding in (Sharding.ZERO1, Sharding.ZERO2, Sharding.ZERO3):
        return 4 * min(held, ZERO_SUB_GROUP)
    if training.engine is not Engine.TRANSFORMERS:
        return 0.0
    return each * held


ZERO_SUB_GROUP = 1e9
"""DeepSpeed's ``sub_group_size``: parameters updated at once."""


def _adapter(training: Training, stage: Stage) -> States:
    layout = training.layout
    sharded = layout.sharding in (Sharding.ZERO3, Sharding.FSDP)
    base = frozen_bytes(training, stage)
    if sharded:
        base /= layout.shards
    trained = adapter_parameters(training, stage)
    held = trained / layout.shards if sharded else trained
    each = 2.0 if training.engine is Engine.NATIVE and not training.master else 4.0
    extra = 0.0
    if training.trains_embedding:
        extra = (stage.embedding + stage.head) * (1 / layout.shards if sharded else 1.0)
    moments = MOMENT_BYTES.get(training.optimizer, 2 * each)
    whole = 2.0 if each == 2.0 or training.precision is not Precision.FP32 else 4.0
    optimizer = moments * held + 2 * whole * extra
    weights = base + each * held + whole * extra
    gradients = each * held + whole * extra
    temporaries = gradients if training.engine is Engine.TRANSFORMERS else 0.0
    if training.offload in (Offload.OPTIMIZER, Offload.PARAMETERS):
        optimizer = temporaries = 0.0
    if training.offload is Offload.PARAMETERS:
        weights = gradients = 0.0
    return States(
        weights=weights,
        gradients=gradients,
        optimizer=optimizer,
        step_temporaries=temporaries,
        trained=trained + extra,
    )


def adapter_parameters(training: Training, stage: Stage) -> float:
    """Return the adapter's parameters on this stage, split over tensor-parallel ranks."""
    model = training.model
    count = counting.adapter(model, training.lora_rank, training.lora_targets, dora=training.dora)
    return count * stage.layers / model.layers / training.layout.tensor


def frozen_bytes(training: Training, stage: Stage) -> float:
    """Return the bytes of the frozen base on this stage, before data sharding.

    Quantisers leave embedding, head and norms alone; without sharding, PEFT's
    ``prepare_model_for_kbit_training`` then widens those to 32 bit under bitsandbytes.
    """
    plain = 4.0 if training.precision is Precision.FP32 else 2.0
    if training.quantisation is Quantisation.NONE:
        return plain * stage.parameters
    small = QUANTISED_BYTES[training.quantisation]
    rest = 4.0 if widens(training) else plain
    return small * (stage.block + stage.experts) + rest * (stage.embedding + stage.head)


def widens(training: Training) -> bool:
    """Return whether unquantised weights, and so the residual stream, are 32-bit."""
    return (
        training.quantisation in (Quantisation.NF4, Quantisation.NF4_DOUBLE, Quantisation.INT8)
        and training.engine is Engine.TRANSFORMERS
        and training.layout.sharding is Sharding.NONE
    )


def largest_linear(model: Model) -> Linear:
    """Return the largest single matrix of a layer: what a dequantiser writes out at once."""
    return max(counting.linears(model), key=lambda linear: (linear.parameters, linear.name))
