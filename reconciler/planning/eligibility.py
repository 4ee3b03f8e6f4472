"""May this job start at all, whatever its rank?

Asked of every job that wants devices, in this order: are its dependencies met, was it lost too
often, could it ever fit, is what it needs switched on, has it waited out its back-off.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.domain.job import GpuRequest, JobSpec, TopologyDomain
from reconciler.domain.policy import Policy
from reconciler.domain.reason import Reason
from reconciler.domain.status import JobPhase, JobStatus
from reconciler.domain.units import Instant, JobId
from reconciler.planning.placement import fits
from reconciler.planning.shapes import Shapes
from reconciler.planning.standing import Standing

_NEVER_SUCCEEDS = (JobPhase.FAILED, JobPhase.CANCELLED, JobPhase.DIVERGED)
_WITHIN = {
    TopologyDomain.NVLINK: "in one NVLink island",
    TopologyDomain.NODE: "in one node",
    TopologyDomain.RACK: "in one rack",
    TopologyDomain.CLUSTER: "in the cluster",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Why a job may not start now."""

    reason: Reason
    detail: str
    until: Instant | None = None
    """When the bar falls by itself, if that is known."""
    after: tuple[JobId, ...] = ()
    """Unfinished dependencies, sorted."""
    is_held: bool = False
    """A person must act: it is not ranked."""


def bar(
    status: JobStatus,
    spec: JobSpec,
    *,
    jobs: Mapping[JobId, Standing],
    shapes: Shapes,
    policy: Policy,
    now: Instant,
) -> Bar | None:
    """Return what keeps the job from being considered, or None."""
    failed = [job for job in spec.after if _can_never_succeed(jobs.get(job))]
    if failed:
        names = ", ".join(sorted(failed))
        return Bar(
            reason=Reason.DEPENDENCY_FAILED, detail=f"will not succeed: {names}", is_held=True
        )
    if status.lost > policy.retry.max_lost:
        return Bar(
            reason=Reason.LOST_TOO_OFTEN,
            detail=f"{status.lost} attempts were lost to the infrastructure; raise the generation",
            is_held=True,
        )
    asked = words(spec.gpus, shapes.where.unit)
    if not shapes.can_ever_fit(spec.gpus):
        return Bar(
            reason=Reason.NEVER_FITS,
            detail=f"needs {asked}; this cluster has no such place",
            is_held=True,
        )
    waiting = tuple(sorted(job for job in spec.after if not _has_succeeded(jobs.get(job))))
    if waiting:
        return Bar(
            reason=Reason.DEPENDENCY_RUNNING, detail=f"after {', '.join(waiting)}", after=waiting
        )
    if not fits(shapes.of(spec.gpus), shapes.where.ahead, shapes.where):
        return Bar(
            reason=Reason.NODES_UNAVAILABLE,
            detail=f"needs {asked}; nodes that have it are down, cordoned or draining",
        )
    if status.retry_at is not None and status.retry_at > now:
        return Bar(
            reason=Reason.RETRY_BACKOFF,
            detail=f"try {status.tries_used + 1} of {policy.retry.max_tries} comes after a pause",
            until=status.retry_at,
        )
    return None


def _can_never_succeed(dependency: Standing | None) -> bool:
    if dependency is None:
        return True
    return dependency.status is not None and dependency.status.phase in _NEVER_SUCCEEDS


def _has_succeeded(dependency: Standing | None) -> bool:
    return (
        dependency is not None
        and dependency.status is not None
        and dependency.status.phase is JobPhase.SUCCEEDED
    )


def words(request: GpuRequest, unit: str = "GPU") -> str:
    """Return a request as people say it: ``8 GPUs of type A100-80GB in one node``."""
    types = f" of type {' or '.join(request.types)}" if request.types else ""
    memory = f" with {request.min_memory_gib:g} GiB" if request.min_memory_gib else ""
    return f"{counted(request.count, unit)}{types}{memory} {_WITHIN[request.within]}"


def counted(count: int, unit: str = "GPU") -> str:
    """Return ``1 GPU`` or ``8 GPUs``."""
    return f"{count} {unit}{'' if count == 1 else 's'}"
