"""Step functions and gaps, built in bulk and kept up to date."""

import pytest

from reconciler.domain.units import Instant, Seconds
from reconciler.planning.capacity.holds import Holds
from reconciler.planning.capacity.state import State
from reconciler.planning.capacity.timeline import FOREVER
from tests.unit.planning.capacity.small import a_gang, a_grid, a_state, holds, start, steps
from tests.values import NOW


def test_holds_add_up_to_steps() -> None:
    state = a_state({"n1": 8}, (0, 2, 0, 10), (0, 3, 5, 20))

    assert steps(state) == [(0, 6), (5, 3), (10, 5), (20, 8)]


def test_a_hold_that_has_ended_gives_nobody_devices() -> None:
    """Its end would be one change too many, and all rows after it would gain by it."""
    state = a_state({"n1": 8, "n2": 8}, (0, 4, -20, -5), (0, 4, -20, 0), (0, 1, -20, 5))

    assert steps(state, 0) == [(0, 7), (5, 8)]
    assert steps(state, 1) == [(0, 8)]


def test_changes_at_one_instant_are_one_step() -> None:
    assert steps(a_state({"n1": 8}, (0, 8, 0, 10), (0, 8, 10, 20))) == [(0, 0), (20, 8)]


def test_nodes_larger_than_any_sentinel_are_counted() -> None:
    state = a_state({"n1": 120, "n2": 120}, (0, 119, 0, 10), (1, 100, 0, 50))

    assert start(state, 120, 5) == 10
    assert start(state, 20, 5) == 0
    assert start(state, 240, 5, within="cluster") == 50


def test_a_hold_later_than_an_instant_can_be_is_refused() -> None:
    grid = a_grid()
    with pytest.raises(ValueError, match="later than an instant can be"):
        State(grid, Holds.of([((0,), 1, NOW, Instant(FOREVER))]), NOW)


def test_placing_subtracts_and_lifting_gives_back() -> None:
    state = a_state({"n1": 8}, (0, 2, 0, 10))
    before = steps(state)

    state.place((0,), (4,), NOW + 5, NOW + 15)
    assert steps(state) == [(0, 6), (5, 2), (10, 4), (15, 8)]
    assert state.free_now.tolist() == [6]
    state.lift((0,), (4,), NOW + 5, NOW + 15)

    assert steps(state) == before


def test_a_place_begins_no_sooner_than_now() -> None:
    state = a_state({"n1": 8})

    state.place((0,), (8,), NOW - 50, NOW + 10)
    state.place((0,), (8,), NOW - 50, NOW - 10)

    assert steps(state) == [(0, 0), (10, 8)]


def test_a_copy_changes_on_its_own() -> None:
    state = a_state({"n1": 8})
    assert start(state, 8, 5) == 0
    copy = state.copy()

    copy.place((0,), (1,), NOW, NOW + 10)

    assert (start(state, 8, 5), start(copy, 8, 5)) == (0, 10)
    assert steps(state) == [(0, 8)]


def test_a_level_asked_for_late_is_as_one_asked_for_first() -> None:
    early, late = a_state({"n1": 8, "n2": 8}), a_state({"n1": 8, "n2": 8})
    early.prepare([a_gang(early, 3)])

    for state in (early, late):
        state.place((0, 1), (6, 2), NOW + 3, NOW + 9)

    assert early.gaps(0, 3).tails == late.gaps(0, 3).tails
    assert early.gaps(0, 3).begins == late.gaps(0, 3).begins


def test_only_holes_shorter_than_anything_wanted_are_forgotten() -> None:
    busy = ((0, 8, 0, 10), (0, 8, 13, 40))
    state = a_state({"n1": 8}, *busy, shortest=5)

    assert len(state.gaps(0, 1).begins) == 0
    assert start(state, 1, 3) == 10  # asking for less brings them back
    assert len(state.gaps(0, 1).begins) == 1


def test_many_gaps_on_one_row_are_kept_apart() -> None:
    state = a_state({"n1": 8})
    gang = a_gang(state, 8)
    state.prepare([gang])
    for at in range(1000):
        state.place((0,), (8,), NOW + 10 * at + 5, NOW + 10 * at + 10)

    gaps = state.gaps(0, 8)
    assert len(gaps.begins) == 1000
    assert gaps.lengths.tolist() == [5] * 1000
    assert start(state, 8, 5, not_before=4321) == 4330


def test_what_was_placed_in_another_order_leaves_the_same_gaps() -> None:
    places = [
        ((0,), (2,), NOW + 5, NOW + 9),
        ((1,), (8,), NOW + 5, NOW + 9),
        ((0,), (6,), NOW, NOW + 5),
    ]
    one, other = a_state({"n1": 8, "n2": 8}), a_state({"n1": 8, "n2": 8})
    for state, order in ((one, places), (other, places[::-1])):
        state.prepare([a_gang(state, 2)])
        for place in order:
            state.place(*place)

    assert one.gaps(0, 2).begins == other.gaps(0, 2).begins
    assert one.gaps(0, 2).tails == other.gaps(0, 2).tails


def test_holds_are_joined_and_filtered_as_columns() -> None:
    both = holds((0, 2, 0, 10)) + holds((1, 3, 5, 20))

    assert both.only(both.count > 2).row.tolist() == [1]
    assert both.since(Instant(NOW + 12)).start.tolist() == [NOW + 12]
    assert len(Holds.none().row) == 0
    assert Seconds(int(both.end.max())) == NOW + 20
