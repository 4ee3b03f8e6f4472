"""What a plan makes of the status branch: the statuses that change, and how.

Transitions only.  A status is written when its phase, its reason, an attempt's phase, a hold or
what main asks for changed; progress, ranks and forecasts never touch it, so a settled world
changes nothing.
"""

from collections.abc import Iterable, Mapping

from reconciler.domain.attempt import Attempt, AttemptPhase
from reconciler.domain.plan import Decision, Plan, Verb
from reconciler.domain.reason import Reason
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.status import (
    ATTEMPTS_KEPT,
    Hold,
    JobPhase,
    JobStatus,
    StatusUpdate,
    Transition,
)
from reconciler.domain.units import CommitId, JobId, Seconds
from reconciler.planning.altered import altered
from reconciler.planning.books import Books
from reconciler.planning.contenders import stop_cause
from reconciler.planning.decisions import Decisions
from reconciler.planning.deletion import Pruning, pruning
from reconciler.planning.digest import waiting_phase
from reconciler.planning.lifecycle import with_progress
from reconciler.planning.reservation_statuses import next_reservations
from reconciler.planning.retry import after_attempt
from reconciler.planning.settle import NEWEST_REFUSED
from reconciler.planning.standing import Standing, standings, summary_of

_TOLD_BY_STATUS = (
    Reason.SPEC_INVALID_KEEPS_RUNNING,
    Reason.DELETION_GRACE,
    Reason.PRUNE_BLOCKED,
)
"""Reasons to keep that people must see in the status."""
_PASSING = (
    *_TOLD_BY_STATUS,
    Reason.GPUS_FREE,
    Reason.GPUS_FREED_BY_VICTIM,
)
"""Recorded reasons that a plain ``runs`` replaces."""


def next_statuses(snapshot: Snapshot, plan: Plan) -> StatusUpdate:
    """Return the statuses that change by ``plan``, sorted by job, and one line for each."""
    jobs = standings(snapshot)
    live = {job: standing for job, standing in jobs.items() if standing.live is not None}
    update = _update(snapshot, plan, plan.decisions, jobs, pruning(snapshot, jobs))
    return _with_reservations(update, snapshot, plan, live)


def update_of(books: Books, plan: Plan, news: Iterable[JobId]) -> StatusUpdate:
    """Return what :func:`next_statuses` does, by looking at the jobs of ``news`` alone."""
    update = _update(books.snapshot, plan, news, books.standings, books.prune)
    return _with_reservations(update, books.snapshot, plan, books.live)


def _with_reservations(
    update: StatusUpdate, snapshot: Snapshot, plan: Plan, live: Mapping[JobId, Standing]
) -> StatusUpdate:
    reservations, lines = next_reservations(snapshot, plan, live)
    if not reservations:
        return update
    return altered(update, reservations=reservations, occurrences=lines)


def _update(
    snapshot: Snapshot,
    plan: Plan,
    among: Iterable[JobId],
    jobs: Mapping[JobId, Standing],
    prune: Pruning,
) -> StatusUpdate:
    changed: list[JobStatus] = []
    transitions: list[Transition] = []
    decisions = plan.decisions
    for job in sorted(among):
        standing = jobs[job]
        decision = decisions.bare(job) if isinstance(decisions, Decisions) else decisions[job]
        status = next_status(snapshot, standing, decision, prune)
        if status is None or status == standing.recorded:
            continue
        changed.append(status)
        transitions.append(_transition(standing, status))
    return StatusUpdate(changed=tuple(changed), transitions=tuple(transitions))


def next_status(
    snapshot: Snapshot, standing: Standing, decision: Decision, prune: Pruning
) -> JobStatus | None:
    """Return the job's status after ``decision``; None for a job that gets none yet."""
    status = standing.status
    if status is None:
        if decision.verb is not Verb.REJECT:
            return None
        status = _never_valid(snapshot, standing)
    status = _as_wanted(snapshot, standing, status, prune)
    status = _decided(snapshot, standing, decision, status)
    before = standing.recorded.phase if standing.recorded is not None else None
    if status.phase is not before:
        status = altered(status, since=snapshot.now)
    return status


def _transition(standing: Standing, status: JobStatus) -> Transition:
    recorded = standing.recorded
    attempt = status.attempts[-1].id if status.attempts else None
    return Transition(
        job=status.job,
        before=None if recorded is None else recorded.phase,
        after=status.phase,
        reason=status.reason,
        attempt=attempt,
    )


def _never_valid(snapshot: Snapshot, standing: Standing) -> JobStatus:
    wanted = standing.wanted
    submission = standing.newer.commit if standing.newer is not None else CommitId("")
    if not submission and wanted is not None:
        submission = wanted.commit
    return JobStatus(
        job=standing.id,
        phase=JobPhase.INVALID,
        reason=Reason.SPEC_INVALID,
        submission=submission,
        since=snapshot.now,
    )


def _as_wanted(
    snapshot: Snapshot, standing: Standing, status: JobStatus, prune: Pruning
) -> JobStatus:
    """Bring what main says into the status: absence, a newer submission, the last valid spec."""
    if snapshot.desired.is_rewritten:
        return status
    wanted, spec = standing.wanted, standing.spec
    if wanted is None:
        return altered(
            status,
            absent_since=snapshot.now if status.absent_since is None else status.absent_since,
            prune_allowed=standing.id in prune.allowed,
        )
    if status.absent_since is not None or status.prune_allowed:
        status = altered(status, absent_since=None, prune_allowed=False)
    if status.phase is not JobPhase.INVALID and status.resubmitted != standing.newer:
        status = altered(status, resubmitted=standing.newer)
    if spec is None or wanted.problems or status.phase.is_finished or status.summary is None:
        return status
    if standing.newer is not None:
        return status
    summary = summary_of(spec, status.summary.submitted_at)
    if spec.spec_digest == status.spec_digest and summary == status.summary:
        return status
    return altered(
        status,
        summary=summary,
        spec_digest=spec.spec_digest,
        observed_commit=wanted.commit,
    )


