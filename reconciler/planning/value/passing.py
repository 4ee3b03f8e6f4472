"""One pass over the waiting jobs: who starts where, and who leaves for it.

In ranking order a job takes free devices by best fit, or else those of victims where the price is
right; jobs behind it fill what is left, since they can be stopped again.  A victim goes back into
the same pass and moves if there is a hole for it.  A preemption is decided only together with the
start it is for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from typing import TypeAlias

from reconciler.domain.units import JobId
from reconciler.domain.value_state import FirmPlace, Held
from reconciler.planning.altered import altered
from reconciler.planning.value.counts import NONE_NEAR, NOWHERE, FreeCounts
from reconciler.planning.value.firm import drained
from reconciler.planning.value.fleet import Cause, Fleet, JobFacts, Start, Within
from reconciler.planning.value.here import Candidate
from reconciler.planning.value.pricing import Market, Room
from reconciler.planning.value.ranking import Valuation
from reconciler.planning.value.stock import Stock

MOST_DRAINS = 8
"""Firm or urgent gangs that get rows of their own at once."""


_Shape: TypeAlias = tuple[int, int, Within, bool, frozenset[int]]
"""GPUs, pools, domain, whether it cannot be stopped, and the rows it has to avoid."""


@dataclass(slots=True)
class Pass:
    """The state of one pass; ``starts`` and ``firm`` are its outcome."""

    fleet: Fleet
    valuation: Valuation
    firm: dict[JobId, FirmPlace]
    scores: Mapping[JobId, float]
    counts: FreeCounts
    starts: list[Start] = field(default_factory=list)
    stopped: set[JobId] = field(default_factory=set)
    stock: Stock = field(default_factory=Stock)
    _headroom: dict[str, int] = field(init=False)
    _market: Market | None = None
    _version: int = 0
    _dead: dict[_Shape, int] = field(default_factory=dict)
    _refused: dict[tuple[_Shape, int], tuple[int, float, Room | None]] = field(default_factory=dict)
    _bars: dict[tuple[int, int, Within, bool, int], tuple[float, float, float]] = field(
        default_factory=dict
    )
    """By shape and class: a job of at most the first rate whose rate times the second is below the
    third gets nothing."""
    _lost: set[int] = field(default_factory=set)
    """Numbers of shapes of which nobody gets anything any more."""
    _closed: dict[int, int] = field(default_factory=dict)
    _edges: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    _fixed_load: list[int] | None = None
    _near: dict[tuple[str, tuple[str, ...]], Mapping[int, int]] = field(default_factory=dict)
    _drains: int = 0

    def __post_init__(self) -> None:
        self._headroom = dict(self.fleet.headroom)
        for row, count, at in self.fleet.edges:
            self._edges.setdefault(row, []).append((count, at))

    def run(self, order: Iterable[JobFacts], shapes: Iterable[int]) -> None:
        """Decide about every waiting job, in the order given.

        ``shapes``: jobs with the same number ask for the same.  Once one of them loses, so do all
        behind it, whose rates are lower, until somebody is stopped.
        """
        for facts in self.fleet.urgent:
            self._drain(facts)
        returned: list[tuple[float, JobId, JobFacts]] = []
        lost = self._lost
        is_by_rate = not self.valuation.favour  # else rates do not fall along the order
        for facts, shape in zip(order, shapes, strict=True):
            if shape in lost:
                continue
            if not (facts.rush or facts.job in self.firm):
                score = self.scores[facts.job]
                while returned and returned[0][0] <= score:
                    self._move(heappop(returned)[2])
                if self._loses(facts):
                    if is_by_rate:
                        lost.add(shape)
                    continue
            for victim in self._consider(facts):
                as_waiting = altered(
                    victim.facts, served=self.valuation.served(victim.facts), held=(), since=0
                )
                score = self.valuation.score(as_waiting)
                heappush(returned, (score, as_waiting.job, as_waiting))
        while returned:
            self._move(heappop(returned)[2])

    def _consider(self, facts: JobFacts) -> tuple[Candidate, ...]:
        """Start the job if it may; return its victims."""
        if not self._has_headroom(facts):
            return ()
        is_first = facts.rush or facts.job in self.firm
        is_fixed = is_first or not facts.preemptible
        avoid = self._avoided(facts, is_fixed)
        held = self._free_place(facts, is_fixed, avoid)
        if held is not None:
            self._start(facts, held, (), Cause.FREE)
            return ()
        room = self._room(facts, is_first, avoid)
        if room is None:
            if is_first and facts.job in self.firm:
                self._drain(facts)
            elif not is_first:
                self._has_lost(facts, avoid)
            return ()
        for victim in room.victims:
            self.counts.give(self._open(victim.facts.held))
            self._give_headroom(victim.facts)
        held = self.counts.place(facts.gpus, facts.pools, facts.within, avoid)
        if held is None:
            for victim in room.victims:
                self.counts.take(self._open(victim.facts.held))
                self._take_headroom(victim.facts)
            return ()
        assert self._market is not None
        self._market.remove(room.victims)
        self._version += 1
        self._bars.clear()
        self._lost.clear()
        self.stopped.update(victim.facts.job for victim in room.victims)
        cause = Cause.RUSH if facts.rush else Cause.FIRM if is_first else Cause.VALUE
        self._start(facts, held, room.victims, cause)
        return room.victims

    def _loses(self, facts: JobFacts) -> bool:
        """True for a job that can do no better than one of its shape that just got nothing."""
        if self._edges or (self._closed and not facts.preemptible):
            return False
        shape = facts.gpus, facts.pools, facts.within, facts.preemptible, facts.level
        bar = self._bars.get(shape)
        if bar is None:
            return False
        rate = self._rate(facts)
        return rate <= bar[0] and rate * bar[1] < bar[2]

    def _has_lost(self, facts: JobFacts, avoid: frozenset[int]) -> None:
        """Remember a job that found neither a free place nor victims it is worth."""
        if avoid or self._edges:
            return
        known = self._refused[self._market_shape(facts, avoid | self.fleet.shut)]
        filling, bar = 1.0, inf
        if known[2] is not None:
            filling, bar = self._opened().bar(facts, known[2])
        shape = facts.gpus, facts.pools, facts.within, facts.preemptible, facts.level
        self._bars[shape] = known[1], filling, bar

    @staticmethod
    def _market_shape(facts: JobFacts, avoid: frozenset[int]) -> tuple[_Shape, int]:
        return (facts.gpus, facts.pools, facts.within, facts.preemptible, avoid), facts.level

    def _move(self, facts: JobFacts) -> None:
        """Start a victim again where there is a hole for it."""
        if not self._has_headroom(facts):
            return
        held = self._free_place(facts, False, self._avoided(facts, False))
        if held is not None:
            self._start(facts, held, (), Cause.FREE)

    def _start(
        self, facts: JobFacts, held: Held, victims: tuple[Candidate, ...], cause: Cause
    ) -> None:
        self.counts.take(held)
        self._take_headroom(facts)
        names = tuple(sorted(victim.facts.job for victim in victims))
        self.starts.append(Start(job=facts.job, nodes=held, victims=names, cause=cause))
        if self._fixed_load is not None and not facts.preemptible:
            for row, count in held:
                self._fixed_load[row] += count

    def _free_place(self, facts: JobFacts, is_fixed: bool, avoid: frozenset[int]) -> Held | None:
        shape = (facts.gpus, facts.pools, facts.within, is_fixed, avoid)
        if self._dead.get(shape) == self._version:
            return None
        held = None
        if self.fleet.last:
            held = self._place(facts, avoid | self.fleet.last)
        if held is None:
            held = self._place(facts, avoid)
        if held is None:
            self._dead[shape] = self._version
        return held

    def _place(self, facts: JobFacts, avoid: frozenset[int]) -> Held | None:
        if facts.first_pools:
            linked = altered(facts, pools=facts.pools & facts.first_pools, first_pools=0)
            held = self._place(linked, avoid)
            if held is not None:
                return held
        counts, near = self.counts, NONE_NEAR
        if self.fleet.nodes.caches:
            near = self._nearness(facts)
        held = None if facts.preemptible else self._beside_fixed(facts, avoid, near)
        if held is None and near:
            held = counts.place_near(facts.gpus, facts.pools, facts.within, avoid, near)
        elif held is None:
            held = counts.place(facts.gpus, facts.pools, facts.within, avoid)
        return held

    def _nearness(self, facts: JobFacts) -> Mapping[int, int]:
        """Return what rows are worth that have something of what the job reads."""
        read = facts.model, facts.data
        near = self._near.get(read)
        if near is None:
            near = self._near[read] = self.fleet.nodes.caches.near(*read)
        return near

    def _beside_fixed(
        self, facts: JobFacts, avoid: frozenset[int], near: Mapping[int, int]
    ) -> Held | None:
        """Return the row with room that already has most work that cannot be stopped.

        Kept together, it blocks as few whole rows for wide gangs as it can.
        """
        counts = self.counts
        load = self._load()
        best: tuple[int, int, int] | None = None
        for pool in counts.pools_of(facts.pools):
            for free in range(facts.gpus, counts.unit[pool] + 1):
                for row in counts.by_free[pool][free]:
                    key = (-load[row], free, row)
                    if (best is None or key < best) and row not in avoid:
                        best = key
        if best is None:
            return None
        row = best[2]
        if near:
            alike = [
                row
                for pool in counts.pools_of(facts.pools)
                for row in (counts.by_free[pool][best[1]] if best[1] <= counts.unit[pool] else ())
                if load[row] == -best[0] and row not in avoid
            ]
            row = min(alike, key=lambda row: (-near.get(row, 0), row))
        return ((row, facts.gpus),)

    def _load(self) -> list[int]:
        if self._fixed_load is None:
            self._fixed_load = [0] * len(self.counts.free)
            for facts in (*self.fleet.running, *self.fleet.aside):
                if not facts.preemptible:
                    for row, count in facts.held:
                        self._fixed_load[row] += count
        return self._fixed_load

    def _room(self, facts: JobFacts, is_first: bool, avoid: frozenset[int]) -> Room | None:
        market = self._opened()
        avoid = avoid | self.fleet.shut
        if is_first:
            return market.room_for(facts, market.everybody(facts), avoid)
        shape = self._market_shape(facts, avoid)
        rate = self._rate(facts)
        known = self._refused.get(shape)
        if known is not None and known[0] == self._version and rate <= known[1]:
            room = known[2]
            if room is None or not market.is_worth(facts, rate, room):
                return None  # it has no more to gain than who was refused before
        reach = market.within_reach(facts, rate)
        room = market.room_for(facts, reach, avoid) if market.has_any(reach) else None
        self._refused[shape] = (self._version, rate, room)
        if room is None or not market.is_worth(facts, rate, room):
            return None
        return room

    def _rate(self, facts: JobFacts) -> float:
        rate = facts.gpus / self.scores[facts.job]  # score = gpus x left x ageing / weight
        return rate / self.valuation.favour_of(facts) if self.valuation.favour else rate

    def _opened(self) -> Market:
        if self._market is None:
            sizes = self.fleet.nodes.sizes
            total = sum(sizes) - sum(sizes[row] for row in self.fleet.shut)
            shelf = self.stock.shelved(
                self.valuation, self.fleet.running_by_job(), self.firm, total
            )
            self._market = Market(self.valuation, self.counts, shelf)
        return self._market

    def _avoided(self, facts: JobFacts, is_fixed: bool) -> frozenset[int]:
        """Return the rows the job may not start on: closed to what cannot be stopped, or
        promised to somebody before it lets go."""
        if not self._edges and not (is_fixed and self._closed):
            return NOWHERE
        now = self.valuation.now
        rows: list[int] = []
        if is_fixed and self._closed:
            left = facts.limit - self.valuation.served(facts)
            ends = now + left if facts.limit else None
            rows = [row for row, at in self._closed.items() if ends is None or ends > at]
        for row, promised in self._edges.items():
            until = now + facts.reach_s
            count = sum(count for count, at in promised if not facts.reach_s or at < until)
            needed = min(facts.gpus, self.counts.nodes.sizes[row])
            if count and self.counts.free[row] - count < needed:
                rows.append(row)
        return frozenset(rows)

    def _drain(self, facts: JobFacts) -> None:
        if self._drains == MOST_DRAINS:
            return
        firm = self.firm
        blockers = [
            each
            for each in (*self.fleet.running, *self.fleet.aside)
            if each.held
            and (not each.preemptible or each.rush or (each.job in firm and not facts.rush))
        ]
        before = firm[facts.job].nodes if facts.job in firm else ()
        found = drained(facts, self.fleet, self.valuation, blockers, self._closed, before)
        rows = () if found is None else found.rows
        if found is not None:
            self._drains += 1
            self._closed.update(dict.fromkeys(found.rows, found.clear_at))
        if facts.job in firm and rows != before:
            firm[facts.job] = altered(firm[facts.job], nodes=rows)

    def _open(self, held: Held) -> Held:
        """Return what of the devices something may start on."""
        shut = self.fleet.shut
        return tuple(pair for pair in held if pair[0] not in shut) if shut else held

    def _has_headroom(self, facts: JobFacts) -> bool:
        account = self.fleet.account.get(facts.job)
        return account is None or self._headroom.get(account, facts.gpus) >= facts.gpus

    def _take_headroom(self, facts: JobFacts, sign: int = -1) -> None:
        account = self.fleet.account.get(facts.job)
        if account is not None and account in self._headroom:
            self._headroom[account] += sign * facts.gpus

    def _give_headroom(self, facts: JobFacts) -> None:
        self._take_headroom(facts, 1)
