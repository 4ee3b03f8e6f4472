"""Capacity over time as it stands while a plan is made: who takes what is subtracted at once.

Mutable and local to one pure call.  Build it from holds (a few milliseconds for a large
cluster), copy it for a what-if, or lift what was placed; the truth are the holds.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from reconciler.domain.units import Instant
from reconciler.planning.capacity.gang import Domain, Gang, group_of
from reconciler.planning.capacity.gaps import Gaps, gaps_of
from reconciler.planning.capacity.grid import Grid, Ints
from reconciler.planning.capacity.holds import Holds
from reconciler.planning.capacity.timeline import FOREVER, Steps, step_functions

Groups: TypeAlias = NDArray[np.signedinteger]


class State:
    """Free devices of every row from ``now`` on, and the gaps of the levels asked for so far."""

    def __init__(self, grid: Grid, holds: Holds, now: Instant, *, shortest: int = 1) -> None:
        """``shortest`` is the shortest duration that will be looked for."""
        self.grid = grid
        self.now = now
        self.shortest = max(shortest, 1)
        self._steps: Steps = step_functions(grid.size, now, holds)
        self._is_as_built = True
        self._at: list[list[int] | None] = [None] * len(grid.size)
        self._free: list[list[int] | None] = [None] * len(grid.size)
        self.free_now: Ints = self._steps.free[self._steps.first[:-1]]
        self._levels: list[list[Gaps]] = [[] for _ in grid.types]
        self._by_count: list[dict[int, Gaps]] = [{} for _ in grid.types]
        self._groups: dict[tuple[int, Domain], Groups] = {}

    def gaps(self, kind: int, count: int) -> Gaps:
        """Return the gaps of a type's rows at level ``count``, kept up to date from now on."""
        level = self._by_count[kind].get(count)
        if level is not None:
            return level
        made = gaps_of(self._all_steps(), self.grid.spans[kind], count, self.shortest)
        self._levels[kind].append(made)
        self._by_count[kind][count] = made
        return made

    def prepare(self, gangs: Iterable[Gang]) -> None:
        """Make the levels of these gangs now, in bulk: later each costs a pass over all rows."""
        for gang in {id(gang): gang for gang in gangs}.values():
            for way in gang.ways:
                for count in range(1, way.count + 1) if way.is_loose else (way.count,):
                    if count <= self._most(way.type):
                        self.gaps(way.type, count)

    def _most(self, kind: int) -> int:
        low, high = self.grid.spans[kind]
        return int(self.grid.size[low:high].max())

    def expect(self, shortest: int) -> None:
        """Make sure that holes of this length are known."""
        if shortest >= self.shortest:
            return
        self.shortest = max(shortest, 1)
        counts = [[level.count for level in levels] for levels in self._levels]
        self._levels = [[] for _ in counts]
        self._by_count = [{} for _ in counts]
        for kind, wanted in enumerate(counts):
            for count in wanted:
                self.gaps(kind, count)

    def groups(self, kind: int, domain: Domain) -> Groups:
        """Return the node or rack of every row, numbered from 0 within the type.

        Sixteen bits where they suffice: those are sorted by counting.
        """
        found = self._groups.get((kind, domain))
        if found is None:
            low, high = self.grid.spans[kind]
            names, number = np.unique(group_of(self.grid, domain)[low:high], return_inverse=True)
            small = np.int16 if len(names) < 1 << 15 else np.int64
            found = np.zeros(len(self.grid.size), np.int64).astype(small)
            found[low:high] = number
            self._groups[kind, domain] = found
        return found

    def place(self, rows: Iterable[int], counts: Iterable[int], start: int, end: int) -> None:
        """Take so many devices of these rows in [start, end)."""
        for row, count in zip(rows, counts, strict=True):
            self._change(row, start, end, -count)

    def lift(self, rows: Iterable[int], counts: Iterable[int], start: int, end: int) -> None:
        """Give back what :meth:`place` took with the same arguments."""
        for row, count in zip(rows, counts, strict=True):
            self._change(row, start, end, count)

    def least_free(self, row: int, start: int, end: int) -> int:
        """Return how many devices of ``row`` are free during all of [start, end)."""
        at, free = self.steps_of(row)
        return min(free[max(bisect_right(at, start) - 1, 0) : max(bisect_left(at, end), 1)])

    def steps_of(self, row: int) -> tuple[list[int], list[int]]:
        """Return a row's step function: instants, and what is free from each on.  Read only."""
        at, free = self._at[row], self._free[row]
        if at is None or free is None:
            steps = self._steps
            part = slice(steps.first[row], steps.first[row + 1])
            at, free = steps.at[part].tolist(), steps.free[part].tolist()
            self._at[row], self._free[row] = at, free
        return at, free

    def copy(self) -> "State":
        """Return the same capacity, to be changed on its own."""
        made = State.__new__(State)
        made.grid, made.now, made.shortest = self.grid, self.now, self.shortest
        made._steps, made._groups = self._steps, self._groups
        made._is_as_built = self._is_as_built
        made._at = [None if at is None else at[:] for at in self._at]
        made._free = [None if free is None else free[:] for free in self._free]
        made.free_now = self.free_now.copy()
        made._levels = [[level.copy() for level in levels] for levels in self._levels]
        made._by_count = [{level.count: level for level in levels} for levels in made._levels]
        return made

    def _all_steps(self) -> Steps:
        """Return the step functions of all rows as they are now."""
        if self._is_as_built:
            return self._steps
        both = [self.steps_of(row) for row in range(len(self._at))]
        lengths = [len(at) for at, _ in both]
        return Steps(
            at=np.array([t for at, _ in both for t in at], np.int64),
            free=np.array([f for _, free in both for f in free], np.int64),
            row=np.repeat(np.arange(len(both)), lengths),
            first=[0, *np.cumsum(lengths).tolist()],
        )

    def _change(self, row: int, start: int, end: int, step: int) -> None:
        """Add ``step`` to what is free of ``row`` in [start, end)."""
        at, free = self.steps_of(row)
        start = max(start, self.now)
        if end <= start:
            return
        self._is_as_built = False
        first, after = _split(at, free, start, end)
        inside = free[first:after]
        low, high = min(inside), max(inside)
        bottom, top = (low + step, high) if step < 0 else (low, high + step)
        for level in self._levels[self.grid.type_of[row]]:
            if bottom < level.count <= top:
                _regap(level, row, at, free, first, after, step, low, high)
        free[first:after] = [each + step for each in inside]
        if first == 0:
            self.free_now[row] = free[0]
        if free[after] == free[after - 1]:
            del at[after], free[after]
        if first and free[first] == free[first - 1]:
            del at[first], free[first]


