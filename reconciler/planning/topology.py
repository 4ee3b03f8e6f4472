"""The cluster as bits: which devices share an island, a node, a rack, a type.

A set of devices is one integer, bit ``i`` for the ``i``-th device in (node, device) order.  Set
algebra over hundreds of devices is then a handful of machine instructions, and equal sets are
equal numbers whatever order they were made in.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.domain.cluster import (
    Allocation,
    Cluster,
    Device,
    DeviceKind,
    Node,
    NodeShare,
    NodeState,
)
from reconciler.domain.job import GpuRequest, TopologyDomain
from reconciler.domain.units import DeviceId, NodeName
from reconciler.planning.caches import Cached, cached_on


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBits:
    """One node: all its devices, and its NVLink islands (lone devices are islands of one)."""

    name: NodeName
    all: int
    islands: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A cluster's devices as bits.  Depends on the cluster alone."""

    devices: tuple[tuple[NodeName, Device], ...]
    bit: Mapping[tuple[NodeName, DeviceId], int]
    """(node, device) to the device's bit, already shifted."""
    nodes: tuple[NodeBits, ...]
    racks: tuple[tuple[int, ...], ...]
    """Positions in ``nodes`` of the nodes of each rack, racks sorted by name."""
    by_type: Mapping[str, int]
    ready: int
    """Devices on which something new may start: of ready nodes, within the power of their racks."""
    up: int = 0
    """Devices of ready nodes, whether or not their racks have the power for all of them."""
    ahead: int = 0
    """As many devices of ready nodes as may be in use at once, whole nodes first: what a plan over
    time may count on once what runs elsewhere has ended."""
    caps: tuple[tuple[int, int], ...] = ()
    """(devices of a rack, how many of them its power allows in use at once), where it binds."""
    linked: int = 0
    """Devices that NVLink joins with others of their node."""
    rdma: int = 0
    """Devices of racks whose nodes reach each other by RDMA."""
    spans_rdma: bool = False
    """Those racks reach each other by RDMA too."""
    most: int = 0
    """As many devices as may be in use at once where nothing is yet."""
    unit: str = "GPU"
    """What people call one device here: ``CPU slot`` on a cluster without GPUs."""
    caches: Cached[NodeName] = field(default_factory=Cached)
    """What lies on the nodes' own disks already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One request on one layout: which devices would do, type by type."""

    count: int
    within: TopologyDomain
    per_type: tuple[tuple[str, int], ...]
    """(type, devices of it that satisfy the request), in the request's order of types."""
    fast: int = 0
    """Devices to look among first, for their links; 0: all are alike to it."""
    near: Mapping[NodeName, int] = field(default_factory=dict)
    """What nodes are worth that have the job's model or data, where somebody said whose it is."""


def layout(cluster: Cluster) -> Layout:
    """Return ``cluster`` as bits."""
    nodes = sorted(cluster.nodes, key=lambda node: node.name)
    devices: list[tuple[NodeName, Device]] = []
    bit: dict[tuple[NodeName, DeviceId], int] = {}
    by_type: dict[str, int] = {}
    rows: list[NodeBits] = []
    racks: dict[str, list[int]] = {}
    ready = 0
    for position, node in enumerate(nodes):
        row = _row(node, devices, bit, by_type)
        rows.append(row)
        racks.setdefault(node.rack, []).append(position)
        if node.state is NodeState.READY:
            ready |= row.all
    has_slots_only = all(device.kind is DeviceKind.CPU_SLOT for _, device in devices)
    everything = (1 << len(devices)) - 1
    joined = cluster.rdma_racks
    caps = tuple(_caps(cluster, nodes, rows)) if cluster.rack_watts else ()
    return Layout(
        devices=tuple(devices),
        bit=bit,
        nodes=tuple(rows),
        racks=tuple(tuple(racks[name]) for name in sorted(racks)),
        by_type=by_type,
        ready=ready,
        up=ready,
        ahead=powered(caps, rows, ready) if caps else ready,
        caps=caps,
        linked=sum(part for row in rows for part in row.islands if part.bit_count() > 1),
        rdma=sum(row.all for row, node in zip(rows, nodes, strict=True) if node.rack in joined),
        spans_rdma=cluster.rdma_between_racks,
        most=powered(caps, rows, everything) if caps else everything,
        unit="CPU slot" if devices and has_slots_only else "GPU",
        caches=cached_on(nodes),
    )


