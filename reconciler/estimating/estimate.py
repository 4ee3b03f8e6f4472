"""What a training run needs and how long it takes: the one entry for everybody who asks.

Pure and instant: a training, a GPU type and the constants go in, one value comes out.
"""

from dataclasses import dataclass, replace

from reconciler.estimating import counting
from reconciler.estimating.constants import Constants
from reconciler.estimating.hardware import Gpu
from reconciler.estimating.margins import Evidence, Fit, evidence, fit
from reconciler.estimating.memory import Memory, memory
from reconciler.estimating.throughput import Speed, speed
from reconciler.estimating.training import Offload, Precision, Training


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Memory of the fullest GPU, GiB, and the time of one optimizer step."""

    training: Training
    gpu: Gpu
    memory: Memory
    fit: Fit
    speed: Speed
    evidence: Evidence
    measured_runs: int
    """Published measurements on this GPU type; 0: uncalibrated."""
    notes: tuple[str, ...]
    """What a person should know beside the numbers."""

    @property
    def gpus(self) -> int:
        """Return the size of the gang."""
        return self.training.layout.gpus

    @property
    def p50_gib(self) -> float:
        """Return the expected peak of one GPU."""
        return self.fit.p50_gib

    @property
    def p90_gib(self) -> float:
        """Return the peak that nine of ten such runs stay under."""
        return self.fit.p90_gib

    @property
    def total_gib(self) -> float:
        """Return the expected peak of the whole gang."""
        return self.p50_gib * self.gpus

    @property
    def is_calibrated(self) -> bool:
        """Return whether anybody measured a run on this GPU type."""
        return self.measured_runs > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """A whole run of ``steps`` optimizer steps."""

    steps: int
    tokens: int
    duration_p50_s: float
    duration_p90_s: float
    gpu_hours: float
    cost: float | None
    """In the currency of the price given; None without one."""


def estimate(training: Training, gpu: Gpu, constants: Constants) -> Estimate:
    """Return memory, verdict and speed of ``training`` on gangs of ``gpu``."""
    learned = constants.refinement
    peak = memory(training, constants.memory)
    peak = scaled(peak, learned.memory.get(evidence(training).value, 1.0))
    return Estimate(
        training=training,
        gpu=gpu,
        memory=peak,
        fit=fit(training, peak, gpu, constants.margins),
        speed=faster(speed(training, gpu, constants), learned.speed.get(gpu.name, 1.0)),
        evidence=evidence(training),
        measured_runs=constants.measured.get(gpu.name, 0),
        notes=_notes(training, gpu, constants),
    )


def scaled(peak: Memory, factor: float) -> Memory:
    """Return a peak times ``factor``; what that adds counts as runtime, for want of a cause."""
    if factor == 1.0:
        return peak
    extra = (factor - 1) * peak.device_gib
    return replace(
        peak,
        allocated_gib=peak.allocated_gib * factor,
        reserved_gib=peak.reserved_gib * factor,
        device_gib=peak.device_gib * factor,
        parts=replace(peak.parts, runtime=peak.parts.runtime + extra),
    )


def faster(one: Speed, factor: float) -> Speed:
    """Return a speed times ``factor``, every share of the step alike."""
    if factor == 1.0:
        return one
    return Speed(
        step_s=one.step_s / factor,
        tokens_per_s_per_gpu=one.tokens_per_s_per_gpu * factor,
        mfu=one.mfu * factor,
        compute_s=one.compute_s / factor,
        exposed_s=one.exposed_s / factor,
        bubble_s=one.bubble_s / factor,
        update_s=one.update_s / factor,
    )


def course(
    one: Estimate, steps: int, constants: Constants, *, price_per_gpu_hour: float | None = None
) -> Course:
    """Return duration, GPU-hours and cost of ``steps`` optimizer steps."""
    seconds = steps * one.speed.step_s
    hours = seconds * one.gpus / 3600
    return Course(
        steps=steps,
        tokens=round(steps * one.speed.tokens_per_s_per_gpu * one.speed.step_s * one.gpus),
        duration_p50_s=seconds,
        duration_p90_s=seconds * constants.margins.duration_p90,
        gpu_hours=hours,
        cost=None if price_per_gpu_hour is None else hours * price_per_gpu_hour,
    )


def _notes(training: Training, gpu: Gpu, constants: Constants) -> tuple[str, ...]:
    notes = []
    if not constants.measured.get(gpu.name, 0):
        notes.append(f"{gpu.name} is uncalibrated: no published run on it was measured")
    if not gpu.has_bf16 and training.precision in (Precision.BF16, Precision.FP8):
        notes.append(f"{gpu.name} has no bfloat16: float16 needs loss scaling")
    if training.precision is Precision.FP8 and not gpu.fp8_tflops:
        notes.append(f"{gpu.name} has no 8-bit products: fp8 will not be faster")
    if training.offload in (Offload.OPTIMIZER, Offload.PARAMETERS):
        host = _host_gib(training)
        notes.append(f"the host needs about {host:,.0f} GiB for what is offloaded")
    linear = training.model.linear
    if linear is not None:
        notes.append(
            f"{linear.layers} of {training.model.layers} layers have linear attention; their "
            "activations are counted as full attention's"
        )
    return tuple(notes)


def _host_gib(training: Training) -> float:
    each = 16.0 if training.offload is Offload.PARAMETERS else 12.0
    if training.is_adapter:
        each = 2.0 if training.offload is Offload.PARAMETERS else 0.0
    return each * counting.total(training.model) / 1024**3


def resized(training: Training, gpus: int) -> Training:
    """Return the same training on ``gpus``: the global batch stays, accumulation changes.

    Raises ``ValueError`` that says which division leaves a rest.
    """
    layout = training.layout
    inner = layout.tensor * layout.pipeline * layout.context
    if gpus % inner:
        raise ValueError(
            f"{gpus} GPUs cannot hold {layout.tensor} x {layout.pipeline} x {layout.context} "
            f"(tensor x pipeline x context) parallel ranks: a multiple of {inner} is needed"
        )
    data = gpus // inner
    if (data * layout.context * layout.tensor) % layout.expert:
        raise ValueError(f"{gpus} GPUs cannot split the experts over {layout.expert} ranks evenly")
    batch = training.global_batch
    if batch % (data * training.micro_batch):
        raise ValueError(
            f"a global batch of {batch} does not divide into {data} replicas of "
            f"{training.micro_batch} samples"
        )
    return replace(
        training,
        layout=replace(layout, data=data),
        accumulation=batch // (data * training.micro_batch),
    )
