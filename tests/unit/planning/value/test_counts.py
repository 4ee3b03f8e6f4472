from typing import Any

import pytest

from reconciler.domain.value_state import Held
from reconciler.planning.value.counts import NOWHERE, FreeCounts
from reconciler.planning.value.fleet import Nodes, Within
from tests.unit.planning.value.worlds import nodes


def counts(*free: int) -> FreeCounts:
    return FreeCounts(nodes(len(free)), free)


def near(free: FreeCounts, gpus: int, worth: dict[int, int], **changes: Any) -> Held | None:
    asked = {"pools": -1, "within": Within.POOL, "avoid": NOWHERE, **changes}
    return free.place_near(gpus, near=worth, **asked)


def test_a_small_gang_goes_where_it_fits_best() -> None:
    assert counts(8, 3, 2, 5).place(2, -1, Within.POOL) == ((2, 2),)


def test_a_gang_of_a_row_needs_one_row() -> None:
    assert counts(4, 4).place(8, -1, Within.POOL) is None


def test_a_wide_gang_takes_whole_rows_and_the_rest_by_best_fit() -> None:
    assert counts(8, 5, 8, 4).place(20, -1, Within.POOL) == ((0, 8), (2, 8), (3, 4))


def test_the_rest_of_a_wide_gang_may_need_a_row_of_its_own() -> None:
    assert counts(8, 8, 2).place(20, -1, Within.POOL) is None
    assert counts(8, 8, 8).place(20, -1, Within.POOL) == ((0, 8), (1, 8), (2, 4))


def test_rows_to_avoid_are_not_used() -> None:
    assert counts(8, 3).place(2, -1, Within.POOL, {1}) == ((0, 2),)
    assert counts(8, 8, 8).place(16, -1, Within.POOL, {0, 1}) is None


def test_a_wide_gang_stays_in_the_rack_that_just_holds_it() -> None:
    free = [8, 0, 0, 0, 8, 8, 0, 0, 8, 8, 8, 0]
    assert counts(*free).place(16, -1, Within.POOL) == ((4, 8), (5, 8))


def test_a_gang_within_a_rack_is_not_spread_over_two() -> None:
    free = [8, 0, 0, 0, 8, 0, 0, 0]
    assert counts(*free).place(16, -1, Within.POOL) == ((0, 8), (4, 8))
    assert counts(*free).place(16, -1, Within.RACK) is None


def test_a_gang_within_a_node_may_span_its_islands() -> None:
    islands = Nodes(
        names=("a/0", "a/1", "b/0", "b/1"),
        sizes=(4, 4, 4, 4),
        pool=(0,) * 4,
        pools=("x",),
        rack=(0,) * 4,
        node=(0, 0, 1, 1),
    )
    free = FreeCounts(islands, (0, 4, 4, 4))
    assert free.place(8, -1, Within.NODE) == ((2, 4), (3, 4))
    assert free.place(8, -1, Within.UNIT) is None


def test_only_pools_that_will_do_are_used() -> None:
    mixed = Nodes(
        names=("a", "b"), sizes=(8, 8), pool=(0, 1), pools=("x", "y"), rack=(0, 0), node=(0, 1)
    )
    free = FreeCounts(mixed, (2, 8))
    assert free.place(2, 0b10, Within.POOL) == ((1, 2),)
    assert free.place(4, 0b01, Within.POOL) is None


def test_giving_back_undoes_taking() -> None:
    free = counts(8, 8, 4)
    before = [list(rows) for rows in free.by_free[0]]
    held = free.place(18, -1, Within.POOL)
    assert held is not None
    free.take(held)
    assert free.free == [0, 0, 2]
    free.give(held)
    assert free.by_free[0] == before


def test_of_rows_that_fit_alike_the_nearest_is_taken() -> None:
    assert near(counts(8, 4, 4, 4), 2, {2: 1, 3: 2}) == ((3, 2),)
    assert near(counts(8, 4, 4, 4), 2, {2: 1, 3: 1}) == ((2, 2),)
    assert near(counts(8, 4, 4, 4), 2, {2: 1, 3: 2}, avoid={3}) == ((2, 2),)


def test_a_better_fit_is_taken_before_a_nearer_row() -> None:
    assert near(counts(8, 4, 3), 2, {0: 9, 1: 9}) == ((2, 2),)


