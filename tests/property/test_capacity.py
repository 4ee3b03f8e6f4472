"""Capacity over time against the plainest planner: every place is the earliest there is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.units import Instant, Seconds
from reconciler.planning.capacity.cold import Ask, plan_everybody
from reconciler.planning.capacity.gang import Gangs
from reconciler.planning.capacity.grid import grid_of
from reconciler.planning.capacity.holds import Holds
from reconciler.planning.capacity.power import RackPower
from reconciler.planning.capacity.profile import limits_of
from reconciler.planning.capacity.search import Slot
from reconciler.planning.capacity.state import State
from reconciler.planning.topology import layout
from tests.property.brute_rows import Book, earliest, places, rows_of
from tests.strategies import clusters, requests
from tests.values import NOW, a_cluster, a_spec

TEAMS = ("research", "vision")


@dataclass(frozen=True)
class Wish:
    request: dict[str, Any]
    duration: int
    not_before: int
    team: str


@dataclass(frozen=True)
class World:
    nodes: dict[str, Any]
    held: Sequence[tuple[int, int, int, int]]
    """(row, count, start, length); rows and counts are taken modulo what there is."""
    wishes: Sequence[Wish]
    quota: dict[str, dict[str, int]]
    watts_a_rack: int | None = None


WATTS = {"A100-80GB": 4, "H100-80GB": 7}


@st.composite
def wishes(draw: st.DrawFn) -> Wish:
    asked = draw(requests())
    asked["gpus"] = draw(st.sampled_from((1, 1, 2, 3, 4, 5, 6, 8, 9, 12)))
    return Wish(
        asked,
        draw(st.integers(1, 20)),
        draw(st.sampled_from((0, 0, 0, 5, 17))),
        draw(st.sampled_from(TEAMS)),
    )


@st.composite
def worlds(draw: st.DrawFn, *, has_quota: bool = False, has_power: bool = False) -> World:
    held = st.tuples(st.integers(0, 99), st.integers(1, 8), st.integers(-5, 40), st.integers(1, 30))
    quota = st.dictionaries(
        st.sampled_from(TEAMS),
        st.dictionaries(
            st.sampled_from(("*", "A100-80GB", "H100-80GB")), st.integers(1, 12), min_size=1
        ),
        min_size=1,
    )
    return World(
        draw(clusters()),
        draw(st.lists(held, max_size=12)),
        draw(st.lists(wishes(), min_size=1, max_size=12)),
        draw(quota) if has_quota else {},
        draw(st.integers(4, 80)) if has_power else None,
    )


def plan_of(world: World) -> tuple[list[Slot | None], Book, State]:
    """Return the planner's places, the empty book of the same world, and the state after."""
    cluster = a_cluster(world.nodes)
    rows = rows_of(cluster)
    grid = grid_of(layout(cluster))
    book = Book(rows)
    for number, count, start, length in world.held:
        row = number % len(rows)
        taken = (row, count, NOW + start, NOW + start + length)
        if book.free(row, taken[2], taken[3]) >= count:
            book.taken.append(taken)
    holds = Holds.of(
        [((row,), (count,), Instant(start), Instant(end)) for row, count, start, end in book.taken]
    )
    state, gangs = State(grid, holds, NOW), Gangs(grid)
    limits = {team: limits_of(quota, grid.types, NOW) for team, quota in world.quota.items()}
    asks = [
        Ask(
            gangs.of(a_spec(**wish.request).gpus),
            Seconds(wish.duration),
            Instant(NOW + wish.not_before),
            limits.get(wish.team),
        )
        for wish in world.wishes
    ]
    power = None
    if world.watts_a_rack is not None:
        book.watts_a_rack, book.watts = world.watts_a_rack, WATTS
        power = RackPower(grid, world.watts_a_rack, WATTS, NOW)
        for row, count, start, end in book.taken:
            power.spend((row,), (count,), start, end)
    return plan_everybody(state, asks, power), book, state


