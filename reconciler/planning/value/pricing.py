"""Whom would a job have to stop, and is it worth it?

The test of a job j against a set of victims V, all in node counts:

    rate_j x (1 + max(0, 1 - G_V / g_j)) / (1 + kap x O / (g_j R_j))  >=  H x sum of rate_v

rate = weight / (R x ageing) is aged completions per second, O = sum of g_v x (save_v + restore_v)
x (1 + 1000 (g_v / C)^2) the GPU-seconds that stopping costs: a gang that holds a large share of the
cluster is dear to put together again.  Eight one-GPU jobs are weighed together against one gang of
eight.  The factor in G_V rewards filling devices that stand idle.

No loops: H = 2 means that a victim's rate is below half its preemptor's, and a job that made
progress for less than the quantum is no victim.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from reconciler.domain.units import JobId
from reconciler.planning.value.counts import FreeCounts
from reconciler.planning.value.fleet import JobFacts, Within
from reconciler.planning.value.ranking import Valuation
from reconciler.planning.value.stock import Candidate, Shelf


@dataclass(frozen=True, slots=True)
class Room:
    """Victims whose leaving makes room for a gang."""

    victims: tuple[Candidate, ...]
    rate: float
    price: float
    gpus: int


class Market:
    """The running jobs that may be stopped in one pass, cheapest first."""

    def __init__(self, valuation: Valuation, counts: FreeCounts, shelf: Shelf) -> None:
        self._valuation = valuation
        self._counts = counts
        self._shelf = shelf
        self._candidates, self._rates = shelf.line, shelf.rates

    def remove(self, gone: Iterable[Candidate]) -> None:
        """Take candidates off the market: they are being stopped."""
        for each in gone:
            self._shelf.take(each)

    def is_worth(self, facts: JobFacts, rate: float, room: Room) -> bool:
        """Return whether the value test lets ``facts``, of this rate, stop the room's victims."""
        rules = self._valuation.rules
        filling, least = self.bar(facts, room)
        if rate * filling < least:
            return False
        left = self._valuation.left(facts)
        price = 1.0 + rules.price_weight * room.price / (facts.gpus * left)
        return rate * filling / price >= least

    def bar(self, facts: JobFacts, room: Room) -> tuple[float, float]:
        """Return a factor for filling idle devices, and what a rate times it must reach at the
        least, whatever stopping costs."""
        filling = 1.0 + max(0.0, 1.0 - room.gpus / facts.gpus)
        return filling, self._valuation.rules.hysteresis * room.rate

    def within_reach(self, facts: JobFacts, rate: float) -> list[Candidate]:
        """Return the candidates that the value test could let ``facts`` stop at all."""
        valuation = self._valuation
        bar = 2.0 * rate / valuation.rules.hysteresis
        quantum = valuation.rules.quantum_s
        return [
            each
            for each in self._candidates[: bisect_left(self._rates, bar)]
            if valuation.now - each.facts.since >= quantum and each.facts.level >= facts.level
        ]

    def everybody(self, facts: JobFacts) -> list[Candidate]:
        """Return the candidates that a firm job or one in a rush may stop without a test."""
        self._shelf.add_young(self._valuation)
        if facts.rush:
            return [each for each in self._candidates if each.facts.level > facts.level]
        return [each for each in self._candidates if each.facts.level > 0 or facts.level == 0]

    def room_for(
        self, facts: JobFacts, allowed: list[Candidate], avoid: Collection[int]
    ) -> Room | None:
        """Return the cheapest room for the gang that the allowed victims can make, or None."""
        by_row: dict[int, list[tuple[Candidate, int]]] = {}
        for each in allowed:
            for row, count in each.facts.held:
                if row not in avoid:
                    by_row.setdefault(row, []).append((each, count))
        best: Room | None = None
        for pool in self._counts.pools_of(facts.pools):
            if facts.gpus <= self._counts.unit[pool]:
                room = self._on_one_row(facts.gpus, pool, by_row)
            elif facts.within == Within.UNIT:
                continue
            else:
                room = self._on_rows(facts, pool, by_row, avoid)
            if room is not None and (best is None or _cost(room) < _cost(best)):
                best = room
        return best

    def _on_one_row(
        self, gpus: int, pool: int, by_row: dict[int, list[tuple[Candidate, int]]]
    ) -> Room | None:
        free, column = self._counts.free, self._counts.nodes.pool
        best: tuple[float, float, int] | None = None
        chosen: list[Candidate] = []
        for row, here in by_row.items():
            if column[row] != pool or free[row] + _total(here) < gpus:
                continue
            found = _cheapest(here, gpus - free[row])
            key = (sum(v.rate for v in found), sum(v.price for v in found), row)
            if best is None or key < best:
                best, chosen = key, found
        return _room(chosen) if best is not None else None

    def _on_rows(
        self,
        facts: JobFacts,
        pool: int,
        by_row: dict[int, list[tuple[Candidate, int]]],
        avoid: Collection[int],
    ) -> Room | None:
        nodes = self._counts.nodes
        if facts.within == Within.POOL:
            return self._clear(facts.gpus, pool, by_row, avoid, None)
        column = nodes.node if facts.within == Within.NODE else nodes.rack
        rooms = []
        for domain in sorted(
            {column[row] for row in range(len(column)) if nodes.pool[row] == pool}
        ):
            inside = {row for row in range(len(column)) if column[row] == domain}
            room = self._clear(facts.gpus, pool, by_row, avoid, inside)
            if room is not None:
                rooms.append(room)
        return min(rooms, key=_cost, default=None)

    def _clear(
        self,
        gpus: int,
        pool: int,
        by_row: dict[int, list[tuple[Candidate, int]]],
        avoid: Collection[int],
        inside: Collection[int] | None,
    ) -> Room | None:
        """Clear the whole rows that are cheapest, a gang's cost shared by its GPUs, and make
        room for the rest on one more."""
        unit = self._counts.unit[pool]
        whole, rest = divmod(gpus, unit)
        free, column = self._counts.free, self._counts.nodes.pool
        costs = [
            (0.0, row)
            for row in self._counts.by_free[pool][unit]
            if row not in avoid and (inside is None or row in inside)
        ]
        for row, here in by_row.items():
            if column[row] != pool or (inside is not None and row not in inside):
                continue
            if free[row] + _total(here) == unit:
                cost = sum(v.rate * count / v.facts.gpus for v, count in here)
                costs.append((cost, row))
        if len(costs) < whole:
            return None
        costs.sort()
        rows = [row for _, row in costs[:whole]]
        victims = {v.facts.job: v for row in rows for v, _ in by_row.get(row, ())}
        if rest and not self._has_rest(rest, pool, rows, victims, avoid, inside):
            others = {
                row: [pair for pair in here if pair[0].facts.job not in victims]
                for row, here in by_row.items()
                if row not in rows and (inside is None or row in inside)
            }
            part = self._on_one_row(rest, pool, others)
            if part is None:
                return None
            victims.update((v.facts.job, v) for v in part.victims)
        return _room([victims[job] for job in sorted(victims)])

    def _has_rest(
        self,
        rest: int,
        pool: int,
        rows: list[int],
        victims: dict[JobId, Candidate],
        avoid: Collection[int],
        inside: Collection[int] | None,
    ) -> bool:
        left: dict[int, int] = {}
        for each in victims.values():
            for row, count in each.facts.held:
                left[row] = left.get(row, 0) + count
        taken = set(rows)
        free, column = self._counts.free, self._counts.nodes.pool
        return any(
            column[row] == pool
            and row not in taken
            and row not in avoid
            and (inside is None or row in inside)
            and free[row] + left.get(row, 0) >= rest
            for row in range(len(free))
        )