def _caps(
    cluster: Cluster, nodes: Sequence[Node], rows: Sequence[NodeBits]
) -> Iterator[tuple[int, int]]:
    """Yield the racks whose power does not allow all of their devices in use at once.

    Where a rack has devices of several types, each is taken to draw what the hungriest does.
    """
    for rack in sorted(cluster.rack_watts):
        here = [position for position, node in enumerate(nodes) if node.rack == rack]
        devices = [device for position in here for device in nodes[position].devices]
        each = max((cluster.device_watts.get(device.type, 0) for device in devices), default=0)
        if each and each * len(devices) > cluster.rack_watts[rack]:
            yield sum(rows[position].all for position in here), cluster.rack_watts[rack] // each


def powered(
    caps: Iterable[tuple[int, int]],
    nodes: Sequence[NodeBits],
    up: int,
    in_use: int = 0,
    booked: int = 0,
    first: int = 0,
) -> int:
    """Return the devices that may be in use at once, within every rack's power.

    Those ``in_use`` first, whatever they draw; then those ``booked``; of the rest those of
    ``first``; whole nodes as long as there is power for one, then what lies on the fewest free
    devices, so that what has to stay idle lies together.  Of racks without a cap: all of ``up``.
    """
    found = up
    for rack, most in caps:
        free = up & rack & ~in_use
        kept = free & booked
        found = found & ~rack | in_use & rack
        left = most - (in_use & rack).bit_count()
        for part in (kept, free & first & ~kept, free & ~first & ~kept):
            chosen = _some(part, left, nodes, up) if left > 0 else 0
            found |= chosen
            left -= chosen.bit_count()
    return found


def _some(free: int, count: int, nodes: Sequence[NodeBits], up: int) -> int:
    """Return at most ``count`` of ``free``: whole nodes, then the smallest parts."""
    if free.bit_count() <= count:
        return free
    parts = [(node.all & up, part) for node in nodes if (part := free & node.all)]
    whole = [part for everything, part in parts if part == everything]
    rest = sorted((part.bit_count(), part) for everything, part in parts if part != everything)
    found = 0
    for part in whole:
        if part.bit_count() <= count:
            found |= part
            count -= part.bit_count()
        else:
            rest.append((part.bit_count(), part))
    for size, part in rest:
        found |= lowest(part, min(size, count))
        count -= min(size, count)
    return found


def _row(
    node: Node,
    devices: list[tuple[NodeName, Device]],
    bit: dict[tuple[NodeName, DeviceId], int],
    by_type: dict[str, int],
) -> NodeBits:
    islands: dict[str, int] = {}
    everything = 0
    for device in sorted(node.devices, key=lambda device: device.id):
        one = 1 << len(devices)
        devices.append((node.name, device))
        bit[node.name, device.id] = one
        by_type[device.type] = by_type.get(device.type, 0) | one
        everything |= one
        key = f"island {device.island}" if device.island else f"device {device.id}"
        islands[key] = islands.get(key, 0) | one
    return NodeBits(
        name=node.name, all=everything, islands=tuple(islands[key] for key in sorted(islands))
    )


def shape(request: GpuRequest, where: Layout) -> Shape:
    """Return which devices of ``where`` satisfy ``request``, whatever their nodes' states."""
    types = request.types or tuple(sorted(where.by_type))
    per_type = []
    for name in dict.fromkeys(types):
        fitting = where.by_type.get(name, 0)
        if request.wants_rdma:
            fitting &= where.rdma
        if request.min_memory_gib > 0:
            fitting = _with_memory(fitting, request.min_memory_gib, where)
        if fitting.bit_count() >= request.count:
            per_type.append((name, fitting))
    return Shape(
        count=request.count,
        within=request.domain(spans_rdma=where.spans_rdma),
        per_type=tuple(per_type),
    )


def _with_memory(devices: int, min_memory_gib: float, where: Layout) -> int:
    return sum(
        1 << position
        for position in positions(devices)
        if where.devices[position][1].memory_gib >= min_memory_gib
    )


def positions(devices: int) -> list[int]:
    """Return the positions of the set bits, lowest first."""
    found = []
    while devices:
        low = devices & -devices
        found.append(low.bit_length() - 1)
        devices ^= low
    return found


def bits_of(allocation: Allocation, where: Layout) -> int:
    """Return the allocation's devices as bits; devices the cluster no longer has are left out."""
    found = 0
    for pair in allocation.devices():
        found |= where.bit.get(pair, 0)
    return found


def allocation_of(devices: int, where: Layout) -> Allocation:
    """Return the allocation of a set of devices, shares sorted by node."""
    shares: dict[NodeName, list[DeviceId]] = {}
    for position in positions(devices):
        node, device = where.devices[position]
        shares.setdefault(node, []).append(device.id)
    return Allocation(
        shares=tuple(NodeShare(node=node, devices=tuple(ids)) for node, ids in shares.items())
    )


def lowest(devices: int, count: int) -> int:
    """Return the ``count`` lowest devices of a set that has at least as many."""
    rest = devices
    for _ in range(count):
        rest &= rest - 1
    return devices & ~rest
