"""Where could a gang go first?  Exact: no earlier start exists under what is placed.

A gang of one row takes the first tail or an earlier hole that is long enough.  One of several
rows takes the first instant at which enough rows of one domain are free for long enough.  Among
the places at that instant: what starts now goes where least is left over, else short holes are
used before tails, and a rack that just holds the gang before one that holds more.
"""

from array import array
from bisect import bisect_left
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reconciler.domain.units import Instant, Seconds
from reconciler.planning.capacity.gang import Domain, Gang, Way
from reconciler.planning.capacity.gaps import ROW_MASK, Gaps
from reconciler.planning.capacity.grid import ROW_BITS, Ints
from reconciler.planning.capacity.state import Groups, State
from reconciler.planning.capacity.timeline import FOREVER, TIME_BITS

Mask: TypeAlias = NDArray[np.bool_]
NEVER = FOREVER << ROW_BITS
_NO_ROWS = np.zeros(0, np.int64)
_FEW = 12
"""So many holes are looked at faster one by one than as an array."""
_GROUP_BITS = TIME_BITS + 1
_GROUP_TIME = (1 << _GROUP_BITS) - 1


class Slot(NamedTuple):
    """A place in time: ``counts`` devices of ``rows`` in [start, end)."""

    start: Instant
    end: Instant
    rows: tuple[int, ...]
    counts: tuple[int, ...]


def earliest(
    state: State, gang: Gang, duration_s: Seconds, not_before: Instant | None = None
) -> Slot | None:
    """Return the gang's earliest place for ``duration_s`` seconds; None if there is none ever."""
    state.expect(duration_s)
    since = state.now if not_before is None or not_before < state.now else not_before
    return find(state, gang.ways, duration_s, since)


def windows(
    state: State, gang: Gang, duration_s: Seconds, not_before: Instant, limit: int
) -> tuple[Slot, ...]:
    """Return up to ``limit`` places one after another: each the earliest after the one before."""
    found: list[Slot] = []
    since = not_before
    while len(found) < limit:
        slot = earliest(state, gang, duration_s, since)
        if slot is None:
            break
        found.append(slot)
        since = slot.end
    return tuple(found)


def find(state: State, ways: tuple[Way, ...], duration: int, since: int) -> Slot | None:
    """Return the earliest place by any of ``ways`` from ``since`` (not before now) on."""
    bound = FOREVER
    rows: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()
    for way in ways:
        if way.width == 1:
            gaps = state.gaps(way.type, way.count)
            key = first_row(gaps, way.would_do, duration, since)
            start, row = key >> ROW_BITS, key & ROW_MASK
            if start < bound:
                if start == state.now:
                    row = _tightest(state, gaps, way, duration)
                bound, rows, counts = start, (row,), (way.count,)
        elif way.is_loose:
            start, found, taken = _first_devices(state, way, duration, since)
            if start < bound:
                bound, rows, counts = start, found, taken
        else:
            start, found = _first_rows(state, way, duration, since)
            if start < bound:
                bound, rows, counts = start, found, (way.count,) * way.width
    if not rows:
        return None
    return Slot(Instant(bound), Instant(bound + duration), rows, counts)


def first_row(gaps: Gaps, would_do: Mask | None, duration: int, since: int) -> int:
    """Return ``start << ROW_BITS | row`` of the earliest place on one row, or ``NEVER``."""
    tails = gaps.tails
    if would_do is not None:
        best = next((key for key in tails if would_do[key & ROW_MASK]), NEVER)
    else:
        best = tails[0] if tails else NEVER
    if best >> ROW_BITS <= since:
        return since << ROW_BITS | _latest_tail(tails, would_do, since)
    begins, lengths = gaps.begins, gaps.lengths
    before = bisect_left(begins, best)
    if would_do is None and before <= _FEW:
        for index in range(before):
            key = begins[index]
            start = key >> ROW_BITS
            if start >= since:
                if lengths[index] >= duration:
                    return key
            elif start + lengths[index] - duration >= since:
                return since << ROW_BITS | key & ROW_MASK
        return best
    hole = _first_hole(gaps, before, would_do, duration, since)
    if hole is None:
        return best
    key = begins[hole]
    return max(key, since << ROW_BITS | key & ROW_MASK)


