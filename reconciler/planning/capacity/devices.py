"""Which devices of its rows each planned place gets: names for counts.

Capacity is planned in counts, since devices of a row are interchangeable.  Giving them out in the
order of the starts, to each place the devices that have been free the longest, never runs short:
at any instant no more are taken than there are.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from reconciler.domain.cluster import Allocation, NodeShare
from reconciler.domain.units import DeviceId, NodeName
from reconciler.planning.capacity.search import Slot


class RowDevices(NamedTuple):
    """The devices of one row, sorted."""

    node: NodeName
    devices: tuple[DeviceId, ...]


Free = dict[int, list[tuple[int, DeviceId]]]
"""Row to a heap of (free since, device)."""


def allocations(
    rows: Sequence[RowDevices],
    busy: Mapping[tuple[NodeName, DeviceId], int],
    slots: Iterable[Slot],
) -> list[Allocation]:
    """Return the devices of each slot, in the order given.

    ``busy`` tells until when devices are held now.  Where more is planned than a row has (it was
    overbooked before), the devices that are free soonest are given twice.
    """
    places = list(slots)
    free: Free = {}
    found: list[list[tuple[NodeName, tuple[DeviceId, ...]]]] = [[] for _ in places]
    for index in sorted(range(len(places)), key=lambda i: (places[i].start, i)):
        slot = places[index]
        for row, count in zip(slot.rows, slot.counts, strict=True):
            heap = free.get(row)
            if heap is None:
                node, devices = rows[row]
                heap = [(busy.get((node, device), 0), device) for device in devices]
                heapify(heap)
                free[row] = heap
            taken = [heappop(heap)[1] for _ in range(min(count, len(heap)))]
            for device in taken:
                heappush(heap, (slot.end, device))
            found[index].append((rows[row].node, tuple(sorted(taken))))
    return [_allocation(shares) for shares in found]


def _allocation(shares: list[tuple[NodeName, tuple[DeviceId, ...]]]) -> Allocation:
    if len(shares) == 1:
        node, devices = shares[0]
        return Allocation(shares=(NodeShare(node=node, devices=devices),))
    merged: dict[NodeName, tuple[DeviceId, ...]] = {}
    for node, devices in shares:
        merged[node] = tuple(sorted((*merged.get(node, ()), *devices)))
    return Allocation(
        shares=tuple(NodeShare(node=node, devices=merged[node]) for node in sorted(merged))
    )
