"""The virtual clock: things that happen at an instant, in order, and nothing in between."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import TypeAlias

from reconciler.domain.units import Instant

Happening: TypeAlias = Callable[[], None]


class Events:
    """A heap of happenings.  Those of one instant happen in the order they were planned in."""

    def __init__(self) -> None:
        self._heap: list[tuple[Instant, int, Happening]] = []
        self._order = count()

    def at(self, instant: Instant, happening: Happening) -> None:
        """Plan ``happening`` for ``instant``."""
        heappush(self._heap, (instant, next(self._order), happening))

    def next_at(self) -> Instant | None:
        """Return when the next happening is due."""
        return self._heap[0][0] if self._heap else None

    def happen(self, until: Instant) -> None:
        """Let everything up to and including ``until`` happen."""
        while self._heap and self._heap[0][0] <= until:
            heappop(self._heap)[2]()
