"""One try at running a job, and what a launcher saw of it.

The attempt id is deterministic, so a launch asked for twice is one run: whoever asks again
after a crash asks for the same id.
"""

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from reconciler.domain.cluster import Allocation
from reconciler.domain.reason import Reason
from reconciler.domain.units import AttemptId, CommitId, Digest, Instant, JobId, Seconds


class AttemptPhase(StrEnum):
    LAUNCHING = "launching"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PREEMPTED = "preempted"
    CANCELLED = "cancelled"
    LOST = "lost"
    DIVERGED = "diverged"

    @property
    def is_live(self) -> bool:
        """True while the attempt holds its devices."""
        return self in (AttemptPhase.LAUNCHING, AttemptPhase.RUNNING, AttemptPhase.STOPPING)


class StopCause(StrEnum):
    """Why a stopping attempt was asked to leave; it decides the phase it ends in."""

    PREEMPT = "preempt"
    SUSPEND = "suspend"
    CANCEL = "cancel"
    TIME_LIMIT = "time_limit"
    DRAIN = "drain"
    RESIZE = "resize"
    RESERVATION = "reservation"
    BUDGET = "budget"
    GPU_HOURS = "gpu_hours"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try, as the status branch remembers it."""

    id: AttemptId
    number: int
    """Counts from 1 within a generation of a submission."""
    phase: AttemptPhase
    commit: CommitId
    """Main commit whose spec this attempt runs; with the path it re-derives the document."""
    spec_digest: Digest
    allocation: Allocation
    decided_at: Instant
    """When the launch was decided (the intent)."""
    grace_s: Seconds = Seconds(600)
    """Time to checkpoint and leave.  Like the next two, pinned from the spec it runs: an edit
    applies to the next attempt, and the facts outlive the file."""
    preemptible: bool = True
    runs_command: bool = False
    """Judged by exit status, not by a result file."""
    budget_group: str | None = None
    """The budget that its GPU-hours are charged to, whatever the document says later."""
    started_at: Instant | None = None
    stop_asked_at: Instant | None = None
    stop_cause: StopCause | None = None
    ended_at: Instant | None = None
    reason: Reason | None = None
    """Set when the attempt ends."""
    exit_status: int | None = None
    """The command's wait status as ``os.waitstatus_to_exitcode`` reads it: -9 is SIGKILL."""
    step: int | None = None
    """Last optimizer step known when the phase last changed."""
    checkpoint_step: int | None = None
    checkpoint_at: Instant | None = None

    @property
    def gpus(self) -> int:
        """Devices this attempt holds (or held)."""
        return self.allocation.gpus

    def running_s(self, now: Instant) -> Seconds:
        """Return how long it has run by ``now``; 0 before it started."""
        if self.started_at is None:
            return Seconds(0)
        return Seconds(max((now if self.ended_at is None else self.ended_at) - self.started_at, 0))


class ObservedState(StrEnum):
    """``absent``: the launcher answers and does not know it.  ``unknown``: no answer; wait."""

    ABSENT = "absent"
    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"
    """The launcher knows it died without a last word (machine restarted, wrapper killed)."""
    UNKNOWN = "unknown"


class Outcome(StrEnum):
    """What ``result.json`` says."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    DIVERGED = "diverged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a launcher saw of one attempt, at one poll."""

    attempt: AttemptId
    state: ObservedState
    started_at: Instant | None = None
    ended_at: Instant | None = None
    exit_status: int | None = None
    outcome: Outcome | None = None
    """None: there is no result file."""
    outcome_reason: str = ""
    """The trainer's own snake_case reason, such as ``non_finite_loss``."""
    step: int | None = None
    total_steps: int | None = None
    checkpoint_step: int | None = None
    checkpoint_at: Instant | None = None
    """When the newest durable checkpoint was finished."""
    heartbeat_at: Instant | None = None
    message: str = ""
    """One line for people: the last line of an error.  Never a secret, at most 200 characters."""


def attempt_id(
    *, cluster: str, job: JobId, submission: CommitId, generation: int, number: int
) -> AttemptId:
    """Return ``<team>.<name>-g<generation>-a<number>-<10 hex>``.

    The hex digits are the start of the sha256 over cluster, team, name, submission, generation
    and number, joined by newlines: the same inputs give the same id on every machine.
    """
    team, name = job.split("/")
    text = "\n".join((cluster, team, name, submission, str(generation), str(number)))
    digest = sha256(text.encode()).hexdigest()[:10]
    return AttemptId(f"{team}.{name}-g{generation}-a{number}-{digest}")
