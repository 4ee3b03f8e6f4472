"""Reasons and phases in a few plain words, for a column and for a sentence.

``docs/reasons.md`` has the long prose; a test holds that every :class:`Reason` has a phrase.
"""

from collections.abc import Mapping

from reconciler.domain.reason import Reason
from reconciler.domain.reservation import ReservationPhase, ReservationStatus
from reconciler.domain.status import JobPhase, JobStatus

PHRASES: Mapping[Reason, str] = {
    Reason.GPUS_FREE: "GPUs were free",
    Reason.GPUS_FREED_BY_VICTIM: "GPUs were freed for it",
    Reason.GPUS_BUSY: "waits for free GPUs",
    Reason.NODES_UNAVAILABLE: "no node takes it now",
    Reason.BEHIND_HIGHER_RANK: "others go first",
    Reason.PREEMPTING: "waits for preempted jobs to leave",
    Reason.BETTER_PLACE_SOON: "waits for a better place",
    Reason.QUOTA_EXCEEDED: "its team's quota is used up",
    Reason.BUDGET_EXCEEDED: "its budget has too few GPU-hours left",
    Reason.GPUS_RESERVED: "the free GPUs are reserved",
    Reason.RACK_POWER: "its rack has no power for more GPUs",
    Reason.RESERVATION_PLANNED: "starts inside its reservation",
    Reason.DEPENDENCY_RUNNING: "waits for another job",
    Reason.DEPENDENCY_FAILED: "held by its `after:`",
    Reason.RETRY_BACKOFF: "waits before the next try",
    Reason.HISTORY_REWRITTEN: "main was rewritten, nothing starts",
    Reason.NEVER_FITS: "fits on no node of this cluster",
    Reason.LOST_TOO_OFTEN: "lost too often",
    Reason.RUNS: "runs",
    Reason.LAUNCH_ASKED_AGAIN: "launch asked for again",
    Reason.STOPPING: "leaves after a checkpoint",
    Reason.LAUNCHER_SILENT: "the launcher does not answer",
    Reason.SPEC_INVALID_KEEPS_RUNNING: "runs; its newest edit is not valid",
    Reason.DELETION_GRACE: "its file was deleted; stops soon",
    Reason.PRUNE_BLOCKED: "its file was deleted with many others: an admin must allow it",
    Reason.ALREADY_FINISHED: "has finished; raise generation to run it again",
    Reason.FREED_FOR_PREEMPTOR: "preempted for a more urgent job",
    Reason.SUSPEND_ASKED: "asked to pause",
    Reason.NODE_DRAINING: "its node is being emptied",
    Reason.RESERVATION_STARTS: "a reservation opens on its GPUs",
    Reason.FILE_DELETED: "its file was deleted",
    Reason.NEW_SUBMISSION: "replaced by a new submission",
    Reason.COMPLETED: "done",
    Reason.COMMAND_FAILED: "the command failed",
    Reason.KILLED_BY_SIGNAL: "killed by a signal",
    Reason.NO_COMPLETION_RECORD: "ended without a result file",
    Reason.TIME_LIMIT: "ran out of time",
    Reason.GPU_HOURS_LIMIT: "used up its own GPU-hours",
    Reason.NON_FINITE_LOSS: "diverged",
    Reason.ATTEMPT_LOST: "lost with its node",
    Reason.SPEC_INVALID: "its document is not valid",
    Reason.WILDCARD_REQUEST: "refused: a wildcard or absurd request",
    Reason.WINDOW_FREE: "booked",
    Reason.WINDOW_MOVED: "booked on other GPUs",
    Reason.WINDOW_TAKEN: "does not fit then",
    Reason.WINDOW_BLOCKED: "its GPUs will not be clear in time",
    Reason.WINDOW_PAST: "its time is over",
    Reason.RESERVATION_IDLE: "handed back: nobody used it",
    Reason.RESERVATION_OVER: "over",
    Reason.RESERVATION_CHANGED: "its document changed",
}

PHASE_STYLES: Mapping[JobPhase, str] = {
    JobPhase.PENDING: "wait",
    JobPhase.HELD: "bad",
    JobPhase.RUNNING: "good",
    JobPhase.STOPPING: "busy",
    JobPhase.SUSPENDED: "wait",
    JobPhase.SUCCEEDED: "dim",
    JobPhase.FAILED: "bad",
    JobPhase.CANCELLED: "dim",
    JobPhase.DIVERGED: "bad",
    JobPhase.INVALID: "bad",
}


RESERVATION_STYLES: Mapping[ReservationPhase, str] = {
    ReservationPhase.PLANNED: "wait",
    ReservationPhase.ACTIVE: "good",
    ReservationPhase.RELEASED: "dim",
    ReservationPhase.ENDED: "dim",
    ReservationPhase.REFUSED: "bad",
    ReservationPhase.CANCELLED: "dim",
}


def style_of(status: JobStatus | ReservationStatus) -> str:
    """Return the style of a status's phase."""
    if isinstance(status, ReservationStatus):
        return RESERVATION_STYLES[status.phase]
    return PHASE_STYLES[status.phase]


def phrase(reason: Reason) -> str:
    """Return the reason in a few words; one this version does not know, without underscores."""
    return PHRASES.get(reason, str(reason).replace("_", " "))


def phrase_and_code(reason: Reason) -> str:
    """Return the phrase with the code that people search ``git log`` for."""
    said = phrase(reason)
    return said if said == reason else f"{said} ({reason})"


def why_in_short(status: JobStatus | ReservationStatus) -> str:
    """Return the reason of a phase with the reconciler's own detail after it."""
    said = phrase(status.reason)
    return f"{said}: {status.message}" if status.message else said


def count(number: int, noun: str) -> str:
    """Return ``1 job``, ``5 jobs``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
