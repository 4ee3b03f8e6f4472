"""One event later: promised places are kept, and only what the event touched is planned again.

The places are promises and must be recorded with what they are repaired from: a repaired plan is
sound, but it is not the cold plan of the same moment.  Rules kept: a new gang gets the place its
rank allows and displaces only lower ranks; an end delays nobody; whoever can start now, or is
among the first ranks and can start earlier, does so where that holds nobody else.

Work is bounded by counts, never by time: the same event always gives the same places.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from reconciler.domain.units import Instant
from reconciler.planning.capacity.gang import Gang, Way
from reconciler.planning.capacity.grid import ROW_BITS, Grid, Ints
from reconciler.planning.capacity.holds import Holds
from reconciler.planning.capacity.places import Places, Ranking
from reconciler.planning.capacity.search import Slot, find
from reconciler.planning.capacity.state import State
from reconciler.planning.capacity.timeline import FOREVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much of a repair is done at once."""

    firm: int = 1000
    """Ranks that move to any earlier place; those behind move only to start now."""
    moves: int = 8
    """Moves of firm ranks in one repair; eight times as many may start now."""

    @property
    def work(self) -> int:
        """Units of search in one pass: a try costs two a row and four, a find three."""
        return 40 * self.moves


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Repaired:
    """The places after one event, and the capacity that is left."""

    places: Places
    state: State
    displaced: int
    moves: int


def repair(
    grid: Grid,
    now: Instant,
    base: Holds,
    ranking: Ranking,
    places: Places,
    *,
    arrived: int | None = None,
    freed: Iterable[int] = (),
    effort: Effort = Effort(),
) -> Repaired:
    """Return the places of ``ranking`` after one event.

    ``base`` is what others hold; ``arrived`` is the rank of a gang without a place; ``freed`` are
    rows on which more is free than when the places were promised.
    """
    work = _Repair(grid, now, base, ranking, places.copy(), effort)
    dirty = dict.fromkeys(freed)
    displaced: list[int] = []
    if arrived is not None:
        displaced = work.let_in(arrived)
        dirty.update(dict.fromkeys(work.place_again(displaced)))
    moves = work.compress(dirty, firm=0, most=8 * effort.moves)
    moves += work.compress(dirty, firm=effort.firm, most=effort.moves)
    return Repaired(places=work.places, state=work.state, displaced=len(displaced), moves=moves)


