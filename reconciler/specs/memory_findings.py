"""Would this run fit the devices it may get?  Sure failures are refused, likely ones warned of.

Refused is a job whose expected peak times its class's factor k is more than the usable memory of
every device type that will do, at the size its batch keys are meant for.  Within the margin, where
one run in ten would need more than there is, it is a warning.  The numbers are those of
:mod:`reconciler.specs.estimates`; a fleet's own measurements change what a plan says, never what
a commit means.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from reconciler.domain.cluster import DeviceKind
from reconciler.domain.job import JobSpec, SizeEstimate
from reconciler.specs.capacity import Capacity, DeviceType
from reconciler.specs.codes import Code
from reconciler.specs.convert import gpu_request
from reconciler.specs.estimates import (
    Estimated,
    devices_for,
    estimated_of,
    estimates,
    margin_of,
    needed_gib,
    smallest_fitting,
)
from reconciler.specs.findings import Finding

FEWEST_LOOKED_AT = 64
"""The smallest fitting gang is looked for up to this size on a cluster that has fewer devices."""


def foreseen(
    spec: JobSpec,
    document: Mapping[str, Any],
    capacity: Capacity,
    known: Iterable[Sequence[Any]] = (),
) -> tuple[Estimated, list[Finding]]:
    """Return the estimates of a job and what they say against it.

    ``known`` are rows of the same document, of which one for the same hardware is used again.
    """
    same = next((row for row in known if row[0] == capacity.hardware), None)
    found = estimates(spec, document, capacity) if same is None else estimated_of(same)
    return found, list(memory_findings(spec, document, found, capacity))


def with_memory(
    spec: JobSpec, document: Mapping[str, Any], capacity: Capacity, found: Estimated
) -> JobSpec:
    """Return ``spec`` with its estimates, asking only for devices on which it can fit."""
    asked = [one for one in found.sizes if one.gpus == spec.gpus.count]
    needed = min((needed_gib(one) for one in asked), default=0.0)
    gpus = gpu_request(document["resources"], capacity, needed)
    return replace(spec, gpus=gpus, estimates=found.sizes)


def memory_findings(
    spec: JobSpec, document: Mapping[str, Any], found: Estimated, capacity: Capacity
) -> Iterator[Finding]:
    """Yield what the estimates say against a job: at most one finding."""
    if found.failure is not None:
        key, message, hint = found.failure
        code = Code.UNKNOWN_MODEL if key == "model" else Code.TRAIN_RULE
        yield Finding(("train", key) if key else ("train",), code, message, hint)
        return
    devices = {each.name: each for each in devices_for(spec, capacity)}
    asked = [
        (one, devices[one.gpu_type])
        for one in found.sizes
        if one.gpus == spec.gpus.count and one.gpu_type in devices
    ]
    if not asked or any(one.is_cpu for one, _ in asked):
        return
    fitting = [(one, device) for one, device in asked if needed_gib(one) <= device.memory_gib]
    if not fitting:
        yield _refusal(spec, document, asked, capacity)
    elif all(_is_tight(one, device) for one, device in fitting):
        one, device = fitting[0]
        yield Finding(
            ("resources", "gpus"),
            Code.TIGHT_MEMORY,
            f"{_expected(spec, one, device)}: it may run out of memory",
            "a smaller per_device_train_batch_size or max_length; `headway estimate` shows the "
            "parts",
            is_warning=True,
        )


def _is_tight(one: SizeEstimate, device: DeviceType) -> bool:
    return one.memory_gib * margin_of(one).p90 > device.memory_gib


def _refusal(
    spec: JobSpec,
    document: Mapping[str, Any],
    asked: Sequence[tuple[SizeEstimate, DeviceType]],
    capacity: Capacity,
) -> Finding:
    one, device = max(asked, key=lambda pair: (pair[1].memory_gib, pair[1].name))
    return Finding(
        ("resources", "gpus"),
        Code.DOES_NOT_FIT,
        f"{_expected(spec, one, device)}: it would run out of memory",
        _way_out(spec, document, capacity),
    )


def _expected(spec: JobSpec, one: SizeEstimate, device: DeviceType) -> str:
    high = one.memory_gib * margin_of(one).p90
    return (
        f"{one.memory_gib:.1f} GiB a GPU is expected on {spec.gpus.count} x {device.name}, "
        f"{high:.1f} in one of ten such runs, of {device.memory_gib:g} usable"
    )


def _way_out(spec: JobSpec, document: Mapping[str, Any], capacity: Capacity) -> str:
    """Return the smallest gang that fits, or where layouts that do are listed."""
    own = devices_for(spec, capacity)
    others = [each for each in capacity.types if each.kind is DeviceKind.GPU]
    largest = max(sum(len(node.devices) for node in capacity.cluster.nodes), FEWEST_LOOKED_AT)
    for devices in (own, others):
        found = smallest_fitting(spec, document, devices, largest)
        if found is not None:
            return f"the smallest gang that fits is {found[0]} x {found[1]}"
    model, gpu = document["train"]["model"], own[0].name if own else "TYPE"
    return (
        "no number of GPUs fits with this layout and batch; "
        f"`headway advise {model} --gpus {spec.gpus.count} --type {gpu}` lists what does"
    )
