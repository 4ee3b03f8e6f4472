"""How much of one thing is free over time: a team's quota, a cohort's, the watts of a rack.

Side constraints of a plan: a gang's place is found on the rows, asked for here, and moved to the
next instant at which both agree.  What is free only shrinks while a plan is made, so an instant
that was refused once is never tried again for the same gang and duration.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from reconciler.planning.capacity.gang import Gang, Way
from reconciler.planning.capacity.search import Slot, find
from reconciler.planning.capacity.state import State
from reconciler.planning.capacity.timeline import FOREVER


class Profile:
    """An amount that is free over time.  Mutable, local to one plan."""

    __slots__ = ("_at", "_free", "_least")

    def __init__(self, total: int, now: int) -> None:
        self._at = array("q", [now])
        self._free = array("q", [total])
        self._least = total

    def spend(self, start: int, end: int, amount: int) -> None:
        """Take ``amount`` in [start, end); a negative one gives back."""
        start = max(start, self._at[0])
        if end <= start:
            return
        first, after = self._split(start), self._split(end)
        window = np.frombuffer(self._free, np.int64)[first:after]
        window -= amount
        if self._least > 0:
            self._least = min(self._least, int(window.min()))

    def next_fit(self, start: int, amount: int, duration: int) -> int:
        """Return the first instant from ``start`` on at which ``amount`` is free for ``duration``.

        ``FOREVER`` if there is none.
        """
        if amount <= self._least:
            return start
        at = self._at
        first = max(bisect_right(at, start) - 1, 0)
        after = max(bisect_left(at, start + duration, first), first + 1)
        free = np.frombuffer(self._free, np.int64)
        if free[first:after].min() >= amount:
            return start
        short = np.flatnonzero(free[first:] < amount) + first
        instants = np.append(np.frombuffer(at, np.int64), FOREVER)
        opens = instants[short + 1]
        closes = np.append(instants[short[1:]], FOREVER + duration)
        wide = np.flatnonzero(closes - opens >= duration)
        return int(opens[wide[0]])

    def least(self, start: int, end: int) -> int:
        """Return what is free during all of [start, end)."""
        first = max(bisect_right(self._at, start) - 1, 0)
        after = max(bisect_left(self._at, end, first), first + 1)
        return int(np.frombuffer(self._free, np.int64)[first:after].min())

    def free_at(self, instant: int) -> int:
        """Return what is free at ``instant``."""
        return self._free[max(bisect_right(self._at, instant) - 1, 0)]

    def _split(self, instant: int) -> int:
        index = bisect_left(self._at, instant)
        if index == len(self._at) or self._at[index] != instant:
            self._at.insert(index, instant)
            self._free.insert(index, self._free[index - 1])
        return index


class Limits(NamedTuple):
    """What bounds one team's devices: for each device type the profiles its gangs count in.

    One value per team, made once: searches remember what they learned under it.
    """

    by_type: tuple[tuple[Profile, ...], ...]

    def spend(self, kind: int, start: int, end: int, devices: int) -> None:
        """Count ``devices`` of a type in [start, end)."""
        for profile in self.by_type[kind]:
            profile.spend(start, end, devices)


def limits_of(
    quota: Mapping[str, int], types: Sequence[str], now: int, *, shared: Iterable[Profile] = ()
) -> Limits:
    """Return the limits of a team with this quota by type (``*``: of all together).

    ``shared`` are profiles that other teams count in too, such as a cohort's.
    """
    together = tuple(shared)
    if "*" in quota:
        together = (*together, Profile(quota["*"], now))
    return Limits(
        tuple(
            (*together, Profile(quota[name], now)) if name in quota else together for name in types
        )
    )


Search: TypeAlias = Callable[[State, tuple[Way, ...], int, int], Slot | None]
"""Earliest place by any of some ways, for a duration, from an instant on."""
Alike: TypeAlias = tuple[tuple[Profile, ...], tuple[Way, ...]]
"""Profiles, and the ways of a gang that count in just these."""


class Pushes:
    """Starts known to be refused: by (limits, gang, duration), the first that may still do."""

    def __init__(self) -> None:
        self._first: dict[tuple[int, int, int, int], int] = {}
        self._alike: dict[tuple[int, int], list[Alike]] = {}

    def find(
        self,
        state: State,
        gang: Gang,
        duration: int,
        since: int,
        limits: Limits,
        search: Search | None = None,
    ) -> Slot | None:
        """Return the gang's earliest place under ``limits``; None if there is none ever.

        ``search`` takes the place of :func:`find` where there are more constraints.
        """
        search = search or find
        best: Slot | None = None
        alike = self._alike.get((id(limits), id(gang)))
        if alike is None:
            alike = self._alike[id(limits), id(gang)] = _alike(gang, limits)
        for number, (profiles, ways) in enumerate(alike):
            key = (id(limits), id(gang), duration, number)
            slot = self._pushed(state, ways, duration, since, profiles, key, search)
            if slot is not None and (best is None or slot.start < best.start):
                best = slot
        return best

    def _pushed(
        self,
        state: State,
        ways: tuple[Way, ...],
        duration: int,
        since: int,
        profiles: tuple[Profile, ...],
        key: tuple[int, int, int, int],
        search: Search,
    ) -> Slot | None:
        known = self._first.get(key, state.now)
        start = max(since, known)
        devices = ways[0].devices
        while True:
            start = _all_fit(profiles, start, devices, duration)
            if start >= FOREVER:
                return None
            slot = search(state, ways, duration, start)
            if slot is None:
                return None
            fits_at = start
            if slot.start > start:
                fits_at = _all_fit(profiles, slot.start, devices, duration)
            if since <= known:
                self._first[key] = fits_at
            if fits_at == slot.start:
                return slot
            start = fits_at


def _alike(gang: Gang, limits: Limits) -> list[Alike]:
    """Return the ways that count in the same profiles together, first ways first."""
    found: dict[tuple[int, ...], tuple[tuple[Profile, ...], list[Way]]] = {}
    for way in gang.ways:
        profiles = limits.by_type[way.type]
        key = tuple(id(profile) for profile in profiles)
        found.setdefault(key, (profiles, []))[1].append(way)
    return [(profiles, tuple(ways)) for profiles, ways in found.values()]


def _all_fit(profiles: tuple[Profile, ...], start: int, devices: int, duration: int) -> int:
    """Return the first instant from ``start`` on at which all profiles agree."""
    if len(profiles) == 1:
        return profiles[0].next_fit(start, devices, duration)
    while True:
        latest = start
        for profile in profiles:
            latest = profile.next_fit(latest, devices, duration)
            if latest >= FOREVER:
                return FOREVER
        if latest == start:
            return start
        start = latest
