"""The running jobs that may be stopped, cheapest first, kept from pass to pass.

Of a thousand that run, an event changes one, and with time a few cross into the next step of what
they are believed to need.  Only those are valued again.  A job that made progress for less than
the quantum is no victim of the value test, so it is valued only where a firm job asks.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from reconciler.domain.units import JobId
from reconciler.planning.table import Table
from reconciler.planning.value.fleet import JobFacts
from reconciler.planning.value.here import Candidate, Here, by_rate
from reconciler.planning.value.ranking import Valuation

Column: TypeAlias = npt.NDArray[Any]


@dataclass(slots=True)
class Shelf:
    """The candidates of one pass by row; whoever runs the pass takes out of it.

    Totals and rates of the rows are columns too, so that a pass looks only at rows that may do.
    """

    rows: dict[int, Here] = field(default_factory=dict)
    young: list[JobFacts] = field(default_factory=list)
    """Those that the value test may not stop yet."""
    total: int = 1
    totals: Column = field(default_factory=lambda: np.zeros(0, np.int64))
    """By row: devices that its candidates hold."""
    leasts: Column = field(default_factory=lambda: np.zeros(0))
    mosts: Column = field(default_factory=lambda: np.zeros(0))
    """By row: the lowest and the highest rate of its candidates; infinite where there are none."""

    def copy(self, young: Iterable[JobFacts], total: int) -> "Shelf":
        """Return a shelf that changes on its own."""
        columns = (self.totals.copy(), self.leasts.copy(), self.mosts.copy())
        return Shelf(dict(self.rows), list(young), total, *columns)

    def write(self, row: int, here: Here | None) -> None:
        """Let ``here`` be what stands on a row."""
        if row >= len(self.totals):
            self._grow(2 * row + 1)
        if here is None:
            self.rows.pop(row, None)
            self.totals[row], self.leasts[row], self.mosts[row] = 0, inf, inf
        else:
            self.rows[row] = here
            self.totals[row], self.leasts[row], self.mosts[row] = here.total, here.least, here.most

    def _grow(self, size: int) -> None:
        more = size - len(self.totals)
        self.totals = np.concatenate([self.totals, np.zeros(more, np.int64)])
        self.leasts = np.concatenate([self.leasts, np.full(more, inf)])
        self.mosts = np.concatenate([self.mosts, np.full(more, inf)])

    def add_young(self, valuation: Valuation) -> None:
        """Let those stand there too that the value test may not stop yet."""
        for facts in self.young:
            self.put(_candidate(facts, valuation, self.total))
        self.young = []

    def put(self, one: Candidate) -> None:
        """Let a candidate stand on its rows."""
        for row, count in one.facts.held:
            here = self.rows.get(row)
            self.write(row, Here(((one, count),)) if here is None else here.joined_by(one, count))

    def take(self, one: Candidate) -> None:
        """Take a candidate off its rows."""
        for row, _ in one.facts.held:
            self.write(row, self.rows[row].but_for((one.facts.job,)))


@dataclass(slots=True)
class Stock:
    """The candidates as they were in the last pass, and when each has to be looked at again."""

    stands_for: tuple[object, ...] = ()
    at: int = 0
    running: Table[JobId, JobFacts] | None = None
    firm: frozenset[JobId] = frozenset()
    shelf: Shelf = field(default_factory=Shelf)
    on_row: dict[int, dict[JobId, tuple[Candidate, int]]] = field(default_factory=dict)
    """What its rows are made from."""
    known: dict[JobId, Candidate] = field(default_factory=dict)
    young: dict[JobId, JobFacts] = field(default_factory=dict)
    turns: list[tuple[float, JobId]] = field(default_factory=list)
    """A heap of when jobs have to be looked at again; entries may be out of date."""

    def shelved(
        self,
        valuation: Valuation,
        running: Table[JobId, JobFacts],
        firm: Iterable[JobId],
        total: int,
    ) -> Shelf:
        """Return those of ``running`` that may be stopped, for one pass; ``firm`` may not."""
        now, total, apart = valuation.now, max(total, 1), frozenset(firm)
        changed = self._changed(valuation, running, apart, total)
        if changed is None:
            self._fill(valuation, running, apart, total)
        else:
            stale: set[int] = set()
            for job in self._due(now) - changed:
                if job in self.young:
                    changed.add(job)
                elif job in self.known:
                    self._value_again(job, valuation, stale)
            for job in changed:
                self._drop(job, stale)
            for job in changed:
                facts = running.get(job)
                if facts is not None and _may_be_stopped(facts, apart):
                    self._look_at(facts, valuation, stale)
            self._write(stale)
        self.at, self.running, self.firm = now, running, apart
        return self.shelf.copy(self.young.values(), total)

    def _changed(
        self,
        valuation: Valuation,
        running: Table[JobId, JobFacts],
        firm: frozenset[JobId],
        total: int,
    ) -> set[JobId] | None:
        """Return who changed since the last pass; None: it stands for something else."""
        stands_for = (valuation.budget_s, valuation.residuals, valuation.rules, total)
        is_same = stands_for == self.stands_for and self.at <= valuation.now
        self.stands_for = stands_for
        if not is_same or self.running is None:
            return None
        changed = self.running.changed_in(running)
        return None if changed is None else changed | (firm ^ self.firm)

    def _fill(
        self,
        valuation: Valuation,
        running: Table[JobId, JobFacts],
        firm: frozenset[JobId],
        total: int,
    ) -> None:
        self.known, self.young, self.turns = {}, {}, []
        self.shelf, self.on_row = Shelf(total=total), {}
        stale: set[int] = set()
        for facts in running.values():
            if _may_be_stopped(facts, firm):
                self._look_at(facts, valuation, stale)
        self._write(stale)

    def _look_at(self, facts: JobFacts, valuation: Valuation, stale: set[int]) -> None:
        job, quantum = facts.job, valuation.rules.quantum_s
        if valuation.now - facts.since < quantum:
            self.young[job] = facts
            heappush(self.turns, (facts.since + quantum, job))
            return
        self._stand(_candidate(facts, valuation, self.shelf.total), valuation, stale)

    def _due(self, now: int) -> set[JobId]:
        """Return whose turn has come: all of them first, as some have the next one at once."""
        found: set[JobId] = set()
        while self.turns and self.turns[0][0] <= now:
            found.add(heappop(self.turns)[1])
        return found

    def _value_again(self, job: JobId, valuation: Valuation, stale: set[int]) -> None:
        one = self.known[job]
        again = Candidate(valuation.rate(one.facts), one.price, one.facts)
        self._stand(again, valuation, stale)

    def _stand(self, one: Candidate, valuation: Valuation, stale: set[int]) -> None:
        facts = one.facts
        job = facts.job
        self.known[job] = one
        for row, count in facts.held:
            stale.add(row)
            self.on_row.setdefault(row, {})[job] = (one, count)
        heappush(self.turns, (_stays_until(facts, valuation), job))

    def _drop(self, job: JobId, stale: set[int]) -> None:
        self.young.pop(job, None)
        one = self.known.pop(job, None)
        if one is not None:
            for row, _ in one.facts.held:
                stale.add(row)
                del self.on_row[row][job]

    def _write(self, stale: Iterable[int]) -> None:
        """Make the rows anew on which somebody came, went or was valued again."""
        for row in stale:
            here = self.on_row[row]
            pairs = tuple(sorted(here.values(), key=by_rate))
            self.shelf.write(row, Here(pairs) if pairs else None)


def _may_be_stopped(facts: JobFacts, firm: Container[JobId]) -> bool:
    return facts.preemptible and not facts.rush and facts.job not in firm


def _candidate(facts: JobFacts, valuation: Valuation, total: int) -> Candidate:
    share = facts.gpus / total
    again = 1.0 + valuation.rules.reassembly * share * share
    price = facts.gpus * (facts.save_s + facts.restore_s) * again
    return Candidate(valuation.rate(facts), price, facts)


def _stays_until(facts: JobFacts, valuation: Valuation) -> float:
    """Return the instant at which the rate just worked out has to be worked out again: its slack
    or its delay moves with every second, else its residual life when it crosses its step."""
    if facts.deadline or not facts.held or valuation.now < facts.since:
        return valuation.now
    return facts.since - facts.served + valuation.residuals.lasts(facts)
