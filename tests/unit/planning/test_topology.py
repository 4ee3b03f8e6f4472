from reconciler.domain.units import DeviceId, NodeName
from reconciler.planning.topology import (
    allocation_of,
    bits_of,
    layout,
    lowest,
    positions,
)
from tests.values import a_cluster, devices_of


def test_bits_are_in_the_order_of_node_and_device() -> None:
    where = layout(a_cluster({"n2": 2, "n1": 2}))

    assert [(node, device.id) for node, device in where.devices] == [
        ("n1", "n1-gpu00"),
        ("n1", "n1-gpu01"),
        ("n2", "n2-gpu00"),
        ("n2", "n2-gpu01"),
    ]
    assert where.bit[NodeName("n2"), DeviceId("n2-gpu00")] == 0b100


def test_an_allocation_survives_the_way_to_bits_and_back() -> None:
    cluster = a_cluster({"n1": 4, "n2": 4})
    allocation = devices_of(cluster, {"n1": [1, 3], "n2": [0]})
    where = layout(cluster)

    assert allocation_of(bits_of(allocation, where), where) == allocation


def test_devices_the_cluster_lost_are_left_out() -> None:
    allocation = devices_of(a_cluster({"n1": 4}), {"n1": [0, 3]})

    assert bits_of(allocation, layout(a_cluster({"n1": 2}))) == 0b1


def test_lone_devices_are_islands_of_one() -> None:
    where = layout(a_cluster({"n1": {"gpus": 3, "islands": 0}}))

    assert where.nodes[0].islands == (0b1, 0b10, 0b100)


def test_only_ready_nodes_are_ready() -> None:
    nodes = {
        "n1": {"gpus": 1},
        "n2": {"gpus": 1, "state": "cordoned"},
        "n3": {"gpus": 1, "state": "draining"},
        "n4": {"gpus": 1, "state": "down"},
    }

    assert layout(a_cluster(nodes)).ready == 0b1


def test_lowest_takes_the_lowest() -> None:
    assert lowest(0b1101100, 2) == 0b1100
    assert positions(0b1101100) == [2, 3, 5, 6]
