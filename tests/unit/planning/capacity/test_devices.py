"""Planned places get devices with names."""

from reconciler.domain.units import DeviceId, Instant, NodeName
from reconciler.planning.capacity.devices import RowDevices, allocations
from reconciler.planning.capacity.search import Slot


def slot(start: int, end: int, rows: tuple[int, ...], counts: tuple[int, ...]) -> Slot:
    return Slot(Instant(start), Instant(end), rows, counts)


def test_devices_are_given_in_the_order_of_the_starts() -> None:
    rows = [RowDevices(NodeName("n1"), tuple(DeviceId(f"g{i}") for i in range(4)))]
    busy = {(NodeName("n1"), DeviceId("g0")): 10, (NodeName("n1"), DeviceId("g1")): 20}

    found = allocations(
        rows, busy, [slot(20, 30, (0,), (4,)), slot(0, 20, (0,), (2,)), slot(10, 20, (0,), (1,))]
    )

    named = [[str(device) for _, device in each.devices()] for each in found]
    assert named == [["g0", "g1", "g2", "g3"], ["g2", "g3"], ["g0"]]


def test_rows_of_one_node_are_one_share() -> None:
    rows = [RowDevices(NodeName("n1"), (DeviceId(f"g{i}"),)) for i in range(2)]

    found = allocations(rows, {}, [slot(0, 5, (0, 1), (1, 1))])

    assert [(share.node, share.devices) for share in found[0].shares] == [("n1", ("g0", "g1"))]
