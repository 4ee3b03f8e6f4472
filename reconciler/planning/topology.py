"""The cluster as bits: which devices share an island, a node, a rack, a type.

A set of devices is one integer, bit ``i`` for the ``i``-th device in (node, device) order.  Set
algebra over hundreds of devices is then a handful of machine instructions, and equal sets are
equal numbers whatever order they were made in.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.domain.cluster import (
    Allocation,
    Cluster,
    Device,
    DeviceKind,
    Node,
    NodeShare,
    NodeState,
)
from reconciler.domain.job import GpuRequest, Interconnect, TopologyDomain
from reconciler.domain.units import DeviceId, NodeName


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
    """Devices of nodes where something new may start."""
    unit: str = "GPU"
    """What people call one device here: ``CPU slot`` on a cluster without GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One request on one layout: which devices would do, type by type."""

    count: int
    within: TopologyDomain
    per_type: tuple[tuple[str, int], ...]
    """(type, devices of it that satisfy the request), in the request's order of types."""


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
    return Layout(
        devices=tuple(devices),
        bit=bit,
        nodes=tuple(rows),
        racks=tuple(tuple(racks[name]) for name in sorted(racks)),
        by_type=by_type,
        ready=ready,
        unit="CPU slot" if devices and has_slots_only else "GPU",
    )


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
        if request.min_memory_gib > 0:
            fitting = _with_memory(fitting, request.min_memory_gib, where)
        if fitting.bit_count() >= request.count:
            per_type.append((name, fitting))
    nvlink_only = request.interconnect is Interconnect.NVLINK
    return Shape(
        count=request.count,
        within=TopologyDomain.NVLINK if nvlink_only else request.within,
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
