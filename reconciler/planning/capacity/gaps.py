"""The gaps of one type's rows at one level: when are so many devices of a row free?

A gap is a longest interval in which a row has at least ``count`` devices free.  The last gap of a
row never ends: it is a tail.  The others are holes.  Both are kept sorted by (begin, row), so the
first row that is free for good is the first tail, and only holes before it can do better.
"""

from array import array
from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from reconciler.planning.capacity.grid import ROW_BITS, Ints
from reconciler.planning.capacity.timeline import FOREVER, Steps

ROW_MASK = (1 << ROW_BITS) - 1


class Gaps:
    """The gaps at one level.  Mutable, local to one state.

    Keys are ``begin << ROW_BITS | row``.  Holes shorter than ``shortest`` are not kept: nothing
    that is planned would fit into them.
    """

    __slots__ = ("begins", "count", "lengths", "shortest", "tails")

    def __init__(
        self,
        count: int,
        shortest: int,
        tails: "array[int]",
        begins: "array[int]",
        lengths: "array[int]",
    ) -> None:
        self.count = count
        self.shortest = shortest
        self.tails = tails
        self.begins = begins
        self.lengths = lengths

    def add(self, row: int, begin: int, end: int) -> None:
        """Add a gap of ``row``; one that ends at ``FOREVER`` is its tail."""
        key = begin << ROW_BITS | row
        if end == FOREVER:
            self.tails.insert(bisect_left(self.tails, key), key)
        elif end - begin >= self.shortest:
            index = bisect_left(self.begins, key)
            self.begins.insert(index, key)
            self.lengths.insert(index, end - begin)

    def drop(self, row: int, begin: int, end: int) -> None:
        """Take away a gap that was added with the same arguments."""
        key = begin << ROW_BITS | row
        if end == FOREVER:
            del self.tails[bisect_left(self.tails, key)]
        elif end - begin >= self.shortest:
            index = bisect_left(self.begins, key)
            del self.begins[index]
            del self.lengths[index]

    def cut(self, row: int, begin: int, end: int, start: int, finish: int) -> None:
        """Take [start, finish) out of the gap [begin, end) of ``row``: what most places do."""
        key, rest = begin << ROW_BITS | row, finish << ROW_BITS | row
        shortest = self.shortest
        if end == FOREVER:
            tails = self.tails
            index = bisect_left(tails, key)
            del tails[index]
            tails.insert(bisect_left(tails, rest, index), rest)
        elif end - begin >= shortest:
            begins, lengths = self.begins, self.lengths
            index = bisect_left(begins, key)
            del begins[index], lengths[index]
            if end - finish >= shortest:
                index = bisect_left(begins, rest, index)
                begins.insert(index, rest)
                lengths.insert(index, end - finish)
        if start - begin >= shortest:
            self.add(row, begin, start)

    def copy(self) -> "Gaps":
        """Return the same gaps, to be changed on their own."""
        return Gaps(self.count, self.shortest, self.tails[:], self.begins[:], self.lengths[:])


def gaps_of(steps: Steps, span: tuple[int, int], count: int, shortest: int) -> Gaps:
    """Return the gaps at level ``count`` of the rows [low, high) of ``span``."""
    low, high = steps.first[span[0]], steps.first[span[1]]
    at, row = steps.at[low:high], steps.row[low:high]
    enough = steps.free[low:high] >= count
    is_first = np.ones(len(row), bool)
    np.not_equal(row[1:], row[:-1], out=is_first[1:])
    is_last = np.ones(len(row), bool)
    is_last[:-1] = is_first[1:]
    opens = enough & (is_first | ~_shifted(enough))
    closes = enough & (is_last | ~_shifted(enough[::-1])[::-1])
    following = np.full(len(at), FOREVER, np.int64)
    following[:-1] = at[1:]
    following[is_last] = FOREVER
    begin, end = at[opens], following[closes]
    key = begin << ROW_BITS | row[opens]
    is_tail = end == FOREVER
    is_hole = ~is_tail & (end - begin >= shortest)
    holes, lengths = key[is_hole], (end - begin)[is_hole]
    order = np.argsort(holes)
    return Gaps(
        count, shortest, _array(np.sort(key[is_tail])), _array(holes[order]), _array(lengths[order])
    )


def _shifted(values: NDArray[np.bool_]) -> NDArray[np.bool_]:
    before = np.zeros(len(values), bool)
    before[1:] = values[:-1]
    return before


def _array(values: Ints) -> "array[int]":
    made = array("q")
    made.frombytes(values.tobytes())
    return made