def _decided(
    snapshot: Snapshot, standing: Standing, decision: Decision, status: JobStatus
) -> JobStatus:
    match decision.verb:
        case Verb.START:
            return _started(decision, status)
        case Verb.WAIT:
            return _waiting(snapshot, standing, decision, status)
        case Verb.REJECT:
            phase = JobPhase.INVALID if status.summary is None else JobPhase.HELD
            return _said(altered(status, phase=phase, holds=()), decision)
        case Verb.KEEP:
            return _kept(standing, decision, status)
        case _:
            return _stopped_or_ended(snapshot, standing, decision, status)


def _said(status: JobStatus, decision: Decision) -> JobStatus:
    return altered(status, reason=decision.reason, message=decision.detail)


def _started(decision: Decision, status: JobStatus) -> JobStatus:
    assert decision.attempt is not None  # a start has one
    return altered(
        status,
        reason=decision.reason,
        message=decision.detail,
        phase=JobPhase.RUNNING,
        attempts=(*status.attempts, decision.attempt)[-ATTEMPTS_KEPT:],
        attempts_made=decision.attempt.number,
        holds=(),
        retry_at=None,
    )


def _waiting(
    snapshot: Snapshot, standing: Standing, decision: Decision, status: JobStatus
) -> JobStatus:
    """A wait is written when its phase, reason or hold is new; a new wording alone is not."""
    phase = waiting_phase(decision.reason)
    if decision.reason is Reason.HISTORY_REWRITTEN:
        phase = status.phase
    holds = _holds(snapshot, standing.id, decision, status)
    recorded = standing.recorded
    if (
        recorded is not None
        and standing.status is recorded
        and (recorded.phase, recorded.reason, recorded.holds) == (phase, decision.reason, holds)
    ):
        return status
    return altered(
        status, reason=decision.reason, message=decision.detail, phase=phase, holds=holds
    )


def _holds(
    snapshot: Snapshot, job: JobId, decision: Decision, status: JobStatus
) -> tuple[Hold, ...]:
    if decision.hold is None:
        return ()
    if status.holds and status.holds[0].devices == decision.hold:
        return status.holds
    live = (snapshot.statuses[victim].live_attempt for victim in decision.victims)
    victims = tuple(attempt.id for attempt in live if attempt is not None)
    return (Hold(freed_for=job, devices=decision.hold, victims=victims),)


def _kept(standing: Standing, decision: Decision, status: JobStatus) -> JobStatus:
    if standing.live is not None:
        status = _with_attempt(status, standing.live)
        passing = status.reason in _PASSING and status.phase is JobPhase.RUNNING
        if decision.reason in _TOLD_BY_STATUS:
            return _said(status, decision)
        if decision.reason is Reason.RUNS and passing:
            return _said(status, decision)
        return status
    if decision.reason is Reason.ALREADY_FINISHED:
        if decision.detail or status.message.startswith(NEWEST_REFUSED):
            return altered(status, message=decision.detail)
        return status
    return altered(_said(status, decision), holds=())


def _with_attempt(status: JobStatus, attempt: Attempt) -> JobStatus:
    if not status.attempts or status.attempts[-1] == attempt:
        return status
    return altered(status, attempts=(*status.attempts[:-1], attempt))


def _stopped_or_ended(
    snapshot: Snapshot, standing: Standing, decision: Decision, status: JobStatus
) -> JobStatus:
    if standing.live is not None:
        return _stopping(snapshot, standing, decision, status, standing.live)
    if standing.attempt is not None:
        return _ended(snapshot, standing, decision, status, standing.attempt)
    phase = {
        Verb.SUSPEND: JobPhase.SUSPENDED,
        Verb.CANCEL: JobPhase.CANCELLED,
        Verb.FINISH: JobPhase.FAILED,
    }[decision.verb]
    return altered(_said(status, decision), phase=phase, holds=(), retry_at=None)


def _stopping(
    snapshot: Snapshot,
    standing: Standing,
    decision: Decision,
    status: JobStatus,
    live: Attempt,
) -> JobStatus:
    asked_at = snapshot.now if live.stop_asked_at is None else live.stop_asked_at
    attempt = altered(
        with_progress(live, standing.observed),
        phase=AttemptPhase.STOPPING,
        stop_asked_at=asked_at,
        stop_cause=stop_cause(decision),
    )
    return altered(
        _with_attempt(_said(status, decision), attempt),
        phase=JobPhase.STOPPING,
        preemptions=status.preemptions + (decision.verb is Verb.PREEMPT),
        holds=_holds(snapshot, standing.id, decision, status),
    )


def _ended(
    snapshot: Snapshot,
    standing: Standing,
    decision: Decision,
    status: JobStatus,
    attempt: Attempt,
) -> JobStatus:
    after = after_attempt(
        status, attempt, standing.spec, policy=snapshot.policy.retry, now=snapshot.now
    )
    ran_s = attempt.running_s(snapshot.now)
    if attempt.phase is AttemptPhase.CANCELLED:
        attempt = altered(attempt, reason=decision.reason)
    return altered(
        _with_attempt(status, attempt),
        reason=decision.reason,
        message=decision.detail,
        phase=after.phase,
        tries_used=after.tries_used,
        lost=after.lost,
        retry_at=after.retry_at,
        ran_s=Seconds(status.ran_s + ran_s),
        gpu_seconds=status.gpu_seconds + ran_s * attempt.gpus,
    )