def check(world: World, slots: Sequence[Slot | None], book: Book) -> None:
    """Raise ``AssertionError`` unless each place is whole, free, and the earliest there is."""
    for wish, slot in zip(world.wishes, slots, strict=True):
        request, quota = a_spec(**wish.request).gpus, world.quota.get(wish.team, {})
        soonest = earliest(request, book, wish.duration, NOW + wish.not_before, wish.team, quota)
        assert (None if slot is None else slot.start) == soonest, "not the earliest"
        if slot is None:
            continue
        assert slot.end - slot.start == wish.duration
        assert sum(slot.counts) == request.count, "not whole"
        assert len(set(slot.rows)) == len(slot.rows)
        assert any(_is_place(slot, way) for way in places(request, book.rows)), "wrong rows"
        for row, count in zip(slot.rows, slot.counts, strict=True):
            assert book.free(row, slot.start, slot.end) >= count, "double booked"
            book.taken.append((row, count, slot.start, slot.end))
            kind = book.rows[row].type
            book.used.append((wish.team, kind, count, slot.start, slot.end))
        for rack in {book.rows[row].rack for row in slot.rows}:
            assert book.watts_free(rack, slot.start, slot.end) >= 0, "too many watts"


def _is_place(slot: Slot, way: tuple[list[int], int, int]) -> bool:
    domain, width, each = way
    if not set(slot.rows) <= set(domain):
        return False
    return width == 0 or slot.counts == (each,) * width


@given(worlds())
def test_every_place_is_the_earliest_under_the_higher_ranks(world: World) -> None:
    slots, book, _ = plan_of(world)

    check(world, slots, book)


@given(worlds(has_quota=True))
def test_every_place_is_the_earliest_within_the_quotas_too(world: World) -> None:
    slots, book, _ = plan_of(world)

    check(world, slots, book)


@given(worlds(has_quota=True, has_power=True))
def test_every_place_is_the_earliest_within_the_power_of_racks_too(world: World) -> None:
    slots, book, _ = plan_of(world)

    check(world, slots, book)


@given(worlds(), st.randoms(use_true_random=False))
def test_what_is_kept_up_to_date_equals_what_is_built_anew(world: World, random: Any) -> None:
    slots, book, state = plan_of(world)
    taken = [(slot.rows, slot.counts, slot.start, slot.end) for slot in slots if slot is not None]
    lifted = [each for each in taken if random.random() < 0.4]
    copy = state.copy()

    for each in lifted:
        copy.lift(*each)

    held = [((r,), (c,), Instant(s), Instant(e)) for r, c, s, e in book.taken]
    assert picture(state) == picture(State(state.grid, Holds.of([*held, *taken]), NOW))
    left = Holds.of([*held, *_rest(taken, lifted)])
    assert picture(copy) == picture(State(state.grid, left, NOW))


def _rest(taken: list[Any], lifted: list[Any]) -> list[Any]:
    rest = list(taken)
    for each in lifted:
        rest.remove(each)
    return rest


def picture(state: State) -> list[object]:
    """Return all steps and all gaps of all levels of a state."""
    shown: list[object] = [state.steps_of(row) for row in range(len(state.grid.size))]
    shown.append(state.free_now.tolist())
    for kind, (low, high) in enumerate(state.grid.spans):
        for count in range(1, int(state.grid.whole[low:high].max()) + 1):
            gaps = state.gaps(kind, count)
            shown.append((gaps.tails.tolist(), gaps.begins.tolist(), gaps.lengths.tolist()))
    return shown


def _later(slot: Slot) -> Slot:
    return slot._replace(start=Instant(slot.start + 1), end=Instant(slot.end + 1))


def _sooner(slot: Slot) -> Slot:
    return slot._replace(start=Instant(slot.start - 1), end=Instant(slot.end - 1))


def _short(slot: Slot) -> Slot:
    return slot._replace(counts=(slot.counts[0] - 1, *slot.counts[1:]))


@pytest.mark.parametrize("broken", [_later, _sooner, _short])
@given(world=worlds())
def test_a_broken_plan_is_caught(broken: Callable[[Slot], Slot], world: World) -> None:
    slots, book, _ = plan_of(world)
    first = next((i for i, slot in enumerate(slots) if slot is not None), None)
    if first is None:
        return
    slot = slots[first]
    assert slot is not None
    slots[first] = broken(slot)

    with pytest.raises(AssertionError):
        check(world, slots, book)