def test_where_nothing_is_near_the_place_is_the_same() -> None:
    for free in ((8, 4, 4), (8, 8, 8, 0, 8, 8), (1, 1)):
        for gpus in (2, 8, 16, 20):
            plain = counts(*free).place(gpus, -1, Within.POOL)
            assert near(counts(*free), gpus, {77: 1}) == plain


def test_a_wide_gang_takes_the_near_rows_of_its_rack() -> None:
    assert near(counts(8, 8, 8, 8), 16, {3: 1}) == ((0, 8), (3, 8))
    assert near(counts(8, 8, 8, 8), 16, {3: 1, 2: 1}) == ((2, 8), (3, 8))


def test_a_wide_gang_takes_the_near_one_of_racks_that_just_hold_it() -> None:
    free = [8, 0, 0, 8, 8, 8, 0, 0, 8, 8, 8, 0]

    assert near(counts(*free), 16, {}) == ((0, 8), (3, 8))
    assert near(counts(*free), 16, {5: 1}) == ((4, 8), (5, 8))
    assert near(counts(*free), 16, {5: 1, 8: 1, 9: 1}) == ((4, 8), (5, 8))  # rack 2 holds more
    assert near(counts(*free), 16, {5: 1}, within=Within.RACK) == ((4, 8), (5, 8))


def test_a_gang_over_racks_takes_no_more_racks_to_be_near() -> None:
    free = [8, 8, 8, 0, 8, 8, 8, 0, 8, 8, 8, 0]

    assert near(counts(*free), 32, {8: 1, 10: 1}) == ((0, 8), (8, 8), (9, 8), (10, 8))


def test_the_rest_of_a_wide_gang_goes_near_where_it_fits_as_well() -> None:
    assert near(counts(8, 8, 5, 5), 20, {3: 1}) == ((0, 8), (1, 8), (3, 4))
    assert near(counts(8, 8, 4, 5), 20, {3: 1}) == ((0, 8), (1, 8), (2, 4))


@pytest.mark.parametrize("worth", [{4: 1}, {4: 1, 5: 1}])
def test_the_rest_stays_in_the_rack_of_the_whole_rows(worth: dict[int, int]) -> None:
    free = counts(8, 8, 5, 0, 5, 5, 0, 0)

    assert near(free, 20, worth) == ((0, 8), (1, 8), (2, 4))


def test_whole_rows_are_near_although_the_rest_cannot_be() -> None:
    free = counts(8, 8, 8, 5, 5, 0, 0, 0)

    assert near(free, 20, {2: 1, 4: 5}) == ((0, 8), (2, 8), (3, 4))


def test_a_pool_that_takes_more_rows_is_not_as_good() -> None:
    mixed = Nodes(
        names=tuple("abcdef"),
        sizes=(8, 8, 4, 4, 4, 4),
        pool=(0, 0, 1, 1, 1, 1),
        pools=("x", "y"),
        rack=(0,) * 6,
        node=tuple(range(6)),
    )
    free = FreeCounts(mixed, mixed.sizes)

    assert near(free, 16, {2: 1, 3: 1}) == ((0, 8), (1, 8))
    assert near(free, 16, {2: 1, 3: 1}, pools=0b10) == ((2, 4), (3, 4), (4, 4), (5, 4))


def test_the_nearest_of_two_pools_is_taken_where_they_fit_alike() -> None:
    mixed = Nodes(
        names=tuple("abcd"),
        sizes=(8,) * 4,
        pool=(0, 0, 1, 1),
        pools=("x", "y"),
        rack=(0,) * 4,
        node=(0, 1, 2, 3),
    )
    assert near(FreeCounts(mixed, (8, 8, 8, 8)), 4, {2: 1}) == ((2, 4),)
    assert near(FreeCounts(mixed, (8, 6, 8, 8)), 4, {2: 1}) == ((1, 4),)
    assert near(FreeCounts(mixed, (8, 8, 8, 8)), 4, {2: 1}, pools=0b01) == ((0, 4),)
    assert near(FreeCounts(mixed, (8, 8, 8, 8)), 16, {2: 1}) == ((2, 8), (3, 8))
    assert near(FreeCounts(mixed, (8, 8, 8, 6)), 16, {2: 1}) == ((0, 8), (1, 8))
