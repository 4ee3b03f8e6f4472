"""What an observation makes of an attempt, and which phases may follow which.

Pure tables from (attempt phase, observation, stop cause, how the job is judged) to the attempt's
next phase and its reason.  The rules they keep:

* A training attempt succeeds only with a result file that says so; exit status 0 without one is
  a failure.  A command is judged by its exit status.
* What was asked to leave ends as the cause of the asking says, however it went, unless it
  finished its work after all.
* "No answer" is never "gone": an unknown attempt is kept and never launched again elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from signal import Signals

from reconciler.domain.attempt import (
    Attempt,
    AttemptPhase,
    Observation,
    ObservedState,
    Outcome,
    StopCause,
)
from reconciler.domain.reason import Reason
from reconciler.domain.status import JobPhase
from reconciler.domain.units import Instant, Seconds
from reconciler.planning.altered import altered

KILL_AFTER_GRACE_S = Seconds(30)
"""A stopping attempt that outlives its grace by this much is killed: the launcher's own kill at
the end of the grace did not work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How an attempt ended."""

    phase: AttemptPhase
    reason: Reason
    detail: str = ""


_BY_CAUSE: Mapping[StopCause, End] = {
    StopCause.PREEMPT: End(
        phase=AttemptPhase.PREEMPTED,
        reason=Reason.FREED_FOR_PREEMPTOR,
        detail="left for another job; it resumes from its last checkpoint",
    ),
    StopCause.RESIZE: End(
        phase=AttemptPhase.PREEMPTED,
        reason=Reason.FREED_FOR_PREEMPTOR,
        detail="left to resume with another number of GPUs",
    ),
    StopCause.DRAIN: End(
        phase=AttemptPhase.PREEMPTED,
        reason=Reason.NODE_DRAINING,
        detail="left a draining node; it resumes elsewhere from its last checkpoint",
    ),
    StopCause.SUSPEND: End(
        phase=AttemptPhase.PREEMPTED,
        reason=Reason.SUSPEND_ASKED,
        detail="suspended; it resumes from its last checkpoint",
    ),
    StopCause.RESERVATION: End(
        phase=AttemptPhase.PREEMPTED,
        reason=Reason.RESERVATION_STARTS,
        detail="left before a reservation opened; it resumes from its last checkpoint",
    ),
    StopCause.BUDGET: End(
        phase=AttemptPhase.PREEMPTED,
        reason=Reason.BUDGET_EXCEEDED,
        detail="its budget is used up; it resumes from its last checkpoint when there is more",
    ),
    StopCause.GPU_HOURS: End(
        phase=AttemptPhase.FAILED,
        reason=Reason.GPU_HOURS_LIMIT,
        detail="used max_gpu_hours; raise it and the generation to run on",
    ),
    StopCause.CANCEL: End(phase=AttemptPhase.CANCELLED, reason=Reason.FILE_DELETED),
    StopCause.TIME_LIMIT: End(
        phase=AttemptPhase.FAILED,
        reason=Reason.TIME_LIMIT,
        detail="reached time.limit; raise it and the generation to run on",
    ),
}


def follow(attempt: Attempt, seen: Observation | None, *, now: Instant) -> tuple[Attempt, str]:
    """Return the live ``attempt`` as it is after ``seen``, and a line for people if it ended.

    The attempt is unchanged while its phase is: steps and checkpoints are copied only with a
    change of phase, so that heartbeats change no status.
    """
    if seen is None or seen.state is ObservedState.UNKNOWN:
        return attempt, ""
    if seen.state is ObservedState.RUNNING:
        return _running(attempt, seen, now), ""
    if seen.state is ObservedState.ABSENT and attempt.phase is AttemptPhase.LAUNCHING:
        return attempt, ""
    end = how_it_ended(seen, cause=attempt.stop_cause, runs_command=attempt.runs_command)
    return _ended(attempt, seen, end, now), end.detail


def _running(attempt: Attempt, seen: Observation, now: Instant) -> Attempt:
    if attempt.phase is not AttemptPhase.LAUNCHING:
        return attempt
    return altered(
        with_progress(attempt, seen),
        phase=AttemptPhase.RUNNING,
        started_at=_clamped(seen.started_at, attempt, now),
    )


def _ended(attempt: Attempt, seen: Observation, end: End, now: Instant) -> Attempt:
    ended_at = _clamped(seen.ended_at, attempt, now)
    started_at = attempt.started_at
    if started_at is None and seen.started_at is not None:
        started_at = min(_clamped(seen.started_at, attempt, now), ended_at)
    return altered(
        with_progress(attempt, seen),
        phase=end.phase,
        reason=end.reason,
        started_at=started_at,
        ended_at=ended_at,
        exit_status=seen.exit_status,
    )


def _clamped(seen_at: Instant | None, attempt: Attempt, now: Instant) -> Instant:
    """Keep another machine's clock between the decision to launch and now."""
    return now if seen_at is None else Instant(min(max(seen_at, attempt.decided_at), now))


def with_progress(attempt: Attempt, seen: Observation | None) -> Attempt:
    """Return ``attempt`` with the step and checkpoint of ``seen``, where it tells them."""
    if seen is None:
        return attempt
    if seen.step is None and seen.checkpoint_step is None and seen.checkpoint_at is None:
        return attempt
    return altered(
        attempt,
        step=attempt.step if seen.step is None else seen.step,
        checkpoint_step=(
            attempt.checkpoint_step if seen.checkpoint_step is None else seen.checkpoint_step
        ),
        checkpoint_at=attempt.checkpoint_at if seen.checkpoint_at is None else seen.checkpoint_at,
    )


