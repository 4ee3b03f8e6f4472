"""What is taken, when: the whole truth about capacity over time, as flat columns.

Attempts, reservations and promised places are all the same here: so many devices of a row from
one instant to another.  Columns are immutable; adding and filtering them copies arrays, which is
cheap enough to make a fresh set for every question asked.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np
from numpy.typing import NDArray

from reconciler.domain.units import Instant
from reconciler.planning.capacity.grid import Ints

Taken = tuple[Sequence[int], Sequence[int] | int, Instant, Instant]
"""(rows, devices of each row, start, end); one number where all rows give the same."""


@dataclass(frozen=True, slots=True, eq=False)
class Holds:
    """``count`` devices of ``row`` in [start, end), once for each entry of the columns."""

    row: Ints
    count: Ints
    start: Ints
    end: Ints

    @classmethod
    def of(cls, taken: Iterable[Taken]) -> "Holds":
        """Return these holds as columns, in the order given."""
        items = list(taken)
        widths = [len(rows) for rows, _, _, _ in items]
        total = sum(widths)
        counts = (
            repeat(given, len(rows)) if isinstance(given, int) else given
            for rows, given, _, _ in items
        )
        return cls(
            np.fromiter(chain.from_iterable(rows for rows, _, _, _ in items), np.int64, total),
            np.fromiter(chain.from_iterable(counts), np.int64, total),
            np.repeat(np.array([start for _, _, start, _ in items], np.int64), widths),
            np.repeat(np.array([end for _, _, _, end in items], np.int64), widths),
        )

    @classmethod
    def none(cls) -> "Holds":
        """Return no holds at all."""
        empty = np.zeros(0, np.int64)
        return cls(empty, empty, empty, empty)

    def __add__(self, other: "Holds") -> "Holds":
        return Holds(
            np.concatenate((self.row, other.row)),
            np.concatenate((self.count, other.count)),
            np.concatenate((self.start, other.start)),
            np.concatenate((self.end, other.end)),
        )

    def only(self, which: NDArray[np.bool_]) -> "Holds":
        """Return the holds for which ``which`` is true."""
        return Holds(self.row[which], self.count[which], self.start[which], self.end[which])

    def since(self, now: Instant) -> "Holds":
        """Return what is held from ``now`` on: earlier starts are cut, ended holds dropped.

        A hold that has ended must not reach a timeline: its end would give devices back that
        nobody took.
        """
        start = np.maximum(self.start, now)
        alive = self.end > start
        return Holds(self.row[alive], self.count[alive], start[alive], self.end[alive])
