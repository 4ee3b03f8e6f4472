"""The power of racks as a side constraint: so many watts a rack, so many a device in use.

Exact: a gang gets the first instant at which enough of its rows are free in racks that have the
watts for them.  A gang on one row looks at each rack from the first instant that may still do; one
on several rows steps from change to change.  Both remember what was refused: rows and watts only
get fewer while a plan is made.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping

import numpy as np

from reconciler.domain.units import Instant
from reconciler.planning.capacity.gang import Domain, Way, group_of
from reconciler.planning.capacity.gaps import ROW_MASK, Gaps
from reconciler.planning.capacity.grid import ROW_BITS, Grid, Ints
from reconciler.planning.capacity.profile import Profile
from reconciler.planning.capacity.search import NEVER, Slot, find
from reconciler.planning.capacity.state import State
from reconciler.planning.capacity.timeline import FOREVER


class RackPower:
    """Free watts of every rack over time.  Mutable, local to one plan."""

    def __init__(self, grid: Grid, cap: int, watts: Mapping[str, int], now: Instant) -> None:
        """``cap`` is a rack's, ``watts`` what a device of each type draws in use."""
        self.grid = grid
        self.cap = cap
        self.watts = tuple(watts.get(name, 0) for name in grid.types)
        self._changes: list[int] = []
        self._rack: list[int] = grid.rack.tolist()
        self.racks = [Profile(cap, now) for _ in range(max(self._rack, default=-1) + 1)]

    def spend(self, rows: Iterable[int], counts: Iterable[int], start: int, end: int) -> None:
        """Take what these devices draw in [start, end)."""
        drawn: dict[int, int] = {}
        for row, count in zip(rows, counts, strict=True):
            rack = self._rack[row]
            drawn[rack] = drawn.get(rack, 0) + count * self.watts[self.grid.type_of[row]]
        for rack, watts in drawn.items():
            self.racks[rack].spend(start, end, watts)
        insort(self._changes, start)
        insort(self._changes, end)

    def next_change(self, instant: int) -> int:
        """Return when any rack's free watts may change next; ``FOREVER`` if never."""
        index = bisect_right(self._changes, instant)
        return self._changes[index] if index < len(self._changes) else FOREVER

    def fits_at(self, row: int, count: int, start: int, duration: int) -> int:
        """Return from when on, at or after ``start``, a row's rack has the watts for it."""
        need = count * self.watts[self.grid.type_of[row]]
        return self.racks[self._rack[row]].next_fit(start, need, duration)