class _Repair:
    """One repair under way.  Mutable, local to one call."""

    def __init__(
        self,
        grid: Grid,
        now: Instant,
        base: Holds,
        ranking: Ranking,
        places: Places,
        effort: Effort,
    ) -> None:
        self._grid = grid
        self._now = now
        self._base = base
        self._ranking = ranking
        self._effort = effort
        self.places = places
        self._ranks = places.ranks()
        self._state: State | None = None
        self._alike = list(_by_gang(ranking))

    @property
    def state(self) -> State:
        """Capacity under all places as they are now."""
        if self._state is None:
            self._state = self._state_of(None)
        return self._state

    def _state_of(self, which: "np.typing.NDArray[np.bool_] | None") -> State:
        held = self.places.holds(self._ranking.duration, self._ranks, which)
        state = State(self._grid, self._base + held, self._now, shortest=self._ranking.shortest)
        state.prepare(gang for _, gang, _ in self._alike)
        return state

    def let_in(self, rank: int) -> list[int]:
        """Give the new gang what its rank allows; return the lower ranks that no longer fit."""
        ask, ranks = self._ranking.asks[rank], self._ranks
        state = self._state_of(ranks < rank)
        slot = find(state, ask.gang.ways, ask.duration_s, max(self._now, ask.not_before))
        if slot is None:
            return []
        state.place(slot.rows, slot.counts, slot.start, slot.end)
        taken = np.zeros(len(self._grid.size), bool)
        taken[list(slot.rows)] = True
        start = self.places.start[ranks]
        end = start + self._ranking.duration[ranks]
        touched = taken[self.places.row] & (start < slot.end) & (end > slot.start)
        displaced: dict[int, None] = {}
        for entry in np.flatnonzero(touched & (ranks > rank)).tolist():
            lower, row = int(ranks[entry]), int(self.places.row[entry])
            if lower in displaced:
                continue
            begins, count = int(start[entry]), int(self.places.count[entry])
            if state.least_free(row, begins, int(end[entry])) >= count:
                state.place((row,), (count,), begins, int(end[entry]))
            else:
                displaced[lower] = None
        self._put(rank, slot)
        return list(displaced)

    def place_again(self, displaced: list[int]) -> list[int]:
        """Give displaced ranks their earliest free places; return the rows they had."""
        left: list[int] = []
        for rank in displaced:
            low, high = self.places.first[rank], self.places.first[rank + 1]
            left += self.places.row[low:high].tolist()
        for rank in displaced:
            self._put(rank, None)
        self._state = None
        state = self.state
        for rank in displaced:
            ask = self._ranking.asks[rank]
            slot = find(state, ask.gang.ways, ask.duration_s, max(self._now, ask.not_before))
            self._put(rank, slot)
            if slot is not None:
                state.place(slot.rows, slot.counts, slot.start, slot.end)
        return left

    def _put(self, rank: int, slot: Slot | None) -> None:
        changed = self.places.with_slot(rank, slot)
        if changed is not self.places:
            self.places, self._ranks = changed, changed.ranks()

    def compress(self, dirty: dict[int, None], *, firm: int, most: int) -> int:
        """Move ranks to earlier places that hold nobody else; return how many moved.

        The first ``firm`` ranks move to any earlier start, the others only to now.  Rows that are
        left become dirty.
        """
        work, moves = 0, 0
        todo = list(dirty)
        while todo and moves < most:
            rows, todo = todo, []
            refused: dict[tuple[int, int], int] = {}
            for rank, may_slide in self._candidates(rows, firm):
                is_firm = rank < firm
                ask, before = self._ranking.asks[rank], int(self.places.start[rank])
                since = max(self._now, ask.not_before)
                if not (may_slide and self._has_room_before(rank, before, is_firm=is_firm)):
                    key = (int(self._ranking.kind[rank]), ask.duration_s)
                    best = refused.get(key)
                    if best is None:
                        work += 3
                        best = refused[key] = self._best(ask.gang, ask.duration_s, since, is_firm)
                    if best >= before or (best > self._now and not is_firm):
                        continue
                slot = self.places.slot(rank, ask.duration_s)
                assert slot is not None  # it has a start
                work += 2 * len(slot.rows) + 4
                if work > self._effort.work:
                    return moves
                moved = self._try(rank, slot, since, is_firm=is_firm)
                if moved:
                    refused.clear()
                    moves += 1
                    todo += slot.rows
                    dirty.update(dict.fromkeys(slot.rows))
                    if moves >= most:
                        break
        return moves

    def _best(self, gang: Gang, duration: int, since: int, is_firm: bool) -> int:
        """Return the earliest start beside everybody's place, its own included."""
        if not is_firm and not any(self._may_start_now(way, duration) for way in gang.ways):
            return FOREVER
        slot = find(self.state, gang.ways, duration, since)
        return FOREVER if slot is None else slot.start

    def _may_start_now(self, way: Way, duration: int) -> bool:
        """True if enough rows have a gap open now; racks aside.  Far cheaper than a search."""
        if way.is_loose:
            return True
        gaps = self.state.gaps(way.type, way.count)
        end_of_now = (self._now + 1) << ROW_BITS
        found = bisect_left(gaps.tails, end_of_now)
        for index in range(bisect_left(gaps.begins, end_of_now)):
            found += gaps.lengths[index] >= duration
        return found >= way.width

    def _try(self, rank: int, slot: Slot, since: int, *, is_firm: bool) -> bool:
        ask, state = self._ranking.asks[rank], self.state
        state.lift(slot.rows, slot.counts, slot.start, slot.end)
        found = find(state, ask.gang.ways, ask.duration_s, since)
        is_better = found is not None and found.start < slot.start
        if found is None or not is_better or not (is_firm or found.start == self._now):
            state.place(slot.rows, slot.counts, slot.start, slot.end)
            return False
        state.place(found.rows, found.counts, found.start, found.end)
        self._put(rank, found)
        return True

    def _has_room_before(self, rank: int, start: int, *, is_firm: bool) -> bool:
        """True if a gang could slide left on rows of its own."""
        part = slice(int(self.places.first[rank]), int(self.places.first[rank + 1]))
        rows, counts = self.places.row[part].tolist(), self.places.count[part].tolist()
        room = 0
        for row, count in zip(rows, counts, strict=True):
            at, free = self.state.steps_of(row)
            index = bisect_left(at, start)
            before = free[index - 1 : index] if is_firm else free[:index]
            room += bool(before) and min(before) >= count
        if not room or len(rows) == 1:
            return bool(room)
        ways = self._ranking.asks[rank].gang.ways
        others = max(self._open_before(way, start) for way in ways)
        return room + others >= len(rows)

    def _open_before(self, way: Way, start: int) -> int:
        """Return how many rows have a gap open just before ``start``: an upper bound."""
        if way.is_loose:
            return way.count
        gaps = self.state.gaps(way.type, way.count)
        found = bisect_left(gaps.tails, start << ROW_BITS)
        before = bisect_left(gaps.begins, start << ROW_BITS)
        begin = np.frombuffer(gaps.begins, np.int64, before) >> ROW_BITS
        ends = begin + np.frombuffer(gaps.lengths, np.int64, before)
        return found + int(np.count_nonzero(ends >= start))

    def _candidates(self, rows: list[int], firm: int) -> list[tuple[int, bool]]:
        """Return (rank, whether its own rows are dirty) of whoever may gain from these rows."""
        start, duration = self.places.start, self._ranking.duration
        can = np.zeros(len(start), bool)
        touched = np.zeros(len(self._grid.size), bool)
        touched[rows] = True
        own = np.zeros(len(start), bool)
        own[self._ranks[touched[self.places.row]]] = True
        can |= own & (start > self._now)
        frontiers: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for _, gang, alike in self._alike:
            for way in gang.ways:
                level = (way.type, 1 if way.is_loose else way.count)
                if level not in frontiers:
                    frontiers[level] = self._frontier(rows, *level)
                for begin, length in frontiers[level]:
                    ranks = alike if begin == self._now else alike[alike < firm]
                    can[ranks] |= (duration[ranks] <= length) & (start[ranks] > begin)
        may_start_now = self._ranking.not_before <= self._now
        may_start_now[:firm] = True
        can &= may_start_now & (start > np.maximum(self._ranking.not_before, self._now))
        return [(rank, bool(own[rank])) for rank in np.flatnonzero(can).tolist()]

    def _frontier(self, rows: list[int], kind: int, count: int) -> list[tuple[int, int]]:
        """Return the gaps (begin, length) of these rows that no other of them beats, by begin."""
        found: list[tuple[int, int]] = []
        for row in rows:
            if self._grid.type_of[row] != kind:
                continue
            begin: int | None = None
            for at, free in zip(*self.state.steps_of(row), strict=True):
                if free >= count:
                    begin = at if begin is None else begin
                elif begin is not None:
                    found.append((begin, begin - at))
                    begin = None
            if begin is not None:
                found.append((begin, -FOREVER))
        best, kept = 0, []
        for begin, negative in sorted(found):
            if -negative > best:
                best = -negative
                kept.append((begin, best))
        return kept


def _by_gang(ranking: Ranking) -> Iterator[tuple[int, Gang, Ints]]:
    """Yield each kind of the ranking with its gang and its ranks, sorted."""
    order = np.argsort(ranking.kind, kind="stable")
    kinds, first = np.unique(ranking.kind[order], return_index=True)
    for kind, ranks in zip(kinds.tolist(), np.split(order, first[1:]), strict=True):
        yield kind, ranking.asks[int(ranks[0])].gang, ranks
