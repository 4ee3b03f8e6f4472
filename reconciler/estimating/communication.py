"""How long GPUs of one layout talk to each other in a training step.

Sources: ring collectives move (n - 1) / n of a buffer through each rank, all-reduce twice
that; ZeRO (1910.02054) section 7 for data parallelism; Megatron (1909.08053, 2104.04473) for
tensor and pipeline parallelism; DeepSpeed-Ulysses (2309.14509) and ring attention (2310.01889)
for contexts; two all-to-alls a pass and layer for experts.
"""

from dataclasses import dataclass

from reconciler.estimating.constants import SpeedConstants
from reconciler.estimating.hardware import Gpu
from reconciler.estimating.states import Stage, expert_shards
from reconciler.estimating.training import (
    Checkpointing,
    Layout,
    Offload,
    Precision,
    Sharding,
    Training,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Communication:
    """Seconds on one rank."""

    hidden_micro_s: float
    """A micro-batch, may overlap with computation: gathering sharded weights."""
    blocking_micro_s: float
    """A micro-batch, on the critical path: tensor, context and expert parallelism."""
    step_s: float
    """A step: gradients of whole replicas, updated parameters."""


def rate(gpu: Gpu, span: int, constants: SpeedConstants) -> float:
    """Return bytes a second through a rank of a collective over ``span`` consecutive GPUs.

    Inside a node the neighbour link, one way; across nodes all network ports of the node carry
    one ring's traffic together, never faster than the links inside.
    """
    inside = gpu.scale_up_gb_s / 2 * constants.link_share
    if not gpu.is_switched:
        inside = min(inside, inside * 2 / max(min(span, gpu.gpus_per_node), 2))
    if span <= gpu.gpus_per_node:
        return inside * 1e9
    across = gpu.scale_out_gb_s * gpu.gpus_per_node * constants.link_share
    return min(inside, across) * 1e9


def communication(
    training: Training, gpu: Gpu, stage: Stage, constants: SpeedConstants
) -> Communication:
    """Return what one rank of ``stage`` spends on exchange."""
    layout = training.layout
    micro, step = _data_parallel(training, gpu, stage, constants)
    blocking = (
        _tensor(training, gpu, stage, constants)
        + _context(training, gpu, stage, constants)
        + _expert(training, gpu, stage, constants)
    )
    if layout.pipeline > 1:
        size = 2.0 * training.micro_tokens / layout.context * training.model.hidden
        blocking += 2 * size * layout.virtual / rate(gpu, gpu.gpus_per_node + 1, constants)
    if training.offload is Offload.PARAMETERS:
        share = 2.0 * stage.parameters / layout.shards
        micro += 2 * share / (constants.host_gb_s * 1e9)
    return Communication(hidden_micro_s=micro, blocking_micro_s=blocking, step_s=step)


def _data_parallel(
    training: Training, gpu: Gpu, stage: Stage, constants: SpeedConstants
) -> tuple[float, float]:
    """Return seconds a micro-batch and a step."""
    layout = training.layout
    ranks = layout.data * layout.context
    if ranks == 1:
        return 0.0, 0.0
    trained = _trained(training, stage)
    gradient = 4.0 if training.layout.sharding is Sharding.DISTRIBUTED_OPTIMIZER else 2.0
    span = ranks * layout.tensor
    shared = layout.shards * layout.tensor
    share = (ranks - 1) / ranks
    whole = rate(gpu, span, constants)
    if layout.sharding in (Sharding.ZERO3, Sharding.FSDP):
        pipelined = layout.pipeline > 1
        gathered = (1.0 if pipelined else 2.0) * 2.0 * _stored(training, stage)
        spent = share * (gathered + 2.0 * trained) / rate(gpu, shared, constants)
        return (0.0, spent) if pipelined else (spent, 0.0)
    reduce = share * gradient * trained / whole
    gather = share * 2.0 * trained / rate(gpu, shared, constants)
    if layout.sharding is Sharding.ZERO1:
        gather += constants.broadcast_s * (layout.shards + ranks / layout.shards)
    if layout.sharding is Sharding.ZERO2:
        return reduce, gather
    return 0.0, reduce + gather


def _trained(training: Training, stage: Stage) -> float:
    """Return the parameters whose gradients replicas must exchange."""
    if training.is_adapter:
        return 0.01 * stage.parameters
    shards = expert_shards(training.layout)
    return stage.parameters - stage.experts * (shards <= 1)


def _stored(training: Training, stage: Stage) -> float:
    """Return the 16-bit-equivalent parameters that are gathered."""
    packed = 0.28 if training.quantisation.value in ("nf4", "nf4-double", "gptq4") else 1.0
    gain = 0.5 if training.precision is Precision.FP8 else 1.0
    return stage.parameters * packed * gain


def _repeats(training: Training) -> float:
    """Return passes over a layer a micro-batch: forward, backward, recomputation."""
    return 3.0 if training.checkpointing is Checkpointing.FULL else 2.0


def _tensor(training: Training, gpu: Gpu, stage: Stage, constants: SpeedConstants) -> float:
    t = training.layout.tensor
    if t == 1:
        return 0.0
    size = 2.0 * training.micro_tokens / training.layout.context * training.model.hidden
    each = 2 * (t - 1) / t * size / rate(gpu, t, constants)
    return 2 * _repeats(training) * each * stage.layers


def _context(training: Training, gpu: Gpu, stage: Stage, constants: SpeedConstants) -> float:
    c = training.layout.context
    if c == 1:
        return 0.0
    kv = 2 * training.model.kv_width / training.layout.tensor
    size = 2.0 * training.micro_tokens / c * kv
    span = c * training.layout.tensor
    return _repeats(training) * (c - 1) * size * stage.layers / rate(gpu, span, constants)


def _expert(training: Training, gpu: Gpu, stage: Stage, constants: SpeedConstants) -> float:
    model, layout = training.model, training.layout
    e = layout.expert
    if e == 1 or model.experts is None:
        return 0.0
    tokens = training.micro_tokens / layout.context
    size = 2.0 * tokens * model.hidden * model.experts.active * training.expert_imbalance
    size /= layout.tensor
    size *= (e - 1) / e * stage.layers * model.moe_layers / model.layers
    away = max(0.0, 1 - gpu.gpus_per_node / e)
    near = size * (1 - away) / rate(gpu, min(e, gpu.gpus_per_node), constants)
    far = size * away / (gpu.scale_out_gb_s * 1e9 * constants.link_share)
    return 2 * _repeats(training) * max(near, far)


def bubble(layout: Layout, micro_batches: int) -> float:
    """Return idle over busy time of a pipeline: (p - 1) / (v m), Narayanan et al., 2104.04473.

    Layers spread without a schedule work one GPU at a time: p - 1.
    """
    if layout.naive_pipeline:
        return layout.pipeline - 1.0
    return (layout.pipeline - 1) / (layout.virtual * micro_batches)
