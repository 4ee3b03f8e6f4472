from typing import Any

import pytest

from reconciler.planning.placement import fits, fits_empty, place
from reconciler.planning.topology import Layout, allocation_of, layout, shape
from tests.values import a_cluster, a_spec, devices_of


def placed(
    nodes: dict[str, Any], busy: dict[str, list[int]] | None = None, **request: Any
) -> dict[str, int] | None:
    """Return how many GPUs of each node the gang gets, or None."""
    cluster = a_cluster(nodes)
    where = layout(cluster)
    devices = place(shape(a_spec(**request).gpus, where), free_bits(where, nodes, busy), where)
    if devices is None:
        return None
    return {share.node: len(share.devices) for share in allocation_of(devices, where).shares}


def free_bits(where: Layout, nodes: dict[str, Any], busy: dict[str, list[int]] | None) -> int:
    taken = 0
    for pair in devices_of(a_cluster(nodes), busy or {}).devices():
        taken |= where.bit[pair]
    return ((1 << len(where.devices)) - 1) & ~taken


def test_the_fullest_node_that_fits_is_taken() -> None:
    assert placed({"n1": 8, "n2": 8}, {"n2": [0, 1, 2, 3]}, gpus=2) == {"n2": 2}


def test_a_node_that_is_filled_exactly_is_best() -> None:
    busy = {"n1": [0, 1, 2, 3, 4], "n2": [0, 1, 2, 3, 4, 5]}

    assert placed({"n1": 8, "n2": 8, "n3": 8}, busy, gpus=2) == {"n2": 2}


def test_an_island_that_is_filled_exactly_is_better_than_a_fuller_node() -> None:
    nodes = {"n1": {"gpus": 8, "islands": 2}, "n2": 8}
    busy = {"n1": [0, 1], "n2": [0, 1, 2, 3, 4]}

    assert placed(nodes, busy, gpus=2) == {"n1": 2}


def test_equal_places_go_by_name() -> None:
    assert placed({"n2": 8, "n1": 8}, gpus=4) == {"n1": 4}


def test_a_gang_stays_in_one_island_where_it_can() -> None:
    nodes = {"n1": {"gpus": 8, "islands": 2}}
    cluster = a_cluster(nodes)
    where = layout(cluster)
    free = free_bits(where, nodes, {"n1": [0]})

    devices = place(shape(a_spec(gpus=3).gpus, where), free, where)

    assert devices is not None
    assert allocation_of(devices, where) == devices_of(cluster, {"n1": [1, 2, 3]})


def test_a_gang_within_a_node_may_cross_islands() -> None:
    assert placed({"n1": {"gpus": 8, "islands": 2}}, gpus=6) == {"n1": 6}


def test_a_gang_within_an_island_may_not() -> None:
    assert placed({"n1": {"gpus": 8, "islands": 2}}, gpus=6, within="nvlink") is None
    assert placed({"n1": {"gpus": 8, "islands": 0}}, gpus=2, within="nvlink") is None
    assert placed({"n1": {"gpus": 8, "islands": 0}}, gpus=1, within="nvlink") == {"n1": 1}


def test_asking_for_nvlink_means_one_island_whatever_the_domain() -> None:
    nodes = {"n1": {"gpus": 8, "islands": 2}}

    assert placed(nodes, gpus=6, interconnect="nvlink") is None
    assert placed(nodes, gpus=4, interconnect="nvlink") == {"n1": 4}


def test_several_nodes_get_equal_counts() -> None:
    assert placed({"n1": 8, "n2": 8}, gpus=12, within="cluster") == {"n1": 6, "n2": 6}


def test_the_fewest_nodes_are_used() -> None:
    nodes = {"n1": 4, "n2": 8, "n3": 8, "n4": 4}

    assert placed(nodes, gpus=16, within="cluster") == {"n2": 8, "n3": 8}


def test_counts_are_unequal_only_where_equal_ones_would_need_too_many_nodes() -> None:
    busy = {"n1": list(range(7)), "n2": [], "n3": [0, 1, 2, 3]}

    assert placed({"n1": 8, "n2": 8, "n3": 8}, busy, gpus=12, within="cluster") == {
        "n2": 8,
        "n3": 4,
    }


def test_a_wide_gang_prefers_one_rack() -> None:
    nodes = {
        "n1": {"gpus": 8, "rack": "a"},
        "n2": {"gpus": 8, "rack": "b"},
        "n3": {"gpus": 8, "rack": "b"},
    }

    assert placed(nodes, gpus=16, within="cluster") == {"n2": 8, "n3": 8}
    assert placed(nodes, gpus=24, within="cluster") == {"n1": 8, "n2": 8, "n3": 8}
    assert placed(nodes, gpus=24, within="rack") is None


def test_a_gang_is_of_one_type() -> None:
    nodes = {"n1": {"gpus": 8, "gpu_type": "A"}, "n2": {"gpus": 8, "gpu_type": "B"}}

    assert placed(nodes, gpus=12, within="cluster") is None
    assert placed(nodes, gpus=4, types=["B"]) == {"n2": 4}
    assert placed(nodes, gpus=4, types=["B", "A"]) == {"n2": 4}
    assert placed(nodes, gpus=4, types=["C"]) is None


def test_memory_is_what_the_device_has() -> None:
    nodes = {"n1": {"gpus": 8, "memory_gib": 39.5}, "n2": {"gpus": 8, "memory_gib": 79.15}}

    assert placed(nodes, gpus=4, min_memory_gib=75) == {"n2": 4}
    assert placed(nodes, gpus=4, min_memory_gib=80) is None


@pytest.mark.parametrize("within", ["nvlink", "node", "rack", "cluster"])
@pytest.mark.parametrize("gpus", [1, 3, 4, 8, 9, 16, 17])
def test_fits_agrees_with_place(within: str, gpus: int) -> None:
    nodes = {
        "n1": {"gpus": 8, "rack": "a", "islands": 2},
        "n2": {"gpus": 8, "rack": "a"},
        "n3": {"gpus": 4, "rack": "b", "islands": 0},
    }
    where = layout(a_cluster(nodes))
    free = free_bits(where, nodes, {"n1": [0, 5], "n2": [1, 2]})
    wanted = shape(a_spec(gpus=gpus, within=within).gpus, where)

    assert fits(wanted, free, where) == (place(wanted, free, where) is not None)


def test_fitting_the_empty_cluster_ignores_node_states() -> None:
    where = layout(a_cluster({"n1": {"gpus": 8, "state": "down"}}))

    assert fits_empty(shape(a_spec(gpus=8).gpus, where), where)
    assert not fits_empty(shape(a_spec(gpus=9).gpus, where), where)
    assert where.ready == 0
