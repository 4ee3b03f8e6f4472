from reconciler.planning.value.counts import FreeCounts
from reconciler.planning.value.fleet import Nodes, Within
from tests.unit.planning.value.worlds import nodes


def counts(*free: int) -> FreeCounts:
    return FreeCounts(nodes(len(free)), free)


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
