"""What will a changed job need?  Memory of one device against what it has, time, GPU-hours.

Of the first device type of its sizes at the gang asked for: the same numbers the planner uses, so
the verdict of a plan and what is planned can not disagree.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from reconciler.domain.cluster import Cluster
from reconciler.domain.job import GangSize, JobSpec
from reconciler.domain.units import Seconds
from reconciler.snapshots.sizes import usable_gib
from reconciler.specs.estimates import margin_of


class MemoryVerdict(StrEnum):
    FITS = "fits"
    TIGHT = "tight"
    """One in ten such runs needs more than there is."""
    DOES_NOT_FIT = "does_not_fit"
    COUNTED = "counted"
    """On CPU slots, or on devices nobody declared: nothing to compare with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Expected of the whole job; memory in GiB of one device, None where nothing is known."""

    gpus: int
    gpu_type: str
    duration_p50_s: Seconds
    duration_p90_s: Seconds
    memory_p50_gib: float | None = None
    memory_p90_gib: float | None = None
    usable_gib: float | None = None
    verdict: MemoryVerdict | None = None

    @property
    def gpu_hours(self) -> float:
        """Return the expected GPU-hours of the whole job."""
        return self.gpus * self.duration_p50_s / 3600


def needs(spec: JobSpec, sizes: tuple[GangSize, ...], cluster: Cluster) -> Needs | None:
    """Return what ``spec`` needs at the size asked for; None where that is no legal size."""
    size = next((each for each in sizes if each.gpus == spec.gpus.count), None)
    if size is None:
        return None
    known = Needs(
        gpus=size.gpus,
        gpu_type=size.gpu_type,
        duration_p50_s=size.duration_p50_s,
        duration_p90_s=size.duration_p90_s,
        memory_p50_gib=size.memory_p50_gib,
        memory_p90_gib=size.memory_p90_gib,
    )
    if size.memory_p50_gib is None or size.memory_p90_gib is None:
        return known
    one = next(each for each in spec.estimates if each.gpu_type == size.gpu_type)
    usable = None if one.is_cpu else usable_gib(cluster).get(size.gpu_type)
    verdict = MemoryVerdict.COUNTED
    if usable is not None:
        verdict = MemoryVerdict.FITS
        if size.memory_p90_gib > usable:
            verdict = MemoryVerdict.TIGHT
        if size.memory_p50_gib * margin_of(one).fits > usable + 0.01:
            verdict = MemoryVerdict.DOES_NOT_FIT
    return replace(known, usable_gib=usable, verdict=verdict)
