"""What the value order is told of one job, made again only when something happened to the job.

Duration is already in the GPU-seconds the order counts, so a job's weight is its score without
the share for brevity: equal classes weigh the same whatever they last.  A P0 was judged to be near
its deadline, or approved, when it was submitted: it goes before everybody.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from reconciler.domain.attempt import AttemptPhase, ObservedState
from reconciler.domain.job import JobSpec, PendingJob, PriorityClass
from reconciler.domain.plan import Decision, Verb
from reconciler.domain.policy import PreemptionPolicy
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.status import JobStatus
from reconciler.domain.units import Instant, Seconds, TeamName
from reconciler.domain.value_state import Held
from reconciler.planning import remaining
from reconciler.planning.books import Books
from reconciler.planning.contenders import MAY_BE_STOPPED
from reconciler.planning.priority import rank_instant, score, weights_of
from reconciler.planning.remaining import Span
from reconciler.planning.rows import Rows
from reconciler.planning.standing import Standing
from reconciler.planning.value.fleet import Ended, JobFacts
from reconciler.planning.windows import bound_s

_Kind: TypeAlias = tuple[TeamName, PriorityClass, bool, str, int]
"""Team, class, whether it serves online, model and time left: all that a weight hangs on."""

LEAST_WEIGHT = 0.05
SAVE_SHARE = 0.25
"""Of the restart's price, what passes before the devices are free; the rest is loading again."""

_BY_THEMSELVES = (AttemptPhase.SUCCEEDED, AttemptPhase.FAILED, AttemptPhase.DIVERGED)