def how_it_ended(seen: Observation, *, cause: StopCause | None, runs_command: bool) -> End:
    """Return the end of an attempt that is ``ended``, ``lost`` or ``absent`` after it ran."""
    if not runs_command and seen.outcome is Outcome.SUCCEEDED:
        return End(phase=AttemptPhase.SUCCEEDED, reason=Reason.COMPLETED)
    if not runs_command and seen.outcome is Outcome.DIVERGED:
        return End(
            phase=AttemptPhase.DIVERGED,
            reason=Reason.NON_FINITE_LOSS,
            detail=seen.message or "the loss stopped being a number",
        )
    if cause is not None:
        return _BY_CAUSE[cause]
    if seen.state is not ObservedState.ENDED:
        return _lost(seen.message or "the launcher lost it without an exit status")
    if runs_command:
        return _by_exit_status(seen)
    if seen.outcome is Outcome.STOPPED:
        return _lost("it was told to stop by somebody else and left after a checkpoint")
    return _failed_training(seen)


def _lost(detail: str) -> End:
    return End(phase=AttemptPhase.LOST, reason=Reason.ATTEMPT_LOST, detail=detail)


def _failed(reason: Reason, detail: str) -> End:
    return End(phase=AttemptPhase.FAILED, reason=reason, detail=detail)


def _by_exit_status(seen: Observation) -> End:
    if seen.exit_status is None:
        return _lost(seen.message or "it ended without an exit status")
    if seen.exit_status == 0:
        return End(phase=AttemptPhase.SUCCEEDED, reason=Reason.COMPLETED)
    return _bad_exit(seen, seen.exit_status)


def _failed_training(seen: Observation) -> End:
    if seen.exit_status is not None and seen.exit_status != 0:
        return _bad_exit(seen, seen.exit_status)
    if seen.outcome is Outcome.FAILED:
        return _failed(Reason.COMMAND_FAILED, seen.message or seen.outcome_reason)
    return _failed(
        Reason.NO_COMPLETION_RECORD,
        "it left without a result file, so nothing says that the training finished",
    )


def _bad_exit(seen: Observation, exit_status: int) -> End:
    if exit_status < 0:
        return _failed(Reason.KILLED_BY_SIGNAL, f"killed by {signal_name(-exit_status)}")
    return _failed(Reason.COMMAND_FAILED, seen.message or f"exit status {exit_status}")


def signal_name(number: int) -> str:
    """Return ``SIGKILL`` for 9; ``signal 99`` for a number without a name."""
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def is_overdue(attempt: Attempt, *, now: Instant) -> bool:
    """True for a stopping attempt that outlived its grace and must be killed."""
    return (
        attempt.phase is AttemptPhase.STOPPING
        and attempt.stop_asked_at is not None
        and now > attempt.stop_asked_at + attempt.grace_s + KILL_AFTER_GRACE_S
    )


_P = JobPhase
LEGAL: Mapping[JobPhase | None, frozenset[JobPhase]] = {
    None: frozenset({_P.PENDING, _P.HELD, _P.RUNNING, _P.SUSPENDED, _P.INVALID}),
    _P.INVALID: frozenset(
        {_P.INVALID, _P.PENDING, _P.HELD, _P.RUNNING, _P.SUSPENDED, _P.CANCELLED}
    ),
    _P.PENDING: frozenset({_P.PENDING, _P.HELD, _P.RUNNING, _P.SUSPENDED, _P.CANCELLED, _P.FAILED}),
    _P.HELD: frozenset({_P.HELD, _P.PENDING, _P.RUNNING, _P.SUSPENDED, _P.CANCELLED, _P.FAILED}),
    _P.SUSPENDED: frozenset(
        {_P.SUSPENDED, _P.PENDING, _P.HELD, _P.RUNNING, _P.CANCELLED, _P.FAILED}
    ),
    _P.RUNNING: frozenset(
        {
            *(_P.RUNNING, _P.STOPPING, _P.PENDING, _P.HELD),
            *(_P.SUCCEEDED, _P.FAILED, _P.DIVERGED),
        }
    ),
    _P.STOPPING: frozenset(
        {
            *(_P.STOPPING, _P.PENDING, _P.SUSPENDED, _P.HELD),
            *(_P.SUCCEEDED, _P.FAILED, _P.CANCELLED, _P.DIVERGED),
        }
    ),
    **{
        finished: frozenset({finished, _P.PENDING, _P.HELD, _P.RUNNING, _P.SUSPENDED})
        for finished in (_P.SUCCEEDED, _P.FAILED, _P.CANCELLED, _P.DIVERGED)
    },
}
"""Job phases that may follow each phase; ``None`` is a job without a status.  A finished job
leaves its phase only by a new submission or generation."""

_A = AttemptPhase
LEGAL_ATTEMPTS: Mapping[AttemptPhase | None, frozenset[AttemptPhase]] = {
    None: frozenset({_A.LAUNCHING}),
    _A.LAUNCHING: frozenset(set(_A) - {_A.PREEMPTED, _A.CANCELLED}),
    _A.RUNNING: frozenset({_A.RUNNING, _A.STOPPING, _A.SUCCEEDED, _A.FAILED, _A.LOST, _A.DIVERGED}),
    _A.STOPPING: frozenset(
        {
            *(_A.STOPPING, _A.SUCCEEDED, _A.FAILED),
            *(_A.PREEMPTED, _A.CANCELLED, _A.DIVERGED),
        }
    ),
    **{ended: frozenset({ended}) for ended in _A if not ended.is_live},
}
"""Attempt phases that may follow each phase; an ended attempt never changes again."""
