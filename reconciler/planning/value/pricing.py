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

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from reconciler.domain.units import JobId
from reconciler.planning.value.counts import FreeCounts
from reconciler.planning.value.fleet import JobFacts, Within
from reconciler.planning.value.here import Candidate, Here, Reach
from reconciler.planning.value.ranking import Valuation
from reconciler.planning.value.stock import Column, Shelf


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

    def within_reach(self, facts: JobFacts, rate: float) -> Reach:
        """Return which candidates the value test could let ``facts`` stop at all."""
        valuation = self._valuation
        return Reach(
            bar=2.0 * rate / valuation.rules.hysteresis,
            level=facts.level,
            since=valuation.now - valuation.rules.quantum_s,
        )

    def has_any(self, reach: Reach) -> bool:
        """Return whether anybody is within reach."""
        return any(
            (here := all_here.within(reach.level, reach.since)) is not None
            and here.least < reach.bar
            for all_here in self._shelf.rows.values()
            if all_here.least < reach.bar
        )

    def everybody(self, facts: JobFacts) -> Reach:
        """Return which candidates a firm job or one in a rush may stop without a test."""
        self._shelf.add_young(self._valuation)
        least = facts.level + 1 if facts.rush else min(facts.level, 1)
        return Reach(bar=inf, level=least, since=inf)

    def room_for(self, facts: JobFacts, reach: Reach, avoid: Collection[int]) -> Room | None:
        """Return the cheapest room for the gang that victims within reach can make, or None."""
        best: Room | None = None
        for pool in self._counts.pools_of(facts.pools):
            if facts.gpus <= self._counts.unit[pool]:
                room = self._on_one_row(
                    facts.gpus, pool, self._hopeful(facts.gpus, reach), reach, avoid
                )
            elif facts.within == Within.UNIT:
                continue
            else:
                room = self._on_rows(facts, pool, reach, avoid)
            if room is not None and (best is None or _cost(room) < _cost(best)):
                best = room
        return best

    def _hopeful(self, gpus: int, reach: Reach) -> Iterator[tuple[int, Here]]:
        """Yield the rows that have so many devices and somebody below the bar, the row of the
        cheapest candidate first."""
        shelf, devices = self._shelf, self._devices()
        hopeful = (devices >= gpus) & (shelf.leasts[: len(devices)] < reach.bar)
        found = hopeful.nonzero()[0]
        order = found[shelf.leasts[found].argsort(kind="stable")]
        return ((row, shelf.rows[row]) for row in order.tolist())

    def _devices(self) -> Column:
        """Return how many devices of each row are free or the candidates'; rows after the last
        that has candidates may be left out."""
        free, totals = self._counts.free, self._shelf.totals
        return np.array(free[: len(totals)], np.int64) + totals[: len(free)]

    def _on_one_row(
        self,
        gpus: int,
        pool: int,
        rows: Iterable[tuple[int, Here]],
        reach: Reach,
        avoid: Collection[int],
    ) -> Room | None:
        """Return the cheapest room on one row, if it is below the bar; rows come by their
        cheapest candidate.

        A set of which somebody is not below the bar is not either, and above it the value test
        fails whatever stopping costs, so the rates of the victims one by one need no look.
        """
        free, column = self._counts.free, self._counts.nodes.pool
        level, since = reach.level, reach.since
        best: tuple[float, float, int] | None = None
        chosen: tuple[Candidate, ...] = ()
        below = reach.bar
        for row, all_here in rows:
            if all_here.least > below:
                break  # one victim there costs more already
            if column[row] != pool or row in avoid:
                continue
            here = all_here.within(level, since)
            if here is None or free[row] + here.total < gpus:
                continue
            rate, price, found = here.cheapest(gpus - free[row])
            key = (rate, price, row)
            if rate < reach.bar and (best is None or key < best):
                best, chosen, below = key, found, rate
        return _room(chosen) if best is not None else None

    def _on_rows(
        self,
        facts: JobFacts,
        pool: int,
        reach: Reach,
        avoid: Collection[int],
    ) -> Room | None:
        nodes = self._counts.nodes
        if facts.within == Within.POOL:
            return self._clear(facts.gpus, pool, reach, avoid, None)
        column = nodes.node if facts.within == Within.NODE else nodes.rack
        rooms = []
        for domain in sorted(
            {column[row] for row in range(len(column)) if nodes.pool[row] == pool}
        ):
            inside = {row for row in range(len(column)) if column[row] == domain}
            room = self._clear(facts.gpus, pool, reach, avoid, inside)
            if room is not None:
                rooms.append(room)
        return min(rooms, key=_cost, default=None)

    def _clear(
        self,
        gpus: int,
        pool: int,
        reach: Reach,
        avoid: Collection[int],
        inside: Collection[int] | None,
    ) -> Room | None:
        """Clear the whole rows that are cheapest, a gang's cost shared by its GPUs, and make
        room for the rest on one more."""
        unit = self._counts.unit[pool]
        whole, rest = divmod(gpus, unit)
        column = self._counts.nodes.pool
        costs = [
            (0.0, row)
            for row in self._counts.by_free[pool][unit]
            if row not in avoid and (inside is None or row in inside)
        ]
        shelf, on_row = self._shelf, self._shelf.rows
        devices = self._devices()
        clear = (devices == unit) & (shelf.mosts[: len(devices)] < reach.bar)
        for row in clear.nonzero()[0].tolist():
            here = on_row[row]
            if column[row] != pool or here.level < reach.level or here.since > reach.since:
                continue
            if row not in avoid and (inside is None or row in inside):
                costs.append((here.share(), row))
        if len(costs) < whole:
            return None
        costs.sort()
        rows = [row for _, row in costs[:whole]]
        cleared = (on_row[row].pairs for row in rows if row in on_row)
        victims = {v.facts.job: v for pairs in cleared for v, _ in pairs}
        if rest and not self._has_rest(rest, pool, rows, victims, avoid, inside):
            part = self._on_one_row(rest, pool, self._others(rows, victims, inside), reach, avoid)
            if part is None:
                return None
            victims.update((v.facts.job, v) for v in part.victims)
        return _room([victims[job] for job in sorted(victims)])

    def _others(
        self, rows: list[int], victims: Container[JobId], inside: Collection[int] | None
    ) -> list[tuple[int, Here]]:
        """Return the other rows, with those that are no victims yet, as :meth:`_hopeful` does."""
        found = []
        for row, here in self._shelf.rows.items():
            if row not in rows and (inside is None or row in inside):
                left = here.but_for(victims)
                if left is not None:
                    found.append((row, left))
        return sorted(found, key=_by_least)

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


def _by_least(pair: tuple[int, Here]) -> float:
    return pair[1].least


def _room(victims: Sequence[Candidate]) -> Room:
    return Room(
        victims=tuple(victims),
        rate=sum(each.rate for each in victims),
        price=sum(each.price for each in victims),
        gpus=sum(each.facts.gpus for each in victims),
    )


def _cost(room: Room) -> tuple[float, float]:
    return room.rate, room.price