@dataclass(frozen=True, slots=True)
class Facts:
    """Makes facts of the jobs of one snapshot."""

    snapshot: Snapshot
    books: Books
    rows: Rows
    weights: dict[_Kind, float] = field(default_factory=dict)
    """Of jobs without a deadline: known for as long as policy and teams stay the same."""

    def waiting(self, standing: Standing) -> JobFacts:
        """Return a job that wants devices and has none."""
        status, spec = standing.status, standing.spec
        assert status is not None and spec is not None  # it is in the books' bars
        return self._facts(standing, status, spec, gpus=spec.gpus.count)

    def running(self, standing: Standing, decision: Decision, held: Held) -> JobFacts:
        """Return a job that holds devices."""
        status, attempt = standing.status, standing.live
        assert status is not None and attempt is not None  # it is in the books' live jobs
        since = attempt.decided_at if attempt.started_at is None else attempt.started_at
        if attempt.number > 1:
            since = Instant(since + self._restore_s())
        gpus = sum(count for _, count in held)
        return self._facts(
            standing,
            status,
            standing.spec,
            gpus=max(gpus, 1),
            since=since,
            held=held,
            may_stop=may_be_stopped(standing, decision, self.snapshot.policy.preemption),
        )

    def ended(self, standing: Standing) -> Ended:
        """Return a job that has just left for good."""
        status, attempt = standing.status, standing.attempt
        assert status is not None and attempt is not None  # it is in the books' ended jobs
        ran_s = attempt.running_s(self.snapshot.now)
        return Ended(
            facts=self._facts(standing, status, standing.spec, gpus=max(attempt.gpus, 1)),
            served=remaining.saved(status) + ran_s,
            learns=attempt.phase in _BY_THEMSELVES and ran_s > 0,
        )

    def _facts(
        self,
        standing: Standing,
        status: JobStatus,
        spec: JobSpec | None,
        *,
        gpus: int,
        since: int = 0,
        held: Held = (),
        may_stop: bool = True,
    ) -> JobFacts:
        if spec is None:  # its file is gone or was never valid: it runs out its time
            return JobFacts(
                job=standing.id, gpus=gpus, arrived=since, since=since, held=held, preemptible=False
            )
        pending = self._pending(status, spec)
        return JobFacts(
            job=standing.id,
            gpus=gpus,
            arrived=self._arrived(pending.submitted_at, spec),
            served=remaining.saved(status),
            since=since,
            held=held,
            limit=spec.limit_s or 0,
            predicted=self._predicted(spec),
            weight=self._weight(pending),
            level=int(spec.priority),
            preemptible=may_stop and (spec.preemptible if not held else True),
            rush=spec.priority is PriorityClass.P0,
            pools=self.rows.pools_for(spec.gpus),
            first_pools=self.rows.fast_pools(spec.gpus) if spec.facts.is_long else 0,
            within=self.rows.within(spec.gpus),
            deadline=spec.deadline or 0,
            bound=self.snapshot.policy.waiting_bounds.get(spec.priority, Seconds(0)),
            reach_s=0 if held else self._reach_s(status, spec, pending),
            save_s=self._save_s(),
            restore_s=self._restore_s(),
            model=spec.facts.model if self.rows.nodes.caches else "",
            data=spec.facts.data if self.rows.nodes.caches else (),
        )

    def _pending(self, status: JobStatus, spec: JobSpec) -> PendingJob:
        whole = remaining.total(spec, self.snapshot.sizes.get(spec.id, ()), self.snapshot.policy)
        left = remaining.of_pending(status, spec, whole)
        summary = status.summary
        return PendingJob(
            spec=spec,
            submitted_at=self.snapshot.now if summary is None else summary.submitted_at,
            remaining_s=left.p50,
            remaining_p90_s=left.p90,
        )

    def _reach_s(self, status: JobStatus, spec: JobSpec, pending: PendingJob) -> int:
        """Return after how long a job is gone that starts now and is not asked to leave."""
        left = Span(p50=pending.remaining_s, p90=pending.remaining_p90_s)
        return bound_s(spec, left, ran_s=status.ran_s)

    def _arrived(self, submitted_at: Instant, spec: JobSpec) -> int:
        """Return since when it could have run: it waits for nobody it depends on."""
        ends = [submitted_at]
        for job in spec.after:
            other = self.books.standings.get(job)
            if other is not None and other.status is not None and other.status.since is not None:
                ends.append(other.status.since)
        return max(ends)

    def _predicted(self, spec: JobSpec) -> int:
        """Return the whole running time somebody or something predicted; 0: nobody did."""
        if spec.estimate_s is not None:
            return int(spec.estimate_s)
        sizes = self.snapshot.sizes.get(spec.id, ())
        chosen = next((size for size in sizes if size.gpus == spec.gpus.count), None)
        if chosen is None:
            return 0
        guess = self.snapshot.policy.default_duration_s
        if spec.limit_s is not None:
            guess = Seconds(spec.limit_s // 2)
        return 0 if chosen.duration_p50_s == guess else int(chosen.duration_p50_s)

    def _weight(self, pending: PendingJob) -> float:
        policy, spec = self.snapshot.policy, pending.spec
        kind = spec.team, spec.priority, spec.serves_online, spec.facts.model, pending.remaining_s
        if spec.deadline is None and kind in self.weights:
            return self.weights[kind]
        parts = score(
            pending,
            now=rank_instant(self.snapshot.now, policy),
            weights=weights_of(pending, policy, self.snapshot.teams),
            heat=policy.model_heat,
        )
        weight = max(parts.total - parts.brevity, LEAST_WEIGHT)
        if spec.deadline is None:
            self.weights[kind] = weight
        return weight

    def _save_s(self) -> int:
        return max(int(self.snapshot.policy.preemption.restart_s * SAVE_SHARE), 1)

    def _restore_s(self) -> int:
        return max(self.snapshot.policy.preemption.restart_s - self._save_s(), 0)


def may_be_stopped(standing: Standing, decision: Decision, rules: PreemptionPolicy) -> bool:
    """True for a running attempt that another job's start may ask to leave."""
    attempt, status, seen = standing.live, standing.status, standing.observed
    if attempt is None or status is None or seen is None or standing.spec is None:
        return False
    if decision.verb is not Verb.KEEP or decision.reason not in MAY_BE_STOPPED:
        return False
    if seen.state is not ObservedState.RUNNING or attempt.phase is not AttemptPhase.RUNNING:
        return False
    return attempt.preemptible and status.preemptions < rules.max_per_job
