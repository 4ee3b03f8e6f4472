"""Capacity inside the windows of reservations: kept from strangers, given to members.

A window is a hold on its devices for as long as it lasts.  Inside it is a small capacity of its
own, in which those it admits are planned first; what it does not admit never enters.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from reconciler.domain.job import GpuRequest
from reconciler.domain.units import Instant, JobId, Seconds
from reconciler.planning.capacity.gang import Gangs
from reconciler.planning.capacity.grid import Grid
from reconciler.planning.capacity.holds import Holds, Taken
from reconciler.planning.capacity.search import Slot, earliest
from reconciler.planning.capacity.state import State
from reconciler.planning.capacity.timeline import FOREVER
from reconciler.planning.topology import positions
from reconciler.planning.windows import Window

Stay = tuple[JobId, int, Instant]
"""A job, the devices it is on (bits), and when it is expected to be gone."""


def kept(
    grid: Grid, windows: Iterable[Window], stays: Sequence[Stay], now: Instant
) -> Iterator[Taken]:
    """Yield what windows keep from everybody outside.

    Devices of those that are inside are counted with them until these are gone.
    """
    for window in windows:
        start = max(window.start, now)
        empty = window.devices
        for job, devices, until in stays:
            inside = devices & empty
            if inside and _is_inside(window, job, now):
                empty &= ~inside
                yield *_rows(grid, inside), Instant(max(start, until)), window.end
        if empty:
            yield *_rows(grid, empty), start, window.end


def cut_short(
    windows: Iterable[Window], job: JobId, devices: int, until: Instant, now: Instant
) -> Instant:
    """Return when a job is gone from ``devices``: windows that do not admit it ask it to leave.

    One whose start has passed has asked already, in vain so far, and opens once the job is gone.
    """
    for window in windows:
        is_ahead = window.start > now and not window.is_open
        if is_ahead and devices & window.devices and not window.admits(job):
            until = min(until, window.start)
    return until


def _is_inside(window: Window, job: JobId, now: Instant) -> bool:
    """True for jobs that a window admits, and for all that keep it from opening in time."""
    return window.admits(job) or (window.start <= now and not window.is_open)


class Inside:
    """The capacity inside each window, made when a member asks for it."""

    def __init__(
        self, grid: Grid, windows: Sequence[Window], stays: Sequence[Stay], now: Instant
    ) -> None:
        self._grid = grid
        self._windows = windows
        self._stays = stays
        self._now = now
        self._made: dict[int, tuple[State, Gangs]] = {}

    def find(
        self, job: JobId, request: GpuRequest, left_s: int, not_before: Instant
    ) -> tuple[int, Slot] | None:
        """Return (window, place) of a member's earliest start inside a window that admits it.

        What is left to run may be longer than the window: then it ends with it.
        """
        best: tuple[int, Slot] | None = None
        for number, window in enumerate(self._windows):
            if not window.admits(job):
                continue
            since = Instant(max(not_before, window.start))
            lasts = min(left_s, window.end - since)
            if lasts <= 0:
                continue
            state, gangs = self._state(number)
            slot = earliest(state, gangs.of(request), Seconds(lasts), since)
            if slot is not None and (best is None or slot.start < best[1].start):
                best = number, slot
        return best

    def place(self, found: tuple[int, Slot]) -> None:
        """Take a place that :meth:`find` returned."""
        number, slot = found
        self._state(number)[0].place(slot.rows, slot.counts, slot.start, slot.end)

    def _state(self, number: int) -> tuple[State, Gangs]:
        if number not in self._made:
            window = self._windows[number]
            size = np.zeros(len(self._grid.size), np.int64)
            rows, counts = _rows(self._grid, window.devices)
            size[list(rows)] = counts
            size = np.minimum(size, self._grid.size)
            grid = replace(self._grid, size=size)
            closed = np.flatnonzero(size).tolist()
            taken: list[Taken] = [(closed, size[closed].tolist(), window.end, _NEVER)]
            for job, devices, until in self._stays:
                inside = devices & window.devices
                if inside and _is_inside(window, job, self._now):
                    gone_at = Instant(min(until, window.end))
                    taken.append((*_rows(self._grid, inside), self._now, gone_at))
            self._made[number] = State(grid, Holds.of(taken), self._now), Gangs(grid)
        return self._made[number]


_NEVER = Instant(FOREVER - 1)


def _rows(grid: Grid, devices: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    held: Mapping[int, int] = grid.rows_of_positions(positions(devices))
    return tuple(held), tuple(held.values())