def _first_hole(
    gaps: Gaps, before: int, would_do: Mask | None, duration: int, since: int
) -> int | None:
    """Return which of the first ``before`` holes can be entered first."""
    if not before:
        return None
    length = np.frombuffer(gaps.lengths, np.int64, before)
    if gaps.begins[0] >> ROW_BITS >= since:
        fits = length >= duration
    else:
        begin = np.frombuffer(gaps.begins, np.int64, before) >> ROW_BITS
        fits = begin + length - duration >= np.maximum(begin, since)
    if would_do is not None:
        fits &= would_do[np.frombuffer(gaps.begins, np.int64, before) & ROW_MASK]
    index = int(fits.argmax())
    return index if fits[index] else None


def _latest_tail(tails: "array[int]", would_do: Mask | None, since: int) -> int:
    """Return the row with the last tail that has opened by ``since``; there is one."""
    index = bisect_left(tails, (since + 1) << ROW_BITS) - 1
    while would_do is not None and not would_do[tails[index] & ROW_MASK]:
        index -= 1
    return tails[index] & ROW_MASK


def _tightest(state: State, gaps: Gaps, way: Way, duration: int) -> int:
    """Return the row on which a gang that starts now leaves least; there is one."""
    end_of_now = (state.now + 1) << ROW_BITS
    open_tails = bisect_left(gaps.tails, end_of_now)
    rows = np.frombuffer(gaps.tails, np.int64, open_tails) & ROW_MASK
    open_holes = bisect_left(gaps.begins, end_of_now)
    if open_holes:
        fits = np.frombuffer(gaps.lengths, np.int64, open_holes) >= duration
        holes = np.frombuffer(gaps.begins, np.int64, open_holes)[fits] & ROW_MASK
        rows = np.sort(np.concatenate((rows, holes)))
    if way.would_do is not None:
        rows = rows[way.would_do[rows]]
    return int(rows[state.free_now[rows].argmin()])


def _first_rows(state: State, way: Way, duration: int, since: int) -> tuple[int, tuple[int, ...]]:
    """Return the earliest start on several rows, and those rows; ``FOREVER`` if there is none."""
    gaps = state.gaps(way.type, way.count)
    tails = np.frombuffer(gaps.tails, np.int64)
    if way.would_do is not None:
        tails = tails[way.would_do[tails & ROW_MASK]]
    group = None
    if way.domain is not Domain.CLUSTER:
        group = state.groups(way.type, way.domain)
    start = _by_tails(tails, group, way.width, since)
    holes = _open_holes(gaps, way, duration, since, start)
    if holes is not None:
        start = _by_both(tails, holes, group, way.width, since, start)
    if start == FOREVER:
        return start, ()
    ready = tails[: int(tails.searchsorted((start + 1) << ROW_BITS))] & ROW_MASK
    if holes is not None:
        is_open = (holes.begin <= start) & (start <= holes.last)
        closing = holes.row[is_open][np.argsort(holes.last[is_open], kind="stable")]
    else:
        closing = _NO_ROWS
    if group is not None:
        ready, closing = _in_fullest(group, ready, closing, way.width)
    rows = (*closing[: way.width].tolist(), *ready[::-1].tolist())
    return start, tuple(sorted(rows[: way.width]))


def _by_tails(tails: Ints, group: Groups | None, width: int, since: int) -> int:
    """Return when ``width`` rows of one group are free for good."""
    if group is None:
        if len(tails) < width:
            return FOREVER
        return max(int(tails[width - 1]) >> ROW_BITS, since)
    of_tail = group[tails & ROW_MASK]
    in_group = np.bincount(of_tail)
    wide = in_group >= width
    if not wide.any():
        return FOREVER
    nth = np.cumsum(in_group) - in_group + (width - 1)
    by_group = tails[np.argsort(of_tail, kind="stable")]
    return max(int(by_group[nth[wide]].min()) >> ROW_BITS, since)


class _Holes(NamedTuple):
    begin: Ints
    last: Ints
    """The last instant at which the hole can be entered."""
    row: Ints