def _split(at: list[int], free: list[int], start: int, end: int) -> tuple[int, int]:
    """Make steps begin at ``start`` and at ``end``; return their positions."""
    first = bisect_right(at, start) - 1
    if at[first] < start:
        first += 1
        at.insert(first, start)
        free.insert(first, free[first - 1])
    after = bisect_left(at, end, first)
    if after == len(at) or at[after] != end:
        at.insert(after, end)
        free.insert(after, free[after - 1])
    return first, after


def _regap(
    level: Gaps,
    row: int,
    at: list[int],
    free: list[int],
    first: int,
    after: int,
    step: int,
    low: int,
    high: int,
) -> None:
    """Bring a level up to date before steps [first, after) of ``row`` change by ``step``."""
    count = level.count
    left, right, size = first, after, len(at)
    while left and free[left - 1] >= count:
        left -= 1
    while right < size and free[right] >= count:
        right += 1
    begin, start = at[left], at[first]
    end, finish = at[right] if right < size else FOREVER, at[after]
    if high + step < count <= low:
        level.cut(row, begin, end, start, finish)
    elif high < count <= low + step:
        if left < first:
            level.drop(row, begin, start)
        if right > after:
            level.drop(row, finish, end)
        level.add(row, begin, end)
    else:
        window = free[left:right]
        for gap in _runs(at, window, left, count):
            level.drop(row, *gap)
        for index in range(first - left, after - left):
            window[index] += step
        for gap in _runs(at, window, left, count):
            level.add(row, *gap)


def _runs(at: list[int], window: list[int], left: int, count: int) -> list[tuple[int, int]]:
    """Return the gaps at level ``count`` within a window of steps that begins at ``left``."""
    found = []
    begin: int | None = None
    for index, each in enumerate(window, left):
        if each >= count:
            begin = at[index] if begin is None else begin
        elif begin is not None:
            found.append((begin, at[index]))
            begin = None
    if begin is not None:
        right = left + len(window)
        found.append((begin, at[right] if right < len(at) else FOREVER))
    return found
