"""The plan over time again, in the plainest way: for tiny clusters only.

Every instant at which anything changes is tried as a start, every set of nodes as a place, device
by device.  Nothing is shared with the planner but the values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from reconciler.domain.cluster import Cluster, Device, DeviceId, Node, NodeName, NodeState
from reconciler.domain.job import GpuRequest, Interconnect, TopologyDomain

Pair = tuple[NodeName, DeviceId]


@dataclass(frozen=True)
class Busy:
    """Devices in use in [start, end)."""

    devices: frozenset[Pair]
    start: int
    end: int


def earliest_start(
    request: GpuRequest, cluster: Cluster, busy: Sequence[Busy], *, now: int, duration_s: int
) -> int | None:
    """Return the first instant from ``now`` at which the gang fits for its whole duration."""
    instants = sorted({now, *(b.end for b in busy if b.end > now)})
    for start in instants:
        taken = set().union(
            *(b.devices for b in busy if b.start < start + duration_s and b.end > start)
        )
        if gang_fits(request, cluster, taken):
            return start
    return None


def gang_fits(request: GpuRequest, cluster: Cluster, taken: set[Pair]) -> bool:
    """True if some place of the request's domain has enough free devices of one type."""
    return any(
        _most_of_one_type(request, place, taken) >= request.count
        for place in _places(request, cluster)
    )


def _over_rdma(request: GpuRequest) -> bool:
    """True for a gang that may go over nodes, but only such as RDMA joins."""
    if request.interconnect is not Interconnect.RDMA or request.count == 1:
        return False
    return request.within in (TopologyDomain.RACK, TopologyDomain.CLUSTER)


def _places(request: GpuRequest, cluster: Cluster) -> Iterator[list[tuple[Node, Device]]]:
    ready = [node for node in cluster.nodes if node.state is NodeState.READY]
    if request.interconnect is Interconnect.NVLINK or request.within is TopologyDomain.NVLINK:
        for node in ready:
            for name in {device.island for device in node.devices}:
                alike = [(node, d) for d in node.devices if d.island == name]
                yield from ([pair] for pair in alike) if name == "" else [alike]
        return
    if _over_rdma(request):
        ready = [node for node in ready if node.rack in cluster.rdma_racks]
    one_rack = request.within is TopologyDomain.RACK or (
        _over_rdma(request) and not cluster.rdma_between_racks
    )
    for size in range(1, len(ready) + 1):
        for nodes in combinations(ready, size):
            if request.within is TopologyDomain.NODE and size > 1:
                continue
            if one_rack and len({n.rack for n in nodes}) > 1:
                continue
            yield [(node, device) for node in nodes for device in node.devices]


def _most_of_one_type(
    request: GpuRequest, place: list[tuple[Node, Device]], taken: set[Pair]
) -> int:
    free = [
        device.type
        for node, device in place
        if (node.name, device.id) not in taken
        and device.memory_gib >= request.min_memory_gib
        and (not request.types or device.type in request.types)
    ]
    return max((free.count(kind) for kind in set(free)), default=0)