def _open_holes(gaps: Gaps, way: Way, duration: int, since: int, bound: int) -> _Holes | None:
    """Return the holes that are long enough and can be entered before ``bound``."""
    before = bisect_left(gaps.begins, bound << ROW_BITS)
    if not before:
        return None
    key = np.frombuffer(gaps.begins, np.int64, before)
    length = np.frombuffer(gaps.lengths, np.int64, before)
    fits = length >= duration
    if way.would_do is not None:
        fits &= way.would_do[key & ROW_MASK]
    key, length = key[fits], length[fits]
    begin = key >> ROW_BITS
    last = begin + length - duration
    if len(key) and begin[0] < since:
        begin = np.maximum(begin, since)
        fits = last >= begin
        key, begin, last = key[fits], begin[fits], last[fits]
    return _Holes(begin, last, key & ROW_MASK) if len(key) else None


def _by_both(
    tails: Ints, holes: _Holes, group: Groups | None, width: int, since: int, bound: int
) -> int:
    """Return the first instant before ``bound`` at which ``width`` rows of one group are free."""
    usable = tails[: int(tails.searchsorted(bound << ROW_BITS))]
    begin = np.concatenate((np.maximum(usable >> ROW_BITS, since), holes.begin))
    last = np.concatenate((np.full(len(usable), FOREVER, np.int64), holes.last))
    if group is not None:
        of_row = group[np.concatenate((usable & ROW_MASK, holes.row))].astype(np.int64)
        of_row <<= _GROUP_BITS
        begin += of_row
        last += of_row
    begin.sort()
    last.sort()
    free = np.arange(1, len(begin) + 1) - last.searchsorted(begin)
    enough = begin[free >= width]
    if not len(enough):
        return bound
    return min(int((enough & _GROUP_TIME).min()), bound)


def _in_fullest(group: Groups, ready: Ints, closing: Ints, width: int) -> tuple[Ints, Ints]:
    """Return the rows of the group that holds the gang with the fewest rows to spare."""
    of_ready, of_closing = group[ready], group[closing]
    count = np.bincount(np.concatenate((of_ready, of_closing)))
    count[count < width] = FOREVER
    fullest = int(count.argmin())
    return ready[of_ready == fullest], closing[of_closing == fullest]


def _first_devices(
    state: State, way: Way, duration: int, since: int
) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return the earliest start of a loose gang, its rows and how many devices of each.

    A row with ``k`` devices free for long enough has a gap at each of the levels 1 to ``k``: so
    the gaps of all levels that are open together are counted like rows.
    """
    low, high = state.grid.spans[way.type]
    most = int(state.grid.size[low:high].max())
    levels = [state.gaps(way.type, count) for count in range(1, most + 1)]
    tails = np.sort(np.concatenate([np.frombuffer(level.tails, np.int64) for level in levels]))
    if way.would_do is not None:
        tails = tails[way.would_do[tails & ROW_MASK]]
    group = None if way.domain is Domain.CLUSTER else state.groups(way.type, way.domain)
    start = _by_tails(tails, group, way.devices, since)
    parts = [
        part
        for level in levels
        if (part := _open_holes(level, way, duration, since, start)) is not None
    ]
    if parts:
        holes = _Holes(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        start = _by_both(tails, holes, group, way.devices, since, start)
    if start == FOREVER:
        return start, (), ()
    free = tails[: int(tails.searchsorted((start + 1) << ROW_BITS))] & ROW_MASK
    if parts:
        is_open = (holes.begin <= start) & (start <= holes.last)
        free = np.concatenate((free, holes.row[is_open]))
    if group is not None:
        free, _ = _in_fullest(group, free, _NO_ROWS, way.devices)
    return start, *_most_first(np.bincount(free), way.devices)


def _most_first(free: Ints, devices: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Take ``devices`` from rows with so many free, fullest rows first: fewest rows."""
    taken: dict[int, int] = {}
    for row in np.argsort(-free, kind="stable").tolist():
        taken[row] = min(int(free[row]), devices)
        devices -= taken[row]
        if not devices:
            break
    rows = sorted(taken)
    return tuple(rows), tuple(taken[row] for row in rows)
