"""The places of a whole ranking as columns: cheap to copy, to filter and to hold.

A plan of ten thousand gangs is a few arrays.  It is kept this way between events, since turning
objects into columns costs more than planning with them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reconciler.domain.units import Instant, Seconds
from reconciler.planning.capacity.cold import Ask
from reconciler.planning.capacity.grid import Ints
from reconciler.planning.capacity.holds import Holds
from reconciler.planning.capacity.search import Slot

NOWHERE = -1
"""The start of a gang that has no place."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Rank ``i`` has ``count[k]`` devices of ``row[k]``, for ``k`` from ``first[i]`` to
    ``first[i + 1]``, from ``start[i]`` on."""

    start: Ints
    first: Ints
    row: Ints
    count: Ints

    @classmethod
    def of(cls, slots: Sequence[Slot | None]) -> "Places":
        """Return these places, in rank order."""
        widths = [0 if slot is None else len(slot.rows) for slot in slots]
        return cls(
            np.array([NOWHERE if slot is None else slot.start for slot in slots], np.int64),
            np.concatenate(([0], np.cumsum(widths, dtype=np.int64))),
            np.array([row for slot in slots if slot for row in slot.rows], np.int64),
            np.array([count for slot in slots if slot for count in slot.counts], np.int64),
        )

    def slot(self, rank: int, duration: int) -> Slot | None:
        """Return the place of one rank."""
        start = int(self.start[rank])
        if start == NOWHERE:
            return None
        part = slice(int(self.first[rank]), int(self.first[rank + 1]))
        return Slot(
            Instant(start),
            Instant(start + duration),
            tuple(self.row[part].tolist()),
            tuple(self.count[part].tolist()),
        )

    def ranks(self) -> Ints:
        """Return the rank of each entry of ``row``."""
        return np.repeat(np.arange(len(self.start)), np.diff(self.first))

    def holds(self, duration: Ints, ranks: Ints, which: NDArray[np.bool_] | None = None) -> Holds:
        """Return the places as holds: all, or the entries for which ``which`` is true."""
        row, count = self.row, self.count
        if which is not None:
            row, count, ranks = row[which], count[which], ranks[which]
        start = self.start[ranks]
        return Holds(row, count, start, start + duration[ranks])

    def copy(self) -> "Places":
        """Return columns that may be changed."""
        return Places(self.start.copy(), self.first, self.row.copy(), self.count.copy())

    def with_slot(self, rank: int, slot: Slot | None) -> "Places":
        """Return the same with another place of ``rank``; changes its own columns if it can."""
        low, high = int(self.first[rank]), int(self.first[rank + 1])
        self.start[rank] = NOWHERE if slot is None else slot.start
        rows, counts = ((), ()) if slot is None else (slot.rows, slot.counts)
        if len(rows) == high - low:
            self.row[low:high] = rows
            self.count[low:high] = counts
            return self
        first = self.first.copy()
        first[rank + 1 :] += len(rows) - (high - low)
        return Places(
            self.start,
            first,
            np.concatenate((self.row[:low], np.array(rows, np.int64), self.row[high:])),
            np.concatenate((self.count[:low], np.array(counts, np.int64), self.count[high:])),
        )

    def with_rank(self, rank: int) -> "Places":
        """Return the same with one more rank, that has no place yet."""
        return Places(
            np.insert(self.start, rank, NOWHERE),
            np.insert(self.first, rank, self.first[rank]),
            self.row,
            self.count,
        )

    def without_rank(self, rank: int) -> "Places":
        """Return the same without one rank."""
        low, high = int(self.first[rank]), int(self.first[rank + 1])
        return Places(
            np.delete(self.start, rank),
            np.concatenate((self.first[:rank], self.first[rank + 1 :] - (high - low))),
            np.concatenate((self.row[:low], self.row[high:])),
            np.concatenate((self.count[:low], self.count[high:])),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """What the gangs of a ranking ask for, as columns; first in rank first."""

    asks: tuple[Ask, ...]
    duration: Ints
    not_before: Ints
    kind: Ints
    """Equal for asks with the same gang."""

    @classmethod
    def of(cls, asks: Sequence[Ask]) -> "Ranking":
        """Return these asks as columns."""
        numbers: dict[int, int] = {}
        return cls(
            tuple(asks),
            np.array([ask.duration_s for ask in asks], np.int64),
            np.array([ask.not_before for ask in asks], np.int64),
            np.array([numbers.setdefault(id(ask.gang), len(numbers)) for ask in asks], np.int64),
        )

    def with_ask(self, rank: int, ask: Ask) -> "Ranking":
        """Return the ranking with one more ask at ``rank``."""
        alike = next((i for i, each in enumerate(self.asks) if each.gang is ask.gang), None)
        kind = int(self.kind.max(initial=-1)) + 1 if alike is None else int(self.kind[alike])
        return Ranking(
            (*self.asks[:rank], ask, *self.asks[rank:]),
            np.insert(self.duration, rank, ask.duration_s),
            np.insert(self.not_before, rank, ask.not_before),
            np.insert(self.kind, rank, kind),
        )

    def without_ask(self, rank: int) -> "Ranking":
        """Return the ranking without the ask at ``rank``."""
        return Ranking(
            (*self.asks[:rank], *self.asks[rank + 1 :]),
            np.delete(self.duration, rank),
            np.delete(self.not_before, rank),
            np.delete(self.kind, rank),
        )

    @property
    def shortest(self) -> Seconds:
        """The shortest duration asked for; 1 where nobody asks."""
        return Seconds(int(self.duration.min()) if len(self.duration) else 1)
