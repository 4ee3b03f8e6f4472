"""Which devices are busy when: the plan over time that every start is found in.

A timeline is a step function from instants to sets of busy devices.  It is mutable and local to
one pure planning call; its two questions (what is free from here to there, where could a gang go
first) are the seam behind which a faster structure can stand.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable

from reconciler.domain.units import Instant, Seconds
from reconciler.planning.placement import fits, place
from reconciler.planning.topology import Layout, Shape

Allowed = Callable[[Instant, Instant], int]
"""Devices a team's quota lets a gang use from one instant to another; 0: none."""


class Timeline:
    """Busy devices over time, from ``now`` on.  Only ``usable`` devices are ever given."""

    def __init__(self, now: Instant, usable: int, last: int = 0) -> None:
        """``last`` are devices to use only where no others will do."""
        self.now = now
        self.usable = usable
        self.last = last
        self._at: list[Instant] = [now]
        self._busy: list[int] = [0]

    def occupy(self, devices: int, start: Instant, end: Instant) -> None:
        """Mark ``devices`` busy in [start, end); nothing happens where that is empty."""
        start = max(start, self.now)
        if end <= start or not devices:
            return
        first, last = self._split(start), self._split(end)
        for index in range(first, last):
            self._busy[index] |= devices

    def _split(self, instant: Instant) -> int:
        """Return the index of the step that begins at ``instant``, making it if needed."""
        index = bisect_left(self._at, instant)
        if index == len(self._at) or self._at[index] != instant:
            self._at.insert(index, instant)
            self._busy.insert(index, self._busy[index - 1])
        return index

    def mark(self, instant: Instant) -> None:
        """Try a start at ``instant`` too: something else than bookings changes then."""
        if instant > self.now:
            self._split(instant)

    def instants(self) -> tuple[Instant, ...]:
        """Return every instant at which something begins or ends, sorted."""
        return tuple(self._at)

    def free_between(self, start: Instant, end: Instant) -> int:
        """Return the usable devices that are free during all of [start, end)."""
        index = bisect_right(self._at, start) - 1
        busy = self._busy[index]
        index += 1
        while index < len(self._at) and self._at[index] < end:
            busy |= self._busy[index]
            index += 1
        return self.usable & ~busy

    def free_at(self, instant: Instant) -> int:
        """Return the usable devices that are free at ``instant``."""
        return self.usable & ~self._busy[bisect_right(self._at, instant) - 1]

    def earliest(
        self,
        shape: Shape,
        where: Layout,
        *,
        duration_s: Seconds,
        not_before: Instant,
        allowed: Allowed | None = None,
    ) -> tuple[Instant, int] | None:
        """Return the first start at which the gang fits for all of its duration, and its devices.

        Starts are tried at ``not_before`` and wherever something ends or begins later: between
        those nothing changes.  None if it fits at no time.
        """
        index = max(bisect_right(self._at, not_before) - 1, 0)
        while index < len(self._at):
            start = max(self._at[index], not_before)
            end = Instant(start + duration_s)
            free, blocked_at = self._window(shape, where, index, end)
            if blocked_at is not None:
                index = blocked_at + 1
                continue
            if free is not None:
                if allowed is not None:
                    free &= allowed(start, end)
                devices = place(shape, free & ~self.last, where) if self.last else None
                devices = devices or place(shape, free, where)
                if devices is not None:
                    return start, devices
            index += 1
        return None

    def _window(
        self, shape: Shape, where: Layout, index: int, end: Instant
    ) -> tuple[int | None, int | None]:
        """Return (free devices until ``end``, None) if the gang fits in them.

        Otherwise (None, step) where the gang does not fit even at that step alone, so that no
        window over it can work, or (None, None).
        """
        free = self.usable & ~self._busy[index]
        if not fits(shape, free, where):
            return None, index
        step = index + 1
        while step < len(self._at) and self._at[step] < end:
            narrowed = free & ~self._busy[step]
            if narrowed != free and not fits(shape, narrowed, where):
                alone = fits(shape, self.usable & ~self._busy[step], where)
                return None, None if alone else step
            free = narrowed
            step += 1
        return free, None
