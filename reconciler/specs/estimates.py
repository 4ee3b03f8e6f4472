"""What do the formulas say of a job before a device is taken?  Memory and step time of each size.

Judged once a document, with the constants this release ships: the answer follows from the blob,
so it is cached with the verdict on it.  What the fleet's own runs teach is laid over it later,
where a snapshot is assembled.  A model that is a folder of some machine has no shape here: specs
are judged from blobs of a commit, never from a disk.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from reconciler.domain.cluster import DeviceKind
from reconciler.domain.job import JobSpec, SizeEstimate
from reconciler.estimating import counting
from reconciler.estimating.constants import Margin
from reconciler.estimating.estimate import resized
from reconciler.estimating.hardware import CPU, Gpu
from reconciler.estimating.margins import evidence, margin
from reconciler.estimating.memory import memory
from reconciler.estimating.model import Model
from reconciler.estimating.naming import UnknownNameError, gpu_like, gpu_named
from reconciler.estimating.throughput import speed
from reconciler.estimating.train_section import Setting, training_from
from reconciler.estimating.training import GALORE_FAMILY, Training
from reconciler.specs.capacity import Capacity, DeviceType
from reconciler.specs.convert import legal_sizes
from reconciler.specs.model_catalogue import model_named_here, shipped_constants, shipped_gpus

CPU_PROCESSES = 2
"""The launcher starts at most so many processes on CPU slots, whatever a job holds."""
LARGEST_GANG = 512
"""How far the smallest fitting gang is looked for."""


@dataclass(frozen=True, slots=True)
class Estimated:
    """Estimates of a job, or why there are none: a key of ``train:``, a message, a hint."""

    sizes: tuple[SizeEstimate, ...] = ()
    failure: tuple[str, str, str] | None = None
    """None with no sizes either: nothing can be said, and nothing is wrong."""

    def row(self, hardware: str) -> list[Any]:
        """Return this as JSON, with what it was judged for."""
        return [hardware, [list(each) for each in self.sizes], self.failure]


NOTHING = Estimated()


def estimated_of(row: Sequence[Any]) -> Estimated:
    """Return what :meth:`Estimated.row` wrote."""
    _, sizes, failure = row
    return Estimated(tuple(map(SizeEstimate._make, sizes)), failure and tuple(failure))


def estimates(spec: JobSpec, document: Mapping[str, Any], capacity: Capacity) -> Estimated:
    """Return the estimates of a job on every device type of the cluster that will do."""
    train = document.get("train")
    if train is None:
        return NOTHING
    name = str(train["model"])
    if is_folder(name):
        return NOTHING
    try:
        model = _model(name)
    except UnknownNameError as error:
        return Estimated(failure=("model", *_unknown(name, error)))
    devices = devices_for(spec, capacity)
    try:
        training = training_from(train, model, Setting(gpus=spec.gpus.count))
        if (failure := _rank_failure(training, train)) is not None:
            return Estimated(failure=failure)
        return Estimated(tuple(_sizes(spec, train, training, devices)))
    except (ValueError, ArithmeticError) as error:
        return Estimated(failure=("", f"train: {error}", "see docs/estimating.md"))


def devices_for(spec: JobSpec, capacity: Capacity) -> tuple[DeviceType, ...]:
    """Return the device types that will do; those the request names where the cluster is found
    out only on the machine."""
    if capacity.is_guess and spec.gpus.types:
        known = shipped_gpus()
        named = [(name, known.get(name.casefold())) for name in spec.gpus.types]
        return tuple(
            DeviceType(name, DeviceKind.GPU, gpu.memory_gib)
            for name, gpu in named
            if gpu is not None and gpu is not CPU
        )
    asked = spec.gpus.min_memory_gib
    return capacity.device_types(spec.gpus.types, asked)


def is_folder(name: str) -> bool:
    """Return whether a model's name is that of a folder on some machine."""
    return name.startswith((".", "/", "~")) or name.count("/") > 1


@lru_cache(maxsize=512)
def _model(name: str) -> Model:
    return model_named_here(name)


def _unknown(name: str, error: UnknownNameError) -> tuple[str, str]:
    hint = " or ".join(f"`{one}`" for one in error.nearest)
    folder = "a folder of your own is written with its path, such as `./models/mine`"
    return (
        f"there is no model `{name}` that headway knows",
        f"did you mean {hint}? {folder}" if hint else folder,
    )


