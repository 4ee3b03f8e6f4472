"""How far is a gang spread, and how much longer does it take so?

A gang that goes over more nodes, or more racks, than the fewest that could hold it pays for the
longer way with time; how much is in the policy (``spread_slowdown``), moved by what the fleet's
runs measured (:mod:`reconciler.planning.slowdown`).  The narrower requests of a gang are itself
kept to one node, or to one rack, where the cluster has one that large: what it may wait for
instead of being spread.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from reconciler.domain.cluster import Allocation
from reconciler.domain.job import GpuRequest, Interconnect, TopologyDomain
from reconciler.domain.policy import SpreadSlowdown
from reconciler.domain.spread import PlacementClass
from reconciler.planning.shapes import Shapes
from reconciler.planning.slowdown import times_as_long
from reconciler.planning.topology import Layout, Shape, bits_of, positions, shape

SOONER_TOGETHER = "ends sooner if it waits for a place that is closer together"

SOONER_APART = "ends sooner spread now than if it waited for a place closer together"

_WIDE = (TopologyDomain.RACK, TopologyDomain.CLUSTER)


class Spread:
    """What places cost the gangs of one cluster.  Local to one planning call."""

    def __init__(self, shapes: Shapes, slowdown: SpreadSlowdown) -> None:
        self.slowdown = slowdown
        self._shapes = shapes
        self._fewest: dict[GpuRequest, tuple[int, int]] = {}

    def matters(self, request: GpuRequest) -> bool:
        """True for a gang that may go over several nodes, where the cost of that is known."""
        return (
            bool(self.slowdown)
            and request.count > 1
            and request.within in _WIDE
            and request.interconnect is not Interconnect.NVLINK
        )

    def fewest(self, request: GpuRequest) -> tuple[int, int]:
        """Return the fewest nodes and the fewest racks of the cluster that could hold a gang."""
        found = self._fewest.get(request)
        if found is None:
            found = _fewest(self._shapes.of(request), self._shapes.where)
            self._fewest[request] = found
        return found

    def narrower(self, request: GpuRequest) -> tuple[GpuRequest, ...]:
        """Return the gang kept to one node and to one rack, as far as the cluster has one that
        holds it and the request allows more; empty where there is nothing to choose."""
        if not self.matters(request):
            return ()
        nodes, racks = self.fewest(request)
        found = []
        if nodes == 1:
            found.append(replace(request, within=TopologyDomain.NODE))
        if racks == 1 and request.within is TopologyDomain.CLUSTER:
            found.append(replace(request, within=TopologyDomain.RACK))
        return tuple(found)

    def factor_of_rows(self, request: GpuRequest, rows: Iterable[int]) -> float:
        """Return how many times as long a gang takes on ``rows`` as in its best place."""
        return times_as_long(self.slowdown, self._class_of_rows(request, rows))

    def factor(self, request: GpuRequest, devices: int) -> float:
        """Return how many times as long a gang takes on ``devices`` as in its best place."""
        return times_as_long(self.slowdown, self.placed(request, devices))

    def placed(self, request: GpuRequest, devices: int) -> PlacementClass:
        """Return how far a gang is spread on ``devices``, as many as they are."""
        if devices.bit_count() != request.count:  # an elastic job, at another size
            request = replace(request, count=devices.bit_count())
        if not self.matters(request):
            return PlacementClass.TOGETHER
        grid = self._shapes.grid
        return self._class_of_rows(request, grid.rows_of_positions(positions(devices)))

    def _class_of_rows(self, request: GpuRequest, rows: Iterable[int]) -> PlacementClass:
        if not self.matters(request):
            return PlacementClass.TOGETHER
        of = self._shapes.rows.nodes
        chosen = tuple(rows)
        nodes, racks = len({of.node[row] for row in chosen}), len({of.rack[row] for row in chosen})
        return _class(nodes, racks, self.fewest(request))


def placement_class(
    request: GpuRequest, allocation: Allocation, where: Layout
) -> PlacementClass | None:
    """Return how far a gang was spread that ran on ``allocation``, among devices of that type.

    None for a single device, and where the cluster does not have these devices any more.
    """
    devices = bits_of(allocation, where)
    if allocation.gpus < 2 or devices.bit_count() != allocation.gpus:
        return None
    types = {where.devices[position][1].type for position in positions(devices)}
    ran = shape(replace(request, count=allocation.gpus, types=tuple(sorted(types))), where)
    on = [bool(node.all & devices) for node in where.nodes]
    racks = sum(any(on[position] for position in rack) for rack in where.racks)
    return _class(sum(on), racks, _fewest(ran, where)) if ran.per_type else None


def _class(nodes: int, racks: int, fewest: tuple[int, int]) -> PlacementClass:
    fewest_nodes, fewest_racks = fewest
    if racks > fewest_racks:
        return PlacementClass.RACKS
    return PlacementClass.NODES if nodes > fewest_nodes else PlacementClass.TOGETHER


def _fewest(shape: Shape, where: Layout) -> tuple[int, int]:
    """Return (nodes, racks), each the least over the types that will do; 1 where none does.

    No node, and no rack, has more devices than its rack has the power for at once.
    """
    found = []
    for _, fitting in shape.per_type:
        nodes = [(fitting & node.all).bit_count() for node in where.nodes]
        racks = [sum(nodes[position] for position in rack) for rack in where.racks]
        for devices, most in where.caps:
            for number, rack in enumerate(where.racks):
                if where.nodes[rack[0]].all & devices:
                    racks[number] = min(racks[number], most)
                    for position in rack:
                        nodes[position] = min(nodes[position], most)
        if sum(racks) >= shape.count:
            found.append((_so_many(nodes, shape.count), _so_many(racks, shape.count)))
    return min(found, default=(1, 1))


def _so_many(sizes: Sequence[int], count: int) -> int:
    """Return how many of ``sizes``, largest first, it takes to have ``count``."""
    taken = 0
    for number, size in enumerate(sorted(sizes, reverse=True), start=1):
        taken += size
        if taken >= count:
            return number
    return len(sizes)
