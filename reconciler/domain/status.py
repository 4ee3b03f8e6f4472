"""What the reconciler remembers of one job: the file ``status/<team>/<name>.json``.

Small and deterministic.  Heartbeats, steps and losses are not in it; they stay in the run
directory.  ``message`` holds no durations, no instants and no secrets, so that an unchanged
situation is an unchanged file.  The JSON spelling is ``reconciler.specs.serialize``.
"""

from dataclasses import dataclass
from enum import StrEnum

from reconciler.domain.attempt import Attempt
from reconciler.domain.cluster import Allocation
from reconciler.domain.job import PriorityClass, Submission
from reconciler.domain.reason import Reason
from reconciler.domain.reservation import OccurrenceTransition, ReservationStatus
from reconciler.domain.units import AttemptId, CommitId, Digest, Instant, JobId, Seconds

ATTEMPTS_KEPT = 5


class JobPhase(StrEnum):
    PENDING = "pending"
    HELD = "held"
    """Waits for a person: a failed dependency, a request that fits nowhere."""
    RUNNING = "running"
    STOPPING = "stopping"
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DIVERGED = "diverged"
    INVALID = "invalid"
    """The document never was valid, so nothing can be planned."""

    @property
    def is_finished(self) -> bool:
        """True when only a new submission or generation runs the job again."""
        return self in _FINISHED


_FINISHED = frozenset((JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED, JobPhase.DIVERGED))


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What ``headway queue`` shows without reading any spec."""

    priority: PriorityClass
    gpus: int
    gpu_types: tuple[str, ...]
    """Empty: any."""
    model: str
    submitted_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Devices kept for a preemptor while its victims stop; stored with the preemptor."""

    freed_for: JobId
    devices: Allocation
    victims: tuple[AttemptId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    job: JobId
    phase: JobPhase
    reason: Reason
    message: str = ""
    generation: int = 1
    submission: CommitId = CommitId("")
    """Full id of the main commit in which (path, generation) was first seen."""
    observed_commit: CommitId = CommitId("")
    """Main commit of the last valid document; with the path it re-derives the spec."""
    spec_digest: Digest = Digest("")
    summary: Summary | None = None
    """None only for a job whose document never was valid."""
    attempts: tuple[Attempt, ...] = ()
    """The last five of this generation, oldest first; only the last can be live."""
    attempts_made: int = 0
    tries_used: int = 0
    lost: int = 0
    preemptions: int = 0
    ran_s: Seconds = Seconds(0)
    """Summed running time of the ended attempts of this generation."""
    gpu_seconds: int = 0
    """Of all ended attempts of this submission and generation."""
    holds: tuple[Hold, ...] = ()
    retry_at: Instant | None = None
    absent_since: Instant | None = None
    """First complete read in which the file was gone from main."""
    prune_allowed: bool = False
    """An admin allowed this absent job's deletion past the brake; cleared when the file is back."""
    resubmitted: Submission | None = None
    """A newer submission of the same path that waits for this one's attempt to leave."""
    since: Instant | None = None
    """When ``phase`` last changed."""

    @property
    def live_attempt(self) -> Attempt | None:
        """The attempt that holds devices, if there is one."""
        if self.attempts and self.attempts[-1].phase.is_live:
            return self.attempts[-1]
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One line of a status commit: ``<job>: <before> -> <after> (<reason>)``."""

    job: JobId
    before: JobPhase | None
    """None: the job is new."""
    after: JobPhase
    reason: Reason
    attempt: AttemptId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusUpdate:
    """What one cycle changes on the status branch; empty when nothing happened."""

    changed: tuple[JobStatus, ...] = ()
    transitions: tuple[Transition, ...] = ()
    reservations: tuple[ReservationStatus, ...] = ()
    occurrences: tuple[OccurrenceTransition, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changed or self.reservations)