def _rank_failure(training: Training, train: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Return why GaLore's rank leaves nothing to project; the trainer refuses it as well."""
    if training.optimizer not in GALORE_FAMILY or train.get("galore_target_modules"):
        return None
    sides = {one.name: min(one.inputs, one.outputs) for one in counting.linears(training.model)}
    smallest = min(sides, key=lambda name: (sides[name], name), default=None)
    if smallest is None or training.galore_rank <= sides[smallest]:
        return None
    return (
        "galore_rank",
        f"train.galore_rank {training.galore_rank} is above the smaller side of {smallest}, "
        f"{sides[smallest]}, where there is nothing left to project",
        f"write galore_rank: {max(sides[smallest] // 2, 1)}",
    )


def _sizes(
    spec: JobSpec, train: Mapping[str, Any], training: Training, devices: Iterable[DeviceType]
) -> Iterable[SizeEstimate]:
    constants = shipped_constants()
    counts = legal_sizes(spec)
    for gpus in (spec.gpus.count, *(each for each in counts if each != spec.gpus.count)):
        on_gpus: tuple[Training, float] | None = None
        for device in devices:
            gpu, is_cpu = hardware_of(device)
            if is_cpu:
                sized = on_slots(train, training.model, spec.gpus.count, gpus)
                peak = memory(sized, constants.memory).device_gib
            else:
                if on_gpus is None:  # memory is the same on every type
                    sized = resized(training, gpus)
                    on_gpus = sized, memory(sized, constants.memory).device_gib
                sized, peak = on_gpus
            yield SizeEstimate(
                gpus=gpus,
                gpu_type=device.name,
                memory_gib=round(peak, 3),
                evidence=evidence(sized).value,
                step_s=float(f"{speed(sized, gpu, constants).step_s:.4g}"),
                is_calibrated=constants.measured.get(gpu.name, 0) > 0,
                is_cpu=is_cpu,
            )


def on_slots(train: Mapping[str, Any], model: Model, asked: int, gpus: int) -> Training:
    """Return a training asked for ``asked`` slots as it runs on ``gpus``: the launcher starts
    two processes where the batch divides, else one.  Raises as ``training_from``."""
    whole = training_from(train, model, Setting(gpus=asked, is_cpu=True))
    try:
        return resized(whole, min(CPU_PROCESSES, gpus))
    except ValueError:
        return resized(whole, 1)


def hardware_of(device: DeviceType) -> tuple[Gpu, bool]:
    """Return what the formulas know of a device, and whether it is a CPU slot.

    An unknown GPU is taken for the smallest known one with its memory.
    """
    if device.kind is DeviceKind.CPU_SLOT:
        return CPU, True
    try:
        return gpu_named(device.name, shipped_gpus()), False
    except UnknownNameError:
        return gpu_like(device.name, device.memory_gib, shipped_gpus()), False


def needed_gib(one: SizeEstimate) -> float:
    """Return the usable memory below which a size surely fails, rounded down to 0.01 GiB."""
    if one.is_cpu:
        return 0.0
    return int(one.memory_gib * margin_of(one).fits * 100) / 100


def margin_of(one: SizeEstimate) -> Margin:
    """Return the shipped margin of the estimate's class."""
    found: Margin = getattr(shipped_constants().margins, one.evidence)
    return found


def smallest_fitting(
    spec: JobSpec, document: Mapping[str, Any], devices: Sequence[DeviceType], largest: int
) -> tuple[int, str] | None:
    """Return the smallest gang of at most ``largest`` that fits with the same layout and global
    batch, and on what; None where none does."""
    train = document["train"]
    constants = shipped_constants()
    training = training_from(train, _model(str(train["model"])), Setting(gpus=spec.gpus.count))
    k = margin(training, constants.margins).fits
    for gpus in range(1, min(largest, LARGEST_GANG) + 1):
        try:
            peak = memory(resized(training, gpus), constants.memory).device_gib
        except ValueError:
            continue
        for device in devices:
            if device.kind is DeviceKind.GPU and peak * k <= device.memory_gib:
                return gpus, device.name
    return None
