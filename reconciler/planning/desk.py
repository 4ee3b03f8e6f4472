"""What the value order is asked with, kept from cycle to cycle: holdings, facts, who waits.

A job moves between the tables when something happened to it, and only then; a cycle in which
little happened copies the tables and changes little.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reconciler.domain.attempt import AttemptPhase
from reconciler.domain.plan import Decision, Verb
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import Instant, JobId, TeamName
from reconciler.planning.books import Books
from reconciler.planning.holdings import Holdings, no_holdings
from reconciler.planning.job_facts import Facts
from reconciler.planning.priority import rank_instant
from reconciler.planning.rows import Rows
from reconciler.planning.standing import Standing
from reconciler.planning.table import Draft
from reconciler.planning.topology import Layout
from reconciler.planning.value.fleet import JobFacts
from reconciler.planning.waits import Kind

FORGET_OVER = 20_000
"""More weights than this are not kept."""


@dataclass(slots=True, kw_only=True)
class Desk:
    """Mutable while a plan is made, then left alone."""

    holdings: Holdings
    waiting: Draft[JobId, JobFacts] = field(default_factory=Draft)
    """Jobs that may start."""
    running: Draft[JobId, JobFacts] = field(default_factory=Draft)
    """Jobs that hold devices and stay."""
    aside: Draft[JobId, JobFacts] = field(default_factory=Draft)
    """Jobs that are not decided on: leaving, or kept back by a bar that falls by itself."""
    everybody: Draft[JobId, JobFacts] = field(default_factory=Draft)
    """All of these."""
    rushing: set[JobId] = field(default_factory=set)
    """Those of ``waiting`` in a rush."""
    promised: set[JobId] = field(default_factory=set)
    """Jobs whose status holds devices for them."""
    leaving: set[JobId] = field(default_factory=set)
    """Jobs that hold devices and go."""
    overruled: frozenset[JobId] = frozenset()
    """Live jobs about which something else was decided than what is settled."""
    timed: set[JobId] = field(default_factory=set)
    """Jobs whose facts change with time alone."""
    elastic: set[JobId] = field(default_factory=set)
    """Jobs that may run at other sizes."""
    kinds: Draft[JobId, Kind] = field(default_factory=Draft)
    """Team and request of the jobs that want devices: equal ones are the same object."""
    asking: dict[Kind, int] = field(default_factory=dict)
    """How many of each kind wait."""
    alike: dict[Kind, Kind] = field(default_factory=dict)
    """Every kind there was, so that equal ones are the same object."""
    weights: dict[Any, float] = field(default_factory=dict)
    """What the facts of jobs were worked out with (``Facts.weights``)."""
    ranked_at: Instant = Instant(0)

    def copy(self) -> "Desk":
        """Return a desk that changes on its own."""
        return Desk(
            holdings=self.holdings.copy(),
            waiting=Draft(self.waiting.done()),
            running=Draft(self.running.done()),
            aside=Draft(self.aside.done()),
            everybody=Draft(self.everybody.done()),
            rushing=set(self.rushing),
            promised=set(self.promised),
            leaving=set(self.leaving),
            timed=set(self.timed),
            elastic=set(self.elastic),
            kinds=Draft(self.kinds.done()),
            asking=dict(self.asking),
            alike=self.alike,
            weights=self.weights if len(self.weights) < FORGET_OVER else {},
            ranked_at=self.ranked_at,
        )

    def drop(self, job: JobId) -> None:
        """Forget a job."""
        kind = self.kinds.pop(job)
        if self.waiting.pop(job) is not None and kind is not None:
            self.asking[kind] -= 1
            if not self.asking[kind]:
                del self.asking[kind]
        for table in (self.running, self.aside, self.everybody):
            table.pop(job)
        for names in (self.rushing, self.promised, self.leaving, self.timed, self.elastic):
            names.discard(job)


def lay_out(
    snapshot: Snapshot,
    books: Books,
    rows: Rows,
    where: Layout,
    before: Desk | None,
    overruled: Mapping[JobId, Decision],
) -> Desk:
    """Return the desk of ``snapshot``; ``before`` is that of the books these grew from.

    ``overruled`` are live jobs about which something else is decided than what is settled.
    """
    if before is None or books.touched is None:
        desk = Desk(holdings=no_holdings(where, rows))
        touched: Iterable[JobId] = books.standings
    else:
        desk = before.copy()
        touched = books.touched | overruled.keys() | before.overruled
    at = rank_instant(snapshot.now, snapshot.policy)
    if at != desk.ranked_at:
        touched = {*touched, *desk.timed}
        desk.ranked_at = at
    desk.overruled = frozenset(overruled)
    clerk = _Clerk(desk, Facts(snapshot, books, rows, desk.weights), books, overruled)
    for job in touched:  # all let go before anybody takes: devices pass from one to the other
        clerk.let_go(job)
    for job in touched:
        clerk.look_at(job)
    return desk


@dataclass(frozen=True, slots=True)
class _Clerk:
    """Puts jobs where they belong."""

    desk: Desk
    facts: Facts
    books: Books
    overruled: Mapping[JobId, Decision]

    def let_go(self, job: JobId) -> None:
        standing, held = self.books.standings.get(job), self.desk.holdings.of.get(job)
        live = standing.live if standing is not None else None
        if held is not None and (live is None or held.allocation is not live.allocation):
            self.desk.holdings.drop(job)

    def look_at(self, job: JobId) -> None:
        desk, standing = self.desk, self.books.standings.get(job)
        desk.drop(job)
        if standing is None:
            return
        if standing.live is not None:
            self._live(job, standing)
        if standing.status is None:
            return
        if standing.status.holds:
            desk.promised.add(job)
        if job in self.books.bars:
            self._wanting(job, standing)
        if standing.spec is not None and standing.spec.deadline is not None:
            desk.timed.add(job)
        if standing.spec is not None and standing.spec.elastic is not None:
            desk.elastic.add(job)

    def _live(self, job: JobId, standing: Standing) -> None:
        desk, live = self.desk, standing.live
        assert live is not None  # asked only for live jobs
        held = desk.holdings.of.get(job)
        if held is None:
            held = desk.holdings.put(job, TeamName(job.split("/")[0]), live.allocation)
        decision = self.overruled.get(job) or self.books.settled[job]
        facts = self.facts.running(standing, decision, held.held)
        if live.phase is AttemptPhase.STOPPING or decision.verb is not Verb.KEEP:
            desk.leaving.add(job)
            desk.aside[job] = facts
        else:
            desk.running[job] = facts
        desk.everybody[job] = facts

    def _wanting(self, job: JobId, standing: Standing) -> None:
        bar, spec = self.books.bars[job], standing.spec
        assert spec is not None  # it wants devices
        kind = (job.split("/")[0], spec.gpus)
        kind = self.desk.kinds[job] = self.desk.alike.setdefault(kind, kind)
        if bar is not None and bar.after:
            return  # who waits for others has not arrived yet
        facts = self.facts.waiting(standing)
        if bar is None:
            self.desk.waiting[job] = facts
            self.desk.asking[kind] = self.desk.asking.get(kind, 0) + 1
            if facts.rush:
                self.desk.rushing.add(job)
        else:
            self.desk.aside[job] = facts
        self.desk.everybody[job] = facts
