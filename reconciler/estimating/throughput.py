"""How long a training step takes, from arithmetic, memory traffic, launches and exchange.

A roofline per kind of work (Williams et al., 2009): matrix products at a share of the peak that
falls with the device's arithmetic per byte; point-wise work at memory bandwidth; a host that
must launch every kernel; communication that computation partly hides; pipeline bubbles.
"""

from dataclasses import dataclass

from reconciler.estimating import counting, flops
from reconciler.estimating.activations import layer
from reconciler.estimating.communication import bubble, communication
from reconciler.estimating.constants import Constants, SpeedConstants
from reconciler.estimating.hardware import Gpu
from reconciler.estimating.states import Stage, stages, states
from reconciler.estimating.training import (
    Attention,
    Checkpointing,
    Engine,
    Lengths,
    Offload,
    Optimizer,
    Precision,
    Quantisation,
    Sharding,
    Training,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """One optimizer step of the whole gang."""

    step_s: float
    tokens_per_s_per_gpu: float
    mfu: float
    """Model operations over the 16-bit peak, recomputation not counted."""
    compute_s: float
    exposed_s: float
    """Communication on the critical path."""
    bubble_s: float
    update_s: float


def speed(training: Training, gpu: Gpu, constants: Constants) -> Speed:
    """Return the step time of the slowest stage and what follows from it."""
    c = constants.speed
    layout, count = training.layout, training.accumulation
    stage = max(stages(training), key=lambda one: _busy(training, gpu, one, constants))
    compute = _busy(training, gpu, stage, constants)
    talk = communication(training, gpu, stage, c)
    hidden = talk.hidden_micro_s
    micro = max(compute, hidden) + c.exposed * min(compute, hidden) + talk.blocking_micro_s
    idle = bubble(layout, count) * count * micro
    update = _update(training, gpu, stage, c)
    step = count * micro + idle + update + talk.step_s
    fill = c.variable_fill if training.lengths is not Lengths.FIXED else 1.0
    tokens = training.step_tokens * fill
    rate = tokens / step / layout.gpus
    return Speed(
        step_s=step,
        tokens_per_s_per_gpu=rate,
        mfu=rate * flops.model_flops(training) / (gpu.bf16_tflops * 1e12),
        compute_s=count * compute,
        exposed_s=count * (micro - compute) + talk.step_s,
        bubble_s=idle,
        update_s=update,
    )


ATTENTION_SHARES = {
    Attention.EAGER: 0.15,
    Attention.FLASH1: 0.30,
    Attention.SDPA: 0.60,
    Attention.FLASH: 0.60,
    Attention.FLASH3: 0.75,
}
"""Share of a large matrix product's rate: FlashAttention-2 (2307.08691) reports 25-40 % of the
peak for version 1 and 50-73 % for version 2, FlashAttention-3 (2407.08608) 75 %."""


def matmul_rate(
    training: Training, gpu: Gpu, constants: SpeedConstants, *, width: float, fp8: bool
) -> float:
    """Return operations a second of matrix products of ``width`` on ``gpu``."""
    ridge = gpu.bf16_tflops / max(gpu.memory_tb_s, 1e-6)
    share = constants.ridge / (constants.ridge + ridge) * width / (width + constants.narrow)
    gain = 1.0
    if fp8 and training.precision is Precision.FP8 and gpu.fp8_tflops:
        gain = constants.fp8_gain
    if training.precision is Precision.FP32:
        gain = 0.25
    return gpu.bf16_tflops * 1e12 * share * gain


def _busy(training: Training, gpu: Gpu, stage: Stage, constants: Constants) -> float:
    """Return seconds one micro-batch keeps a rank of ``stage`` busy."""
    c = constants.speed
    fill = c.variable_fill if training.lengths is not Lengths.FIXED else 1.0
    tokens = training.micro_tokens / training.layout.context * fill
    device = tokens * (
        _products(training, gpu, stage, c, tokens, fill) + _traffic(training, gpu, stage, constants)
    )
    device += _unpacking(training, gpu, stage, c)
    host = _host(training, stage, c)
    busy: float = (device**OVERLAP + host**OVERLAP) ** (1 / OVERLAP)
    return busy + _hooks(training, stage, c)


OVERLAP = 3.0
"""Device and host work side by side; the exponent smooths the change from one bound to the
other."""


def _products(
    training: Training, gpu: Gpu, stage: Stage, c: SpeedConstants, tokens: float, fill: float
) -> float:
    """Return seconds a token of matrix products and attention, all passes."""
    model, layout = training.model, training.layout
    share = stage.layers / model.layers / layout.tensor
    one = flops.forward(training)
    weights, attention = flops.passes(training)
    width = min(model.hidden, model.intermediate) / layout.tensor
    rate = matmul_rate(training, gpu, c, width=width, fp8=True)
    spent = weights * share * one.dense / rate
    if model.experts is not None:
        e = model.experts
        narrow = e.intermediate / (layout.tensor if layout.expert == 1 else 1)
        each = tokens * e.active / (e.count / layout.expert)
        grouped = matmul_rate(training, gpu, c, width=narrow, fp8=True)
        spent += weights * share * one.routed / (grouped * each / (each + c.expert_tokens))
    wide = matmul_rate(training, gpu, c, width=model.hidden, fp8=False)
    core = c.attention * ATTENTION_SHARES[_kernel(training)]
    if layout.context > 1 and layout.is_ring:
        core *= c.ring
    spent += attention * share * one.attention * fill / (wide * core)
    return spent + stage.has_head * weights * one.head / layout.tensor / wide


def _kernel(training: Training) -> Attention:
    """Return the attention kernel: Megatron runs cuDNN's where flash attention is asked for."""
    if training.engine is Engine.MEGATRON and training.attention is Attention.FLASH:
        return Attention.FLASH3
    return training.attention


def _traffic(training: Training, gpu: Gpu, stage: Stage, constants: Constants) -> float:
    """Return seconds a token of point-wise work at memory bandwidth."""
    layout = training.layout
    kept = layer(training, constants.memory).per_rank(layout.tensor, sequence=layout.sequence)
    again = 4 / 3 if training.checkpointing is Checkpointing.FULL else 1.0
    moved = constants.speed.traffic * again * kept * stage.layers
    return moved / (max(gpu.memory_tb_s, 1e-6) * 1e12)


def _host(training: Training, stage: Stage, c: SpeedConstants) -> float:
    """Return seconds the host needs to launch a micro-batch's kernels.

    transformers before version 5 launches every expert by itself; an adapter on a matrix adds
    about a tenth of a layer's launches, DoRA's norm twice more.
    """
    weights, _ = flops.passes(training)
    units = float(stage.layers)
    model = training.model
    if model.experts is not None and training.engine is Engine.TRANSFORMERS:
        units *= 1 + model.experts.count / 8
    seconds = c.launch_s * units * (weights + 1) * (0.5 if training.is_fused else 1.0)
    if training.is_adapter:
        adapters = len(counting.trained_linears(model, training.lora_targets))
        seconds *= 1 + (0.3 if training.dora else 0.1) * adapters
    return seconds


def _hooks(training: Training, stage: Stage, c: SpeedConstants) -> float:
    """Return seconds ZeRO-3 spends around its modules, never hidden."""
    if training.layout.sharding is not Sharding.ZERO3:
        return 0.0
    experts = training.model.experts
    return c.hook_s * stage.layers * (1 + (experts.count if experts else 0))


LOW_BIT = frozenset({Optimizer.ADAMW_8BIT, Optimizer.ADAMW_4BIT, Optimizer.PAGED_ADAMW_8BIT})
"""Optimizers that widen their states, update, and narrow them again: 8 bytes more a parameter."""


def layout_shards(training: Training) -> int:
    """Return over how many ranks one replica's optimizer states are spread."""
    return 1 if training.layout.sharding is Sharding.NONE else training.layout.shards


def _unpacking(training: Training, gpu: Gpu, stage: Stage, constants: SpeedConstants) -> float:
    """Return seconds to dequantise the stage's weights in every pass over them."""
    if training.quantisation is Quantisation.NONE:
        return 0.0
    gptq = training.quantisation in (Quantisation.GPTQ4, Quantisation.GPTQ8)
    each = constants.gptq_bytes if gptq else constants.dequantise_bytes
    passes = 3.0 if training.checkpointing is Checkpointing.FULL else 2.0
    return passes * each * (stage.block + stage.experts) / (gpu.memory_tb_s * 1e12)


def _update(training: Training, gpu: Gpu, stage: Stage, constants: SpeedConstants) -> float:
    """Return seconds of the optimizer step: every state is read and written once."""
    held = states(training, stage)
    touched = 2 * (held.gradients + held.optimizer)
    if not training.is_adapter:
        touched += 2 * held.weights
    if training.optimizer in LOW_BIT:
        touched += 8 * held.trained / layout_shards(training)
    seconds = touched / (max(gpu.memory_tb_s, 1e-6) * 1e12)
    if training.offload in (Offload.OPTIMIZER, Offload.PARAMETERS) and not training.is_adapter:
        mine = stage.parameters / training.layout.shards
        seconds += mine / constants.host_update + 6 * mine / (constants.host_gb_s * 1e9)
    return seconds
