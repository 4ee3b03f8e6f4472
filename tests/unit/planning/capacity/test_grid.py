import pytest

from reconciler.domain.units import NodeName
from tests.unit.planning.capacity.small import a_grid
from tests.values import a_cluster, devices_of


def test_a_node_is_a_row_and_a_type_a_slice_of_rows() -> None:
    grid = a_grid(
        {
            "n1": {"gpus": 8, "gpu_type": "H100-80GB", "rack": "r2"},
            "n2": {"gpus": 4, "gpu_type": "A100-80GB", "rack": "r1"},
            "n3": {"gpus": 8, "gpu_type": "H100-80GB", "rack": "r1"},
        }
    )

    assert grid.types == ("A100-80GB", "H100-80GB")
    assert grid.spans == ((0, 1), (1, 3))
    assert [grid.names[node] for node in grid.node] == ["n2", "n3", "n1"]
    assert grid.size.tolist() == [4, 8, 8]
    assert grid.type_of == (0, 1, 1)


def test_a_node_with_several_islands_has_a_row_for_each() -> None:
    grid = a_grid({"n1": {"gpus": 8, "islands": 2}, "n2": {"gpus": 8, "islands": 0}})

    assert grid.size.tolist() == [4, 4, 8]
    assert grid.link.tolist() == [4, 4, 1]


def test_a_node_that_is_not_ready_gives_nothing() -> None:
    grid = a_grid({"n1": {"gpus": 8, "state": "cordoned"}, "n2": 8})

    assert grid.size.tolist() == [0, 8]
    assert grid.whole.tolist() == [8, 8]


def test_an_allocation_is_counted_by_row_and_rows_by_node() -> None:
    nodes = {"n1": {"gpus": 8, "islands": 2}, "n2": {"gpus": 8}}
    grid = a_grid(nodes)
    allocation = devices_of(a_cluster(nodes), {"n1": [0, 1, 4], "n2": [0, 7]})

    rows, counts = grid.rows_of(allocation)

    assert (rows, counts) == ((0, 1, 2), (2, 1, 2))
    assert grid.node_counts(rows, counts) == {NodeName("n1"): 3, NodeName("n2"): 2}


def test_devices_that_are_gone_are_left_out() -> None:
    small, large = a_grid({"n1": {"gpus": 4, "islands": 2}}), a_cluster({"n1": 8, "n9": 2})

    assert small.rows_of(devices_of(large, {"n1": [0, 7], "n9": [0]})) == ((0,), (1,))


def test_positions_of_the_layout_are_counted_by_row() -> None:
    grid = a_grid({"n1": {"gpus": 4, "islands": 2}, "n2": 2})

    assert grid.rows_of_positions([0, 3, 4, 5]) == {0: 1, 1: 1, 2: 2}


def test_more_devices_than_a_key_can_count_are_refused() -> None:
    assert a_grid({"n1": 511}).size.tolist() == [511]
    with pytest.raises(ValueError, match="at most 511 devices of a type, got 512"):
        a_grid({"n1": 512})
