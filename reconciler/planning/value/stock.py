"""The running jobs that may be stopped, cheapest first, kept from pass to pass.

Of a thousand that run, an event changes one, and with time a few cross into the next step of what
they are believed to need.  Only those are valued again.  A job that made progress for less than
the quantum is no victim of the value test, so it is valued only where a firm job asks.
"""

from bisect import bisect_left
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from operator import attrgetter

from reconciler.domain.units import JobId
from reconciler.planning.table import Table
from reconciler.planning.value.fleet import JobFacts
from reconciler.planning.value.ranking import Valuation

_BY_RATE = attrgetter("rate", "facts.job")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A running job that may be stopped, with what its progress and its stopping are worth."""

    rate: float
    price: float
    facts: JobFacts


@dataclass(slots=True)
class Shelf:
    """The candidates of one pass, by rate and job; whoever runs the pass takes out of it."""

    line: list[Candidate]
    rates: list[float]
    young: list[JobFacts]
    """Those that the value test may not stop yet."""
    total: int

    def add_young(self, valuation: Valuation) -> None:
        """Let those stand in line too that the value test may not stop yet."""
        for facts in self.young:
            self.put(_candidate(facts, valuation, self.total))
        self.young = []

    def put(self, one: Candidate) -> None:
        """Let a candidate stand in line."""
        line, rates, rate, job = self.line, self.rates, one.rate, one.facts.job
        at = bisect_left(rates, rate)
        while at < len(rates) and rates[at] == rate and line[at].facts.job < job:
            at += 1
        line.insert(at, one)
        rates.insert(at, rate)

    def take(self, one: Candidate) -> None:
        """Take a candidate out of the line."""
        at = bisect_left(self.rates, one.rate)
        while self.line[at] is not one:
            at += 1
        del self.line[at]
        del self.rates[at]


@dataclass(slots=True)
class Stock:
    """The candidates as they were in the last pass, and when each has to be looked at again."""

    stands_for: tuple[object, ...] = ()
    at: int = 0
    running: Table[JobId, JobFacts] | None = None
    firm: frozenset[JobId] = frozenset()
    shelf: Shelf = field(default_factory=lambda: Shelf([], [], [], 1))
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
            while self.turns and self.turns[0][0] <= now:
                changed.add(heappop(self.turns)[1])
            for job in changed:
                self._drop(job)
            for job in changed:
                facts = running.get(job)
                if facts is not None and _may_be_stopped(facts, apart):
                    self._look_at(facts, valuation)
        self.at, self.running, self.firm = now, running, apart
        shelf = self.shelf
        return Shelf(list(shelf.line), list(shelf.rates), list(self.young.values()), total)

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
        quantum, now = valuation.rules.quantum_s, valuation.now
        for job, facts in running.items():
            if not _may_be_stopped(facts, firm):
                continue
            if now - facts.since < quantum:
                self.young[job] = facts
                self.turns.append((facts.since + quantum, job))
            else:
                self.known[job] = _candidate(facts, valuation, total)
                self.turns.append((_stays_until(facts, valuation), job))
        line = sorted(self.known.values(), key=_BY_RATE)
        self.shelf = Shelf(line, [each.rate for each in line], [], total)
        heapify(self.turns)

    def _look_at(self, facts: JobFacts, valuation: Valuation) -> None:
        job, quantum = facts.job, valuation.rules.quantum_s
        if valuation.now - facts.since < quantum:
            self.young[job] = facts
            heappush(self.turns, (facts.since + quantum, job))
            return
        one = self.known[job] = _candidate(facts, valuation, self.shelf.total)
        self.shelf.put(one)
        heappush(self.turns, (_stays_until(facts, valuation), job))

    def _drop(self, job: JobId) -> None:
        self.young.pop(job, None)
        one = self.known.pop(job, None)
        if one is not None:
            self.shelf.take(one)


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
