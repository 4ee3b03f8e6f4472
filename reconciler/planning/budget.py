"""How many GPU-hours each budget has used and promised, and who has to wait for more.

A budget holds for a calendar period.  Used is what ended attempts and idle reservations took;
running is what live attempts took so far; promised is what is still to come of them, of booked
windows, and of jobs that wait with a promise.  A job is promised its bound (``max_gpu_hours``,
``time.limit`` times its GPUs, else the p90 of its duration) before it may start, so what starts
together cannot overrun together.

Rule kept: a budget is never exceeded.  Whoever has no bound of its own and outlives its p90 is
asked to checkpoint and leave while what is left still covers the leaving.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reconciler.domain.attempt import Attempt, AttemptPhase
from reconciler.domain.budget import Budget, BudgetUse, Period
from reconciler.domain.job import JobSpec
from reconciler.domain.plan import Decision, Verb
from reconciler.domain.reason import Reason
from reconciler.domain.reservation import (
    Occurrence,
    Reservation,
    ReservationDecision,
    ReservationPhase,
)
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.status import JobStatus
from reconciler.domain.units import Instant, JobId, rfc3339
from reconciler.planning import remaining
from reconciler.planning.bounds import most_gpus, own_bound_gpu_s
from reconciler.planning.eligibility import Bar
from reconciler.planning.remaining import Span
from reconciler.planning.shapes import Shapes
from reconciler.planning.standing import Standing
from reconciler.planning.topology import bits_of
from reconciler.planning.windows import Window, asked_before_s

_PROMISED = (None, Reason.RETRY_BACKOFF)
"""What may bar a job that keeps its promise."""


@dataclass(slots=True, kw_only=True)
class _Account:
    """One budget in its present period, in GPU-seconds."""

    budget: Budget
    used: int = 0
    running: int = 0
    to_come: int = 0
    """Of live attempts."""
    to_leave: int = 0
    """What attempts without a bound need to leave; part of no other figure."""
    unbounded: list[JobId] = field(default_factory=list)
    promised: int = 0
    """Of jobs that wait with a promise."""
    reserved: int = 0

    @property
    def period(self) -> Period:
        return self.budget.periods[0]


class Ledger:
    """The budgets of one snapshot.  Mutable, local to one pure planning call."""

    def __init__(
        self,
        snapshot: Snapshot,
        shapes: Shapes,
        *,
        live: Mapping[JobId, Standing],
        ended: Mapping[JobId, Standing],
    ) -> None:
        self._snapshot = snapshot
        self._where = shapes.where
        self._accounts = {
            name: _Account(budget=budget) for name, budget in snapshot.budgets.items()
        }
        self.spent = spent_after(snapshot, ended)
        self._live = live
        self._windows: tuple[Window, ...] = ()
        if not self._accounts:
            return
        for name, account in self._accounts.items():
            account.used = self.spent.get(spent_key(name, account.period), 0)
        for standing in live.values():
            self._count_live(standing)
        for status in snapshot.reservations.values():
            told = status.summary
            account_of = self._accounts.get(told.budget_group or "") if told else None
            for occurrence in status.occurrences:
                if account_of is not None and occurrence.phase is ReservationPhase.ACTIVE:
                    account_of.running += idle_in(occurrence, account_of.period, snapshot.now)

    def __bool__(self) -> bool:
        """False where the platform has no budgets."""
        return bool(self._accounts)

    # What is asked

    def room_for(
        self, held: Reservation, start: Instant, end: Instant, others: Iterable[Window]
    ) -> str:
        """Return why the budget has no room for a reservation in [start, end) beside the
        ``others``, with figures; empty where it has, or where no budget is named."""
        budget = self._snapshot.budgets.get(held.budget_group or "")
        if budget is None:
            return ""
        account = self._accounts[budget.name]
        windows = [window for window in others if window.budget_group == budget.name]
        for number, period in enumerate(budget.periods):
            asked = held.gpus.count * period.overlap_s(max(start, self._snapshot.now), end)
            taken = sum(self._reserved_s(window, period) for window in windows)
            if number == 0:
                taken += account.used + account.running + account.to_come + account.promised
            if asked and taken + asked > budget.limit_gpu_s:
                return _figures(budget, taken, asked)
        return ""

    def keep_windows(self, windows: tuple[Window, ...]) -> None:
        """Count what the calendar keeps."""
        self._windows = windows
        for window in windows:
            account = self._accounts.get(window.budget_group or "")
            if account is not None:
                account.reserved += self._reserved_s(window, account.period)

    def bars(
        self, bars: Mapping[JobId, Bar | None], jobs: Mapping[JobId, Standing]
    ) -> dict[JobId, Bar]:
        """Return the bar of every waiting job that its budget has no room for.

        Promises are given in the order of class, then submission; call once.
        """
        if not self._accounts:
            return {}
        asking = []
        for job, bar in bars.items():
            spec, status = jobs[job].spec, jobs[job].status
            if spec is None or status is None or spec.budget_group not in self._accounts:
                continue
            if (None if bar is None else bar.reason) in _PROMISED and not self._is_covered(spec):
                submitted_at = status.summary.submitted_at if status.summary else 0
                asking.append((spec.priority, submitted_at, job, spec, status))
        return dict(
            filter(
                None,
                (
                    self._bar(job, spec, status)
                    for *_, job, spec, status in sorted(asking, key=lambda a: a[:3])
                ),
            )
        )

    def leaving(self, settled: Mapping[JobId, Decision]) -> dict[JobId, Decision]:
        """Return the attempts without a bound that are asked to leave: what their budget has left
        just covers it."""
        asked: dict[JobId, Decision] = {}
        for name, account in self._accounts.items():
            taken = account.used + account.running + account.to_come + account.reserved
            if not account.unbounded or taken + account.to_leave <= account.budget.limit_gpu_s:
                continue
            for job in account.unbounded:
                if settled[job].verb is Verb.KEEP:
                    asked[job] = Decision(
                        job=job,
                        verb=Verb.SUSPEND,
                        reason=Reason.BUDGET_EXCEEDED,
                        detail=f"budget {name} is used up and the job has outlived its estimate",
                    )
        return asked

    def uses(self) -> tuple[BudgetUse, ...]:
        """Return how every budget stands, sorted by name."""
        return tuple(
            BudgetUse(
                name=name,
                period=account.period,
                limit_gpu_s=account.budget.limit_gpu_s,
                used_gpu_s=account.used,
                running_gpu_s=account.running,
                committed_gpu_s=account.to_come + account.promised + account.reserved,
                teams=account.budget.teams,
                words=account.budget.words,
            )
            for name, account in sorted(self._accounts.items())
        )

    # How it is counted

    def _bar(self, job: JobId, spec: JobSpec, status: JobStatus) -> tuple[JobId, Bar] | None:
        account = self._accounts[spec.budget_group or ""]
        budget, period, now = account.budget, account.period, self._snapshot.now
        gpus = most_gpus(spec)
        bound_s = self._bound_gpu_s(spec, status) // gpus
        asked = gpus * period.overlap_s(now, now + max(bound_s, 1))
        taken = account.used + account.running + account.to_come + account.reserved
        if taken + account.promised + asked <= budget.limit_gpu_s:
            account.promised += asked
            return None
        said = _figures(budget, taken + account.promised, asked)
        return job, Bar(reason=Reason.BUDGET_EXCEEDED, detail=said, until=period.end)

    def _bound_gpu_s(self, spec: JobSpec, status: JobStatus) -> int:
        """Return the most GPU-seconds that a waiting job will still use."""
        whole = remaining.total(spec, self._snapshot.sizes.get(spec.id, ()), self._snapshot.policy)
        left = remaining.of_pending(status, spec, whole)
        gpus = most_gpus(spec)
        own = own_bound_gpu_s(spec, gpus, ran_s=status.ran_s, used_gpu_s=status.gpu_seconds)
        return gpus * (left.p90 if own is None else own // gpus + spec.grace_s)

    def _count_live(self, standing: Standing) -> None:
        attempt, spec, status = standing.live, standing.spec, standing.status
        account = self._accounts.get(attempt.budget_group or "") if attempt else None
        if attempt is None or account is None or status is None:
            return
        now, period, policy = self._snapshot.now, account.period, self._snapshot.policy
        since = attempt.started_at or attempt.decided_at
        account.running += attempt.gpus * period.overlap_s(since, now)
        ran_s = attempt.running_s(now)
        own = own_bound_gpu_s(
            spec,
            attempt.gpus,
            ran_s=status.ran_s + ran_s,
            used_gpu_s=status.gpu_seconds + ran_s * attempt.gpus,
        )
        leave_s = asked_before_s(attempt.grace_s, policy)
        if attempt.phase is AttemptPhase.STOPPING:
            asked_at = attempt.stop_asked_at or now
            left_s = min(leave_s, max(asked_at + attempt.grace_s - now, 1))
        elif own is not None:
            left_s = max(own // attempt.gpus, 0) + attempt.grace_s
        else:
            account.unbounded.append(standing.id)
            account.to_leave += attempt.gpus * period.overlap_s(now, now + leave_s)
            left_s = self._expected_left(standing, attempt, status).p90
            account.to_leave -= attempt.gpus * period.overlap_s(now, now + left_s)
        left_s -= min(self._covered_s(attempt), left_s)
        account.to_come += attempt.gpus * period.overlap_s(now, now + left_s)

    def _expected_left(self, standing: Standing, attempt: Attempt, status: JobStatus) -> Span:
        spec, policy = standing.spec, self._snapshot.policy
        if spec is None:
            return Span(p50=policy.default_duration_s, p90=policy.default_duration_s)
        whole = remaining.total(spec, self._snapshot.sizes.get(spec.id, ()), policy)
        return remaining.of_live(status, attempt, standing.observed, whole, now=self._snapshot.now)

    def _covered_s(self, attempt: Attempt) -> int:
        """Return for how long a window of the same budget pays for what an attempt holds."""
        devices = bits_of(attempt.allocation, self._where)
        ends = [
            occurrence.end - self._snapshot.now
            for status in self._snapshot.reservations.values()
            if status.summary is not None and status.summary.budget_group == attempt.budget_group
            for occurrence in status.occurrences
            if occurrence.phase is ReservationPhase.ACTIVE
            and occurrence.devices is not None
            and devices & ~bits_of(occurrence.devices, self._where) == 0
        ]
        return max((*ends, 0))

    def _is_covered(self, spec: JobSpec) -> bool:
        """True for a job that a window of its own budget names: the window pays."""
        return any(
            spec.id in window.members and window.budget_group == spec.budget_group
            for window in self._windows
        )

    def _reserved_s(self, window: Window, period: Period) -> int:
        start = max(window.start, self._snapshot.now)
        return window.devices.bit_count() * period.overlap_s(start, window.end)


def spent_key(budget: str, period: Period) -> str:
    """Return the key of one period's use in the planner's state."""
    return f"{budget} {rfc3339(period.start)}"


def spent_after(snapshot: Snapshot, ended: Mapping[JobId, Standing]) -> dict[str, int]:
    """Return what is spent once the attempts that just ended are counted, sorted by key.

    An attempt over a turn of the period is charged to both sides of it.
    """
    spent = dict(snapshot.planner_state.spent)
    for standing in ended.values():
        attempt = standing.attempt
        budget = snapshot.budgets.get(attempt.budget_group or "") if attempt else None
        if attempt is None or budget is None:
            continue
        since = attempt.started_at
        until = snapshot.now if attempt.ended_at is None else attempt.ended_at
        for period in budget.periods:
            gpu_s = 0 if since is None else attempt.gpus * period.overlap_s(since, until)
            if gpu_s:
                key = spent_key(budget.name, period)
                spent[key] = spent.get(key, 0) + gpu_s
    return dict(sorted(spent.items()))


def charge_idle(
    spent: Mapping[str, int], snapshot: Snapshot, decisions: Iterable[ReservationDecision]
) -> dict[str, int]:
    """Return what is spent once the idle time of windows that just ended is counted."""
    found = dict(spent)
    for decision in decisions:
        status, over = snapshot.reservations.get(decision.reservation), decision.occurrence
        told = None if status is None else status.summary
        budget = snapshot.budgets.get(told.budget_group or "") if told else None
        if budget is None or over.phase.is_firm or not over.idle_gpu_s:
            continue
        for period in budget.periods:
            gpu_s = idle_in(over, period, snapshot.now)
            if gpu_s:
                key = spent_key(budget.name, period)
                found[key] = found.get(key, 0) + gpu_s
    return dict(sorted(found.items()))


def idle_in(occurrence: Occurrence, period: Period, now: Instant) -> int:
    """Return the idle GPU-seconds of one occurrence that fall into a period, taken as even."""
    until = min(max(now, occurrence.start + 1), occurrence.end)
    share = period.overlap_s(occurrence.start, until) / (until - occurrence.start)
    return round(occurrence.idle_gpu_s_at(now) * share)


def _figures(budget: Budget, taken: int, asked: int) -> str:
    return (
        f"budget {budget.name}: {hours(taken)} used and promised, this asks for {hours(asked)},"
        f" of {hours(budget.limit_gpu_s)} GPU-hours"
    )


def hours(gpu_s: int) -> str:
    """Return GPU-seconds as GPU-hours with one decimal, whole ones without."""
    text = f"{gpu_s / 3600:.1f}"
    return text.removesuffix(".0")
