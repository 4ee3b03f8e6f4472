"""How much memory one GPU needs at its worst moment, by part.

A training step has three moments at which memory can peak: the loss (all activations and the
logits), the backward pass of a layer, and the optimizer step.  Each is summed from states,
activations and temporaries; the largest is the estimate, and its parts are shown.

Sources: ``states``, ``activations``; logits: Liger (2410.10989), section 3; overheads: the
fitted constants of ``constants``.
"""

from dataclasses import dataclass, replace

from reconciler.estimating.activations import Kept, kept, tower
from reconciler.estimating.constants import MemoryConstants
from reconciler.estimating.states import (
    Stage,
    States,
    adapter_parameters,
    frozen_bytes,
    largest_linear,
    stages,
    states,
)
from reconciler.estimating.training import (
    NO_LOGITS,
    Engine,
    Lengths,
    Loss,
    Offload,
    Precision,
    Quantisation,
    Sharding,
    Task,
    Training,
)

GIB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """GiB on one GPU.  Their sum is what the device must give."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    logits: float
    temporaries: float
    """Gradients inside a layer, dequantised weights, the optimizer's scratch."""
    buffers: float
    """Gathered layers, reduction buckets, the rollout engine's pool."""
    runtime: float
    """CUDA context, communicators, workspaces, and what the allocator holds beyond its use."""

    def total(self) -> float:
        """Return the sum of all parts."""
        return (
            self.weights
            + self.gradients
            + self.optimizer
            + self.activations
            + self.logits
            + self.temporaries
            + self.buffers
            + self.runtime
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The peak of one GPU, GiB, as the three instruments count it."""

    allocated_gib: float
    """Tensors: ``torch.cuda.max_memory_allocated``."""
    reserved_gib: float
    """The allocator's pools: ``max_memory_reserved``."""
    device_gib: float
    """What ``nvidia-smi`` shows: context and communicators too."""
    states_gib: float
    """Weights, gradients and optimizer: exact by arithmetic."""
    peak: str
    """``loss``, ``backward``, ``step``, or ``rollout`` of a GRPO job."""
    parts: Parts


def memory(training: Training, constants: MemoryConstants) -> Memory:
    """Return the peak memory of the fullest GPU."""
    found = [_stage_memory(training, constants, stage) for stage in stages(training)]
    return max(found, key=lambda one: one.device_gib)


def _stage_memory(training: Training, constants: MemoryConstants, stage: Stage) -> Memory:
    held = states(training, stage)
    acts = kept(training, constants, layers=stage.layers, in_flight=stage.in_flight)
    if stage.has_embedding:
        acts = replace(acts, stored=acts.stored + tower(training))
    logits = _logits(training, constants) if stage.has_head else 0.0
    buffers = _buffers(training, constants, stage, held)
    dequantised = _dequantised(training)
    moments = {
        "loss": _moment(training, held, acts.stored, logits, dequantised, at_loss=True),
        "backward": _backward(training, held, acts, dequantised),
        "step": _moment(training, held, 0.0, 0.0, held.step_temporaries, at_loss=False),
    }
    asleep, awake = _rollout(training)
    if awake:
        moments["rollout"] = (0.0, 0.0, 0.0, awake)
    peak = max(moments, key=lambda name: sum(moments[name]))
    gradients, activations, at_logits, temporaries = moments[peak]
    buffers += asleep
    static = held.weights + held.optimizer
    dynamic = gradients + activations + at_logits + temporaries + buffers
    allocated = static + dynamic + constants.workspace_gib * GIB
    reserved = allocated + _fragmentation(training, constants, dynamic, static)
    outside = constants.context_gib + constants.communicator_gib * _groups(training)
    device = reserved + outside * GIB
    return Memory(
        allocated_gib=allocated / GIB,
        reserved_gib=reserved / GIB,
        device_gib=device / GIB,
        states_gib=(static + held.gradients) / GIB,
        peak=peak,
        parts=Parts(
            weights=held.weights / GIB,
            gradients=gradients / GIB,
            optimizer=held.optimizer / GIB,
            activations=activations / GIB,
            logits=at_logits / GIB,
            temporaries=temporaries / GIB,
            buffers=buffers / GIB,
            runtime=(device - static - dynamic) / GIB,
        ),
    )


Moment = tuple[float, float, float, float]
"""Gradients, activations, logits, temporaries: what differs between the moments."""


def _moment(
    training: Training,
    held: States,
    activations: float,
    logits: float,
    temporaries: float,
    *,
    at_loss: bool,
) -> Moment:
    """Return one moment.  Gradients exist at the loss only where they outlive a micro-batch."""
    gradients = 0.0 if at_loss and not _keeps_gradients(training) else held.gradients
    return gradients, activations, logits, temporaries


def _keeps_gradients(training: Training) -> bool:
    """Return whether gradients (or buffers for them) exist during the forward pass.

    They do while micro-batches accumulate, and where an engine allocates them once: Megatron's
    gradient buffer, DeepSpeed's partitions.
    """
    if training.in_backward:
        return False
    return training.accumulation > 1 or training.layout.sharding in (
        Sharding.DISTRIBUTED_OPTIMIZER,
        Sharding.ZERO1,
        Sharding.ZERO2,
        Sharding.ZERO3,
    )


SLEEPING_GIB = 1.5
"""What vLLM keeps of its device memory in sleep mode: context and communicators."""


def _rollout(training: Training) -> tuple[float, float]:
    """Return bytes the rollout engine holds all the time, and more while it samples."""
    pool = training.rollout.pool_gib * GIB
    if training.task is not Task.GRPO or not pool:
        return 0.0, 0.0
    if not training.rollout.sleeps:
        return pool, 0.0
    kept_back = min(SLEEPING_GIB * GIB, pool)
    return kept_back, pool - kept_back


def _backward(training: Training, held: States, acts: Kept, dequantised: float) -> Moment:
    """Return the backward moment: at its start all activations, at its end all gradients."""
    inside = acts.working + acts.transient + dequantised
    start = 0.0 if not _keeps_gradients(training) else held.gradients
    if acts.stored + start >= held.gradients:
        return start, acts.stored + acts.working, 0.0, acts.transient + dequantised
    return held.gradients, acts.working, 0.0, inside - acts.working


def _logits(training: Training, constants: MemoryConstants) -> float:
    """Return the bytes of logits and loss at their peak on the rank that holds the head."""
    if training.task in NO_LOGITS or training.loss is Loss.NONE:
        return 0.0
    layout = training.layout
    tokens = training.micro_tokens / layout.context
    logits = tokens * training.model.vocab / layout.tensor
    held = logits * _logit_bytes(training) * constants.logit_overlap
    if training.lengths is Lengths.CHURNING:
        held *= 1 + constants.churn * min(1.0, constants.churn_tokens / training.seq_len)
    return held


def _logit_bytes(training: Training) -> float:
    """Return the bytes of all copies of one logit that a loss makes.

    transformers: 32-bit logits (the 16-bit ones are gone by then), log-softmax and gradient,
    before 4.45 a shifted copy too; plain torch recipes keep the 16-bit ones. A model that
    leaves the width to autocast stays in 16 bit without it. Megatron's vocabulary-parallel loss
    works in place; preference losses gather log-probabilities from 16-bit logits; a chunked
    loss holds 16-bit logits and gradients and widens one chunk; a fused one holds neither.
    """
    if training.loss is Loss.FUSED:
        return 0.3
    if training.loss is Loss.IN_PLACE:
        return 4.0
    if training.loss is Loss.CHUNKED:
        return 2 + 2 + 12 / CHUNKS
    if training.task in (Task.DPO, Task.GRPO):
        return 8.0
    if not training.model.widens_logits and training.layout.sharding in DEEPSPEED:
        return 2 + 2 + 2 + 2.0
    return LOGIT_BYTES[training.engine] + 4.0 * training.shifts_logits


LOGIT_BYTES = {
    Engine.TRANSFORMERS: 4 + 4 + 4.0,
    Engine.NATIVE: 2 + 4 + 4 + 4.0,
    Engine.MEGATRON: 2 + 4 + 4 + 2.0,
    Engine.INTERNEVO: 2 + 4 + 4 + 4.0,
}
DEEPSPEED = frozenset({Sharding.ZERO1, Sharding.ZERO2, Sharding.ZERO3})

CHUNKS = 8
"""Pieces a chunked cross-entropy cuts the sequence into (torchtune's default)."""


def _dequantised(training: Training) -> float:
    """Return the bytes of one matrix written out for a product with quantised weights.

    bitsandbytes writes 16-bit numbers; GPTQ's torch kernels unpack through 32-bit integers.
    """
    if training.quantisation is Quantisation.NONE:
        return 0.0
    each = 6.0 if training.quantisation in (Quantisation.GPTQ4, Quantisation.GPTQ8) else 2.0
    return each * largest_linear(training.model).parameters / training.layout.tensor


def _buffers(training: Training, constants: MemoryConstants, stage: Stage, held: States) -> float:
    """Return the bytes of gathered layers, reduction buckets and the rollout engine."""
    layout, sharding = training.layout, training.layout.sharding
    pool = 0.0
    if sharding in (Sharding.ZERO3, Sharding.FSDP) and layout.shards > 1:
        pool = _gathered(training, constants, stage)
    if training.engine is Engine.INTERNEVO:
        pool += 2 * INTERNEVO_BUCKET_BYTES
    elif sharding is Sharding.ZERO2:
        pool += 2 * min(held.gradients, BUCKET_BYTES)
    elif sharding is Sharding.NONE and layout.data > 1:
        pool += held.gradients  # DDP's buckets are a second copy of the gradients
    if layout.tensor > 1 and layout.sequence:
        # the whole sequence in front of a split matrix, and its gradient
        element = 4.0 if training.precision is Precision.FP32 else 2.0
        tokens = training.micro_tokens / layout.context
        pool += 2 * element * tokens * training.model.hidden
    return pool


BUCKET_BYTES = 4e8
"""DeepSpeed's reduction bucket: 2e8 16-bit numbers, two of them when it overlaps."""


INTERNEVO_BUCKET_BYTES = 2.0**30
"""InternEvo's ``reduce_bucket_size``: 2^29 16-bit numbers."""


def _gathered(training: Training, constants: MemoryConstants, stage: Stage) -> float:
    """Return the bytes of units made whole: the layer in use, the next one, and the head.

    FSDP2 (torchtitan) and ZeRO-3 both prefetch one unit; a trained unit's gradient is whole
    until it is reduced, in 32 bit where gradients are summed in 32 bit.
    """
    layers = max(stage.layers, 1)
    depth = constants.streamed_layers if training.offload is Offload.PARAMETERS else 2.0
    unit = (stage.block + stage.experts) / layers
    element = 4.0 if training.precision is Precision.FP32 else 2.0
    vocabulary = element * max(stage.embedding, stage.head)
    if training.is_adapter:
        frozen = frozen_bytes(training, stage) - element * (stage.embedding + stage.head)
        adapter = 4 * adapter_parameters(training, stage) / layers
        return depth * (frozen / layers + adapter) + vocabulary
    if training.layout.pipeline > 1 and training.layout.sharding is Sharding.FSDP:
        return 2 * element * unit
    wide = training.master and training.layout.sharding is Sharding.FSDP
    gradient = 4.0 if wide else element
    return depth * element * unit + gradient * unit + vocabulary


def _groups(training: Training) -> int:
    """Return how many kinds of rank groups the layout talks in."""
    layout = training.layout
    sizes = (layout.data, layout.tensor, layout.pipeline, layout.context, layout.expert)
    return sum(size > 1 for size in sizes)


def _fragmentation(
    training: Training, constants: MemoryConstants, dynamic: float, static: float
) -> float:
    """Return the bytes the allocator holds beyond the tensors."""
    share = constants.fragmentation
    if training.lengths is not Lengths.FIXED:
        share = constants.fragmentation_variable
    held = share * dynamic
    if training.layout.sharding is Sharding.FSDP:
        held += constants.fragmentation_gathered * (static + dynamic)
    if training.layout.sharding in DEEPSPEED:
        held += constants.fragmentation_zero * (static + dynamic)
    return held
