from reconciler.domain.units import Instant, Seconds
from reconciler.planning.capacity.search import earliest, windows
from tests.unit.planning.capacity.small import a_gang, a_state, first, start
from tests.values import NOW


def test_a_hole_long_enough_comes_before_a_tail() -> None:
    state = a_state({"n1": 8}, (0, 8, 0, 10), (0, 8, 30, 50))

    assert start(state, 8, 20) == 10
    assert start(state, 8, 21) == 50


def test_a_hole_is_entered_as_late_as_it_lasts() -> None:
    state = a_state({"n1": 8}, (0, 8, 30, 50))

    assert start(state, 8, 20, not_before=10) == 10
    assert start(state, 8, 20, not_before=11) == 50


def test_what_starts_now_goes_where_least_is_left_over() -> None:
    state = a_state({"n1": 8, "n2": 8, "n3": 8}, (1, 5, 0, 100), (2, 6, 0, 100))

    found = first(state, 2, 10)

    assert found is not None
    assert found.rows == (2,)


def test_a_gang_over_nodes_waits_for_enough_of_them_at_once() -> None:
    state = a_state({"n1": 8, "n2": 8, "n3": 8}, (0, 8, 0, 10), (1, 8, 5, 30), (2, 8, 0, 20))

    assert start(state, 16, 10, within="cluster") == 20
    assert start(state, 16, 5, within="cluster", not_before=40) == 40
    assert start(state, 24, 5, within="cluster") == 30


def test_a_rack_is_one_domain() -> None:
    nodes = {f"n{i}": {"gpus": 8, "rack": f"r{i % 2}"} for i in range(4)}
    state = a_state(nodes, (0, 8, 0, 50), (2, 8, 0, 30))

    assert start(state, 16, 10, within="cluster") == 0
    assert start(state, 16, 10, within="rack") == 30


def test_a_rack_that_just_holds_a_gang_is_taken_before_a_larger_one() -> None:
    nodes = {f"n{i}": {"gpus": 8, "rack": "r1" if i < 3 else "r2"} for i in range(5)}
    state = a_state(nodes)

    found = first(state, 16, 10, within="rack")

    assert found is not None
    assert found.rows == (3, 4)


def test_holes_of_some_rows_and_tails_of_others_make_one_place() -> None:
    state = a_state({"n1": 8, "n2": 8}, (0, 8, 20, 40), (1, 8, 0, 10))

    found = first(state, 16, 10, within="cluster")

    assert found is not None
    assert (found.start - NOW, found.rows, found.counts) == (10, (0, 1), (8, 8))
    assert start(state, 16, 11, within="cluster") == 40


def test_odd_gangs_take_what_each_row_has() -> None:
    state = a_state({"n1": 4, "n2": 2, "n3": 2}, (1, 1, 0, 10))

    found = first(state, 7, 5, within="rack")

    assert found is not None
    assert (found.start - NOW, found.rows, found.counts) == (0, (0, 1, 2), (4, 1, 2))
    assert start(state, 7, 5, within="rack", not_before=3) == 3


def test_a_node_gang_uses_the_islands_of_one_node() -> None:
    nodes = {name: {"gpus": 8, "islands": 2} for name in ("n1", "n2")}
    state = a_state(nodes, (0, 1, 0, 50), (3, 1, 0, 20))

    assert start(state, 8, 10) == 20
    assert start(state, 4, 10, within="nvlink") == 0


def test_only_rows_that_satisfy_the_request_are_used() -> None:
    nodes = {"n1": {"gpus": 8, "memory_gib": 39.5}, "n2": {"gpus": 8, "memory_gib": 79.15}}
    state = a_state(nodes, (1, 8, 0, 10), (1, 8, 12, 30))

    assert start(state, 8, 5, min_memory_gib=75) == 30
    assert start(state, 8, 2, min_memory_gib=75) == 10
    assert start(state, 8, 5, min_memory_gib=30) == 0


def test_what_never_fits_has_no_place() -> None:
    state = a_state({"n1": 8}, (0, 8, 0, 10))

    assert first(state, 9, 5) is None
    assert first(state, 16, 5, within="cluster") is None


def test_the_next_windows_follow_one_another() -> None:
    state = a_state({"n1": 8}, (0, 8, 20, 25), (0, 8, 60, 70))
    gang = a_gang(state, 8)

    found = windows(state, gang, Seconds(15), Instant(NOW + 2), 4)

    assert [slot.start - NOW for slot in found] == [2, 25, 40, 70]


def test_asking_changes_nothing() -> None:
    state = a_state({"n1": 8}, (0, 8, 5, 10))
    gang = a_gang(state, 4)

    assert earliest(state, gang, Seconds(6)) == earliest(state, gang, Seconds(6))