def _cheapest(here: list[tuple[Candidate, int]], wanted: int) -> list[Candidate]:
    """Return the cheapest victims of one row that free ``wanted`` devices on it.

    Exact: of all sets that free so many of them, more counting no further, the cheapest is kept.
    """
    if len(here) == 1:
        return [here[0][0]]
    best: list[tuple[float, float, tuple[Candidate, ...]] | None] = [None] * (wanted + 1)
    best[0] = (0.0, 0.0, ())
    for each, count in here:
        for got in range(wanted - 1, -1, -1):
            before = best[got]
            if before is None:
                continue
            rate, price = before[0] + each.rate, before[1] + each.price
            now = min(got + count, wanted)
            known = best[now]
            if known is None or (rate, price) < known[:2]:
                best[now] = (rate, price, (*before[2], each))
    found = best[wanted]
    assert found is not None  # together they free enough
    return list(found[2])


def _total(here: list[tuple[Candidate, int]]) -> int:
    total = 0
    for _, count in here:
        total += count
    return total


def _room(victims: list[Candidate]) -> Room:
    return Room(
        victims=tuple(victims),
        rate=sum(each.rate for each in victims),
        price=sum(each.price for each in victims),
        gpus=sum(each.facts.gpus for each in victims),
    )


def _cost(room: Room) -> tuple[float, float]:
    return room.rate, room.price