class Powered:
    """Searches under the power of racks, with what they learned while one plan is made."""

    def __init__(self, power: RackPower) -> None:
        self._power = power
        self._low: dict[tuple[int, int], Ints] = {}
        self._first: dict[tuple[int, int], int] = {}
        self._ever: dict[Way, bool] = {}

    def find(self, state: State, ways: tuple[Way, ...], duration: int, since: int) -> Slot | None:
        """Return the earliest place by any of ``ways`` from ``since`` on."""
        best: Slot | None = None
        for way in ways:
            if way.width == 1:
                slot = self._one(state, way, duration, since)
            else:
                slot = self._many(state, way, duration, since)
            if slot is not None and (best is None or slot.start < best.start):
                best = slot
        return best

    def _one(self, state: State, way: Way, duration: int, since: int) -> Slot | None:
        """Ask again, each time with the refused rack held back until it has the watts."""
        grid, gaps = state.grid, state.gaps(way.type, way.count)
        low = self._low.setdefault((id(way), duration), np.zeros(len(grid.size), np.int64))
        held_back = low if since <= state.now else np.maximum(low, since)
        while True:
            key = _first_row_from(gaps, way, duration, np.maximum(held_back, since))
            if key >= NEVER:
                return None
            start, row = key >> ROW_BITS, key & ROW_MASK
            fits_at = self._power.fits_at(row, way.count, start, duration)
            if fits_at == start:
                return Slot(Instant(start), Instant(start + duration), (row,), (way.count,))
            of_rack = grid.rack == grid.rack[row]
            held_back[of_rack] = fits_at

    def _many(self, state: State, way: Way, duration: int, since: int) -> Slot | None:
        """Step from change to change until enough rows are open in racks with enough watts."""
        key = (id(way), duration)
        known = self._first.get(key, state.now)
        slot = find(state, (way,), duration, max(since, known))
        start = FOREVER if slot is None or not self._fits_ever(way) else int(slot.start)
        while start < FOREVER:
            taken = self._taken(state, way, duration, start)
            if taken is not None:
                break
            start = self._next_change(state, way, start)
        else:
            return None
        if since <= known:
            self._first[key] = start
        rows = tuple(sorted(taken))
        return Slot(
            Instant(start), Instant(start + duration), rows, tuple(taken[row] for row in rows)
        )

    def _fits_ever(self, way: Way) -> bool:
        """True if empty racks would have the watts; a gang for which not must not be stepped."""
        if way not in self._ever:
            grid, power = self._power.grid, self._power
            low, high = grid.spans[way.type]
            size = grid.size[low:high] * (1 if way.would_do is None else way.would_do[low:high])
            units = size if way.is_loose else (size >= way.count).astype(np.int64)
            draws = (1 if way.is_loose else way.count) * power.watts[way.type]
            by_rack = np.bincount(grid.rack[low:high], units).astype(np.int64)
            most = np.minimum(by_rack, power.cap // draws) if draws else by_rack
            found = most.sum() if way.domain is Domain.CLUSTER else most.max(initial=0)
            self._ever[way] = bool(found >= (way.devices if way.is_loose else way.width))
        return self._ever[way]

    def _taken(self, state: State, way: Way, duration: int, start: int) -> dict[int, int] | None:
        """Return row to count of a place at ``start``; None where the watts are not enough."""
        grid, each = state.grid, 1 if way.is_loose else way.count
        units = _open_units(state, way, start, start + duration)
        watts = each * self._power.watts[way.type]
        needed = way.devices if way.is_loose else way.width
        low, high = state.grid.spans[way.type]
        rows = low + np.flatnonzero(units[low:high])
        if units[rows].sum() < needed:
            return None
        domains = [rows]
        if way.domain is not Domain.CLUSTER:
            group = group_of(grid, way.domain)[rows]
            domains = [rows[group == name] for name in _wide_enough(group, units[rows], needed)]
        for domain in domains:
            left = self._left(grid.rack[domain], units[domain], watts, start, start + duration)
            if sum(left.values()) >= needed:
                taken = _take(domain, units, grid.rack, left, needed)
                return {row: count * each for row, count in taken.items()}
        return None

    def _left(self, rack: Ints, units: Ints, watts: int, start: int, end: int) -> dict[int, int]:
        """Return how many of these units each rack has both rows and watts for."""
        found = {}
        for name, open_units in enumerate(np.bincount(rack, units).astype(np.int64).tolist()):
            if open_units and watts:
                free = max(self._power.racks[name].least(start, end), 0)
                found[name] = min(open_units, free // watts)
            elif open_units:
                found[name] = open_units
        return found

    def _next_change(self, state: State, way: Way, start: int) -> int:
        """Return the next instant at which a row may open or a rack may get watts back."""
        soonest = FOREVER
        for count in _levels(state.grid, way):
            gaps = state.gaps(way.type, count)
            for opened in (gaps.tails, gaps.begins):
                index = bisect_left(opened, (start + 1) << ROW_BITS)
                if index < len(opened):
                    soonest = min(soonest, opened[index] >> ROW_BITS)
        return min(soonest, self._power.next_change(start))


def _wide_enough(group: Ints, units: Ints, needed: int) -> list[int]:
    """Return the groups with enough open units, those with the fewest first."""
    together = np.bincount(group, units).astype(np.int64)
    wide = np.flatnonzero(together >= needed)
    found: list[int] = wide[np.argsort(together[wide], kind="stable")].tolist()
    return found


def _first_row_from(gaps: Gaps, way: Way, duration: int, low: Ints) -> int:
    """Return the key of the earliest place on one row, row ``r`` not before ``low[r]``."""
    best = NEVER
    for keys, lengths in ((gaps.tails, None), (gaps.begins, gaps.lengths)):
        if not keys:
            continue
        key = np.frombuffer(keys, np.int64)
        row = key & ROW_MASK
        begin = key >> ROW_BITS
        start = np.maximum(begin, low[row])
        found = start << ROW_BITS | row
        if lengths is not None:
            late = start + duration > begin + np.frombuffer(lengths, np.int64)
            found[late] = NEVER
        if way.would_do is not None:
            found[~way.would_do[row]] = NEVER
        best = min(best, int(found.min()))
    return best


def _open_units(state: State, way: Way, start: int, end: int) -> Ints:
    """Return what each row can give during all of [start, end): 0 or 1 share, or devices."""
    units = np.zeros(len(state.grid.size), np.int64)
    for count in _levels(state.grid, way):
        gaps = state.gaps(way.type, count)
        opened = bisect_left(gaps.tails, (start + 1) << ROW_BITS)
        units[np.frombuffer(gaps.tails, np.int64, opened) & ROW_MASK] += 1
        opened = bisect_left(gaps.begins, (start + 1) << ROW_BITS)
        key = np.frombuffer(gaps.begins, np.int64, opened)
        lasts = (key >> ROW_BITS) + np.frombuffer(gaps.lengths, np.int64, opened) >= end
        units[key[lasts] & ROW_MASK] += 1
    if way.would_do is not None:
        units[~way.would_do] = 0
    return units


def _levels(grid: Grid, way: Way) -> range | tuple[int]:
    """Return the levels whose gaps make a way: one, or all up to the largest row's."""
    if not way.is_loose:
        return (way.count,)
    low, high = grid.spans[way.type]
    return range(1, int(grid.size[low:high].max()) + 1)


def _take(rows: Ints, units: Ints, rack: Ints, left: dict[int, int], needed: int) -> dict[int, int]:
    """Take ``needed`` units, fullest rows first, no more of a rack than is ``left`` of it."""
    taken: dict[int, int] = {}
    for row in rows[np.argsort(-units[rows], kind="stable")].tolist():
        of_rack = int(rack[row])
        count = min(int(units[row]), left[of_rack], needed)
        if count > 0:
            taken[row] = count
            left[of_rack] -= count
            needed -= count
        if not needed:
            break
    return taken
