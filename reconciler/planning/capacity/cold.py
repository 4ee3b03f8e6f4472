"""The plan of everybody: each gang its earliest place, in rank order.

Conservative by construction: a place is found under everything promised to higher ranks, so
nobody is ever delayed by somebody ranked below.
"""

from collections.abc import Iterable
from typing import NamedTuple

from reconciler.domain.units import Instant, Seconds
from reconciler.planning.capacity.gang import Gang
from reconciler.planning.capacity.search import Slot, find
from reconciler.planning.capacity.state import State


class Ask(NamedTuple):
    """One gang that wants a place for ``duration_s``, from ``not_before`` on."""

    gang: Gang
    duration_s: Seconds
    not_before: Instant = Instant(0)


def plan_everybody(state: State, asks: Iterable[Ask]) -> list[Slot | None]:
    """Place these asks one after another, and return their places; None: there is none ever.

    ``state`` then holds everything that was placed.
    """
    asked = list(asks)
    state.expect(min((ask.duration_s for ask in asked), default=state.shortest))
    now, place = state.now, state.place
    found: list[Slot | None] = []
    for gang, duration_s, not_before in asked:
        since = not_before if not_before > now else now
        slot = find(state, gang.ways, duration_s, since)
        found.append(slot)
        if slot is not None:
            place(slot.rows, slot.each, slot.start, slot.end)
    return found
