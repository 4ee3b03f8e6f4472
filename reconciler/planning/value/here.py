"""Who may be stopped on one row, and which of them for the least.

What a row's candidates would free, and for how much, hangs on nobody else.  An event changes one
row or two, so the answers are kept with the row until somebody comes or goes there.
"""

from collections.abc import Container
from dataclasses import dataclass
from typing import TypeAlias

from reconciler.domain.units import JobId
from reconciler.planning.value.fleet import JobFacts


@dataclass(frozen=True, slots=True)
class Candidate:
    """A running job that may be stopped, with what its progress and its stopping are worth."""

    rate: float
    price: float
    facts: JobFacts


@dataclass(frozen=True, slots=True)
class Reach:
    """Whom one job may stop, of those on the market."""

    bar: float
    """Those of a lower rate ..."""
    level: int
    """... of no more urgent class than this ..."""
    since: float
    """... that made progress from this instant on at the latest."""


Pairs: TypeAlias = tuple[tuple[Candidate, int], ...]
"""Candidates and how many devices of the row they hold, by rate and job."""
Cheapest: TypeAlias = tuple[float, float, tuple[Candidate, ...]]
"""Rates and prices of victims, summed, and the victims."""


class Here:
    """The candidates with devices on one row; never empty, never changed."""

    __slots__ = ("_cheapest", "_share", "least", "level", "most", "pairs", "since", "total")

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        self.least, self.most = pairs[0][0].rate, pairs[-1][0].rate
        """The lowest and the highest rate of one of them."""
        self.total = 0
        """Devices they hold there."""
        level, since = pairs[0][0].facts.level, pairs[0][0].facts.since
        for each, count in pairs:
            self.total += count
            facts = each.facts
            if facts.level < level:
                level = facts.level
            if facts.since > since:
                since = facts.since
        self.level, self.since = level, since
        """The most urgent class among them, and when the last of them began to make progress."""
        self._share: float | None = None
        self._cheapest: dict[int, Cheapest] = {}

    def joined_by(self, one: Candidate, count: int) -> "Here":
        """Return the row once ``one`` stands there too."""
        return Here(tuple(sorted((*self.pairs, (one, count)), key=by_rate)))

    def but_for(self, gone: Container[JobId]) -> "Here | None":
        """Return the row without those of ``gone``; None where nobody is left."""
        left = tuple(pair for pair in self.pairs if pair[0].facts.job not in gone)
        return Here(left) if left else None

    def within(self, level: int, since: float) -> "Here | None":
        """Return the row without those of a more urgent class or that began later; None where
        nobody is left."""
        if self.level >= level and self.since <= since:
            return self
        left = tuple(
            pair
            for pair in self.pairs
            if pair[0].facts.level >= level and pair[0].facts.since <= since
        )
        return Here(left) if left else None

    def share(self) -> float:
        """Return the rates of all, each shared by the GPUs of its gang."""
        if self._share is None:
            self._share = sum(each.rate * count / each.facts.gpus for each, count in self.pairs)
        return self._share

    def cheapest(self, wanted: int) -> Cheapest:
        """Return the cheapest victims that free ``wanted`` devices of the row, at least one and at
        most ``total``.

        Exact: of all sets that free so many of them, more counting no further, the cheapest is
        kept.
        """
        found = self._cheapest.get(wanted)
        if found is None:
            found = self._cheapest[wanted] = self._of_all_sets(wanted)
        return found

    def _of_all_sets(self, wanted: int) -> Cheapest:
        best: list[Cheapest | None] = [None] * (wanted + 1)
        best[0] = (0.0, 0.0, ())
        for each, count in self.pairs:
            for got in range(wanted - 1, -1, -1):
                before = best[got]
                if before is None:
                    continue
                rate, price = before[0] + each.rate, before[1] + each.price
                now = got + count if got + count < wanted else wanted
                known = best[now]
                if known is None or rate < known[0] or (rate == known[0] and price < known[1]):
                    best[now] = (rate, price, (*before[2], each))
        found = best[wanted]
        assert found is not None  # together they free enough
        return found


def by_rate(pair: tuple[Candidate, int]) -> tuple[float, JobId]:
    """Return where a candidate stands on a row."""
    return pair[0].rate, pair[0].facts.job
