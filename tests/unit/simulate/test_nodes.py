"""Gangs on counted nodes: best fit, whole nodes, and what a spread place costs."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.simulate.nodes import Nodes


def test_a_small_gang_goes_where_the_least_is_left() -> None:
    nodes = Nodes(3, 8)
    nodes.take(((1, 5),))
    assert nodes.find(3) == ((1, 3),)
    assert nodes.find(4) == ((0, 4),)


def test_a_wide_gang_takes_whole_nodes_and_the_remainder_by_best_fit() -> None:
    nodes = Nodes(4, 8)
    nodes.take(((0, 6),))
    assert nodes.find(18) == ((1, 8), (2, 8), (0, 2))


def test_enough_gpus_on_broken_nodes_do_not_hold_a_gang() -> None:
    nodes = Nodes(2, 8)
    nodes.take(((0, 4), (1, 4)))
    assert nodes.free_gpus == 8
    assert nodes.find(8) is None


def test_a_closed_node_gives_nothing_until_it_opens() -> None:
    nodes = Nodes(1, 8)
    nodes.take(((0, 2),))
    nodes.close(0)
    nodes.give(((0, 2),))
    assert (nodes.find(1), nodes.free_gpus) == (None, 0)
    nodes.open(0)
    assert nodes.find(8) == ((0, 8),)


def test_whole_nodes_come_from_one_switch_where_one_has_them() -> None:
    nodes = Nodes(8, 8, tor_size=4)
    nodes.take(((0, 8), (1, 8), (2, 8)))
    assert {node for node, _ in nodes.find(24) or ()} == {4, 5, 6}


def test_a_place_across_switches_is_slower_than_one_behind_one() -> None:
    nodes = Nodes(8, 8, tor_size=4)
    assert nodes.slowdown(((3, 8), (4, 8))) == 1.28
    assert nodes.slowdown(((2, 8), (3, 8))) == 1.0
    assert nodes.slowdown(((0, 4), (1, 4))) == 1.05
    assert Nodes(8, 8).slowdown(((3, 8), (4, 8))) == 1.0


@given(st.lists(st.integers(1, 30), max_size=40))
def test_no_gpu_is_given_twice_and_all_come_back(sizes: list[int]) -> None:
    nodes = Nodes(5, 8)
    places = []
    for gpus in sizes:
        place = nodes.find(gpus)
        if place is not None:
            assert sum(count for _, count in place) == gpus
            nodes.take(place)
            places.append(place)
        assert min(nodes.free) >= 0
        assert sum(nodes.free) == nodes.free_gpus
    for place in places:
        nodes.give(place)
    assert nodes.free == [8] * 5
