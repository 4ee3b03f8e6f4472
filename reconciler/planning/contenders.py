"""Who holds devices and until when; who wants some and from when.

Turns the standings of one snapshot into the holders and contenders that the plan over time is
made of.  A job whose attempt is leaving is both: it holds devices now and, if nobody ended it for
good, it contends for its next place, so that nobody ranked below it slips in.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from reconciler.domain.attempt import Attempt, AttemptPhase, ObservedState, StopCause
from reconciler.domain.job import GpuRequest, JobSpec, PendingJob
from reconciler.domain.plan import Decision, Verb
from reconciler.domain.reason import Reason
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.status import JobPhase, JobStatus
from reconciler.domain.units import Instant, JobId, Seconds, TeamName
from reconciler.planning import remaining
from reconciler.planning.board import Contender, Hold, Holder, Victim
from reconciler.planning.eligibility import Bar
from reconciler.planning.fair_use import Factors, factor_of
from reconciler.planning.placement import fits, shape_for
from reconciler.planning.priority import RankKey, rank_key
from reconciler.planning.remaining import Moment, Span
from reconciler.planning.retry import after_attempt
from reconciler.planning.shapes import Shapes
from reconciler.planning.slowdown import slowdown_at
from reconciler.planning.spread import Spread
from reconciler.planning.standing import Standing
from reconciler.planning.topology import Shape, bits_of
from reconciler.planning.windows import reach_s

_COMES_BACK = (
    *(StopCause.PREEMPT, StopCause.DRAIN, StopCause.RESIZE, StopCause.SUSPEND),
    *(StopCause.RESERVATION, StopCause.BUDGET),
)
MAY_BE_STOPPED = (Reason.RUNS, Reason.SPEC_INVALID_KEEPS_RUNNING)


@dataclass(frozen=True, slots=True)
class Wishes:
    """Makes holders and contenders of one snapshot."""

    snapshot: Snapshot
    shapes: Shapes
    favour: Factors = field(default_factory=dict)
    """What fair use makes of each team."""
    _near: dict[tuple[GpuRequest, str, tuple[str, ...], bool], Shape] = field(default_factory=dict)
    """What was worked out for jobs that ask for the same and read the same."""
    _spread: Spread = field(init=False)

    def __post_init__(self) -> None:
        spread = Spread(self.shapes, slowdown_at(self.snapshot))
        object.__setattr__(self, "_spread", spread)  # one, so that it remembers requests

    def until(self, standing: Standing, decision: Decision) -> Instant:
        """Return when a live attempt is expected to be gone, given what is decided about it."""
        attempt = standing.live
        assert attempt is not None  # asked only for live attempts
        if _leaving_for(attempt, decision) is not None:
            return self._exit(attempt).p50
        return self._end(self._left(standing, attempt)).p50

    def holder(self, standing: Standing, decision: Decision) -> Holder:
        """Return what a live attempt holds, and until when, given what is decided about it."""
        attempt = standing.live
        assert attempt is not None  # asked only for live attempts
        cause = _leaving_for(attempt, decision)
        left = self._left(standing, attempt)
        until = self._end(left) if cause is None else self._exit(attempt)
        return Holder(
            job=standing.id,
            team=TeamName(standing.id.split("/")[0]),
            attempt=attempt,
            devices=bits_of(attempt.allocation, self.shapes.where),
            until=until,
            comes_back=cause in _COMES_BACK and _wants_more(standing),
            victim=self._victim(standing, attempt, decision, left),
        )

    def pending(
        self, standing: Standing, why_not: Bar | None, *, holders: Iterable[Holder]
    ) -> Contender:
        """Return a job that waits, with the devices held for it if they still serve it."""
        status, spec = standing.status, standing.spec
        assert status is not None and spec is not None
        left = remaining.of_pending(status, spec, self._whole(spec))
        now = self.snapshot.now
        contender = Contender(
            spec=spec,
            shape=self._shape(spec),
            key=self._key(standing, spec, left),
            left=left,
            reach_s=reach_s(spec, left, ran_s=status.ran_s, policy=self.snapshot.policy),
            not_before=why_not.until or now if why_not is not None else now,
            can_start=why_not is None,
            after=why_not.after if why_not is not None else (),
        )
        if why_not is not None:
            return contender
        return replace(contender, hold=self._hold(status, contender, holders))

    def pending_job(self, standing: Standing) -> PendingJob | None:
        """Return a job as the ranking sees it; None without a valid spec or a status."""
        status, spec = standing.status, standing.spec
        if status is None or spec is None or status.summary is None:
            return None
        if standing.live is not None:
            left = self._left(standing, standing.live)
        else:
            left = remaining.of_pending(status, spec, self._whole(spec))
        return PendingJob(
            spec=spec,
            submitted_at=status.summary.submitted_at,
            remaining_s=left.p50,
            remaining_p90_s=left.p90,
        )

    def returning(self, holder: Holder, standing: Standing, gone_at: Instant) -> Contender:
        """Return a job that is leaving its devices, as a contender for the next ones."""
        spec = standing.spec
        assert spec is not None  # only a job with a spec comes back
        left = self._plus_restart(self._left(standing, holder.attempt))
        return Contender(
            spec=spec,
            shape=self._shape(spec),
            key=self._key(standing, spec, left),
            left=left,
            not_before=Instant(max(gone_at, self.snapshot.now + 1)),
            can_start=False,
        )

    def ended(self, standing: Standing) -> Contender | None:
        """Return a job whose attempt just ended and that runs again, or None."""
        status, spec, attempt = standing.status, standing.spec, standing.attempt
        if status is None or spec is None or attempt is None or not _wants_more(standing):
            return None
        after = after_attempt(
            status, attempt, spec, policy=self.snapshot.policy.retry, now=self.snapshot.now
        )
        if after.phase is not JobPhase.PENDING or self.snapshot.desired.is_rewritten:
            return None
        left = self._plus_restart(self._left(standing, attempt))
        next_cycle = Instant(self.snapshot.now + 1)
        return Contender(
            spec=spec,
            shape=self._shape(spec),
            key=self._key(standing, spec, left),
            left=left,
            not_before=max(next_cycle, after.retry_at or next_cycle),
            can_start=False,
        )

    def _shape(self, spec: JobSpec) -> Shape:
        shape, where = self.shapes.of(spec.gpus), self.shapes.where
        if not (where.caches or spec.facts.is_long):
            return shape
        reads = spec.gpus, spec.facts.model, spec.facts.data, spec.facts.is_long
        if reads not in self._near:
            self._near[reads] = shape_for(shape, spec.facts, where)
        return self._near[reads]

    def _whole(self, spec: JobSpec | None, gpus: int | None = None) -> Span:
        if spec is None:
            p50 = self.snapshot.policy.default_duration_s
            return Span(p50=p50, p90=Seconds(int(p50 * remaining.P90_OVER_P50)))
        sizes = self.snapshot.sizes.get(spec.id, ())
        return remaining.total(spec, sizes, self.snapshot.policy, gpus=gpus)

    def _left(self, standing: Standing, attempt: Attempt) -> Span:
        assert standing.status is not None  # a live attempt is in a status
        whole = self._whole(standing.spec, attempt.gpus or None)
        if standing.spec is not None and len(attempt.allocation.shares) > 1:
            devices = bits_of(attempt.allocation, self.shapes.where)
            whole = whole.times(self._spread.factor(standing.spec.gpus, devices))
        return remaining.of_live(
            standing.status, attempt, standing.observed, whole, now=self.snapshot.now
        )

    def _plus_restart(self, left: Span) -> Span:
        restart_s = self.snapshot.policy.preemption.restart_s
        return Span(p50=Seconds(left.p50 + restart_s), p90=Seconds(left.p90 + restart_s))

    def _end(self, left: Span) -> Moment:
        now = self.snapshot.now
        return Moment(p50=Instant(now + left.p50), p90=Instant(now + left.p90))

    def _exit(self, attempt: Attempt) -> Moment:
        """Return when an attempt that was asked to leave is expected gone."""
        now = self.snapshot.now
        asked_at = now if attempt.stop_asked_at is None else attempt.stop_asked_at
        soonest = Instant(now + 1)
        return Moment(
            p50=max(soonest, Instant(asked_at + self._leaves_in(attempt))),
            p90=max(soonest, Instant(asked_at + max(attempt.grace_s, 1))),
        )

    def _leaves_in(self, attempt: Attempt) -> Seconds:
        restart_s = self.snapshot.policy.preemption.restart_s
        return Seconds(max(min(attempt.grace_s, restart_s), 1))

    def _key(self, standing: Standing, spec: JobSpec, left: Span) -> RankKey:
        summary = standing.status.summary if standing.status is not None else None
        job = PendingJob(
            spec=spec,
            submitted_at=self.snapshot.now if summary is None else summary.submitted_at,
            remaining_s=left.p50,
            remaining_p90_s=left.p90,
        )
        return rank_key(
            job,
            now=self.snapshot.now,
            policy=self.snapshot.policy,
            teams=self.snapshot.teams,
            favour=factor_of(spec.team, self.favour),
        )

    def _victim(
        self, standing: Standing, attempt: Attempt, decision: Decision, left: Span
    ) -> Victim | None:
        """Return what stopping a running attempt would mean; None where it may not be asked."""
        spec, status, seen = standing.spec, standing.status, standing.observed
        rules, now = self.snapshot.policy.preemption, self.snapshot.now
        if spec is None or status is None or seen is None:
            return None
        if decision.verb is not Verb.KEEP or decision.reason not in MAY_BE_STOPPED:
            return None
        if seen.state is not ObservedState.RUNNING or attempt.phase is not AttemptPhase.RUNNING:
            return None
        if not attempt.preemptible or status.preemptions >= rules.max_per_job:
            return None
        if attempt.running_s(now) < rules.min_run_s:
            return None
        kept_until = attempt.started_at or attempt.decided_at
        for checkpoint_at in (attempt.checkpoint_at, seen.checkpoint_at):
            if checkpoint_at is not None:
                kept_until = max(kept_until, checkpoint_at)
        at_stake_s = max(now - kept_until, 0) + rules.restart_s
        return Victim(
            spec=spec,
            key=self._key(standing, spec, left),
            cost=at_stake_s * attempt.gpus,
            leaves_in_s=self._leaves_in(attempt),
        )

    def _hold(
        self, status: JobStatus, contender: Contender, holders: Iterable[Holder]
    ) -> Hold | None:
        """Return the recorded hold, if it is whole and only its victims are still on it."""
        if not status.holds:
            return None
        recorded = status.holds[0]
        devices = bits_of(recorded.devices, self.shapes.where) & self.shapes.where.ready
        if devices.bit_count() != contender.shape.count:
            return None
        if not fits(contender.shape, devices, self.shapes.where):
            return None
        holders = list(holders)
        leaving = [holder for holder in holders if holder.attempt.id in recorded.victims]
        if any(holder.devices & devices and holder not in leaving for holder in holders):
            return None
        now = self.snapshot.now
        return Hold(
            devices=devices,
            victims=tuple(sorted(holder.job for holder in leaving)),
            until=Moment(
                p50=max((holder.until.p50 for holder in leaving), default=now),
                p90=max((holder.until.p90 for holder in leaving), default=now),
            ),
        )


def _leaving_for(attempt: Attempt, decision: Decision) -> StopCause | None:
    """Return why a live attempt is on its way out, or None while it stays."""
    if attempt.phase is AttemptPhase.STOPPING:
        return StopCause.CANCEL if decision.verb is Verb.CANCEL else attempt.stop_cause
    return stop_cause(decision)


def stop_cause(decision: Decision) -> StopCause | None:
    """Return why a decision about a live attempt asks it to leave; None if it does not."""
    if decision.verb is Verb.SUSPEND:
        return _SUSPENDED_FOR.get(decision.reason, StopCause.SUSPEND)
    if decision.reason is Reason.GPU_HOURS_LIMIT:
        return StopCause.GPU_HOURS
    return _CAUSE_OF.get(decision.verb)


_SUSPENDED_FOR: Mapping[Reason, StopCause] = {
    Reason.NODE_DRAINING: StopCause.DRAIN,
    Reason.RESERVATION_STARTS: StopCause.RESERVATION,
    Reason.BUDGET_EXCEEDED: StopCause.BUDGET,
}


_CAUSE_OF: Mapping[Verb, StopCause] = {
    Verb.PREEMPT: StopCause.PREEMPT,
    Verb.RESIZE: StopCause.RESIZE,
    Verb.CANCEL: StopCause.CANCEL,
    Verb.FINISH: StopCause.TIME_LIMIT,
}


def _wants_more(standing: Standing) -> bool:
    """True if the job will want devices again once its attempt has left."""
    wanted, spec = standing.wanted, standing.spec
    if wanted is None or spec is None or wanted.problems:
        return False
    return not spec.suspend and standing.newer is None


def by_job(contenders: Iterable[Contender]) -> dict[JobId, Contender]:
    """Return the contenders by job, first in rank first."""
    return {c.job: c for c in sorted(contenders, key=lambda c: c.key)}
