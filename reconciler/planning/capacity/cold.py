"""The plan of everybody: each gang its earliest place, in rank order.

Conservative by construction: a place is found under everything promised to higher ranks, so
nobody is ever delayed by somebody ranked below.
"""

from collections.abc import Iterable
from typing import NamedTuple

from reconciler.domain.units import Instant, Seconds
from reconciler.planning.capacity.gang import Gang
from reconciler.planning.capacity.power import Powered, RackPower
from reconciler.planning.capacity.profile import Limits, Pushes, Search
from reconciler.planning.capacity.search import Slot, find
from reconciler.planning.capacity.state import State


class Ask(NamedTuple):
    """One gang that wants a place for ``duration_s``, from ``not_before`` on."""

    gang: Gang
    duration_s: Seconds
    not_before: Instant = Instant(0)
    limits: Limits | None = None
    """What the gang's team may hold; None: it has no quota."""


def plan_everybody(
    state: State, asks: Iterable[Ask], power: RackPower | None = None
) -> list[Slot | None]:
    """Place these asks one after another, and return their places; None: there is none ever.

    ``state`` then holds everything that was placed, and so does ``power``.
    """
    asked = list(asks)
    state.expect(min((ask.duration_s for ask in asked), default=state.shortest))
    state.prepare(ask.gang for ask in asked)
    pushes = Pushes()
    search = None if power is None else Powered(power).find
    found: list[Slot | None] = []
    for ask in asked:
        slot = place_first(state, ask, pushes, search)
        found.append(slot)
        if power is not None and slot is not None:
            power.spend(slot.rows, slot.counts, slot.start, slot.end)
    return found


def find_first(state: State, ask: Ask, pushes: Pushes, search: Search | None = None) -> Slot | None:
    """Return the earliest place of one ask; None: there is none ever."""
    gang, duration_s, not_before, limits = ask
    since = not_before if not_before > state.now else state.now
    if limits is None:
        return (search or find)(state, gang.ways, duration_s, since)
    return pushes.find(state, gang, duration_s, since, limits, search)


def place_first(
    state: State, ask: Ask, pushes: Pushes, search: Search | None = None
) -> Slot | None:
    """Give one ask its earliest place and return it; None: there is none ever."""
    slot = find_first(state, ask, pushes, search)
    if slot is None:
        return None
    state.place(slot.rows, slot.counts, slot.start, slot.end)
    if ask.limits is not None:
        kind = state.grid.type_of[slot.rows[0]]
        ask.limits.spend(kind, slot.start, slot.end, sum(slot.counts))
    return slot
