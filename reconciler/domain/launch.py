"""What a launcher is asked to run, and where."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reconciler.domain.cluster import Allocation, DeviceKind
from reconciler.domain.units import AttemptId, CommitId, JobId, Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRef:
    """An attempt and its run directory, relative to the launcher's root."""

    attempt: AttemptId
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """Everything a launcher needs; ``request`` is the whole of ``request.json``."""

    run: RunRef
    job: JobId
    allocation: Allocation
    device_kind: DeviceKind
    processes: int
    """Trainer processes in all; on CPU slots at most two, one thread each."""
    grace_s: Seconds
    command: tuple[str, ...] | None = None
    """argv of a ``run:`` job; None: the trainer."""
    request: Mapping[str, Any] = field(default_factory=dict)


def generation_path(job: JobId, submission: CommitId, generation: int) -> str:
    """Return ``<team>/<job>/<submission[:10]>-g<generation>``: what its attempts share."""
    return f"{job}/{submission[:10]}-g{generation}"


def run_path(job: JobId, submission: CommitId, generation: int, number: int) -> str:
    """Return the run directory of one attempt, relative to the launcher's root."""
    return f"{generation_path(job, submission, generation)}/a{number}"
