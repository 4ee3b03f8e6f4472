"""The cluster as rows: the parts of it whose devices are interchangeable.

A row is the devices of one type on one node; a node with several NVLink islands has one row for
each.  Which of a row's devices a gang gets does not matter to anything planned later, so capacity
over time is a number per row, and a plan over time needs no device names.

Rows are sorted by (type, rack, node, island): a type is a slice of rows, and a rack a slice of
that.  A grid depends on the cluster alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from reconciler.domain.cluster import Allocation, NodeShare
from reconciler.domain.units import DeviceId, NodeName
from reconciler.planning.topology import Layout, NodeBits, positions

Ints: TypeAlias = NDArray[np.int64]

ROW_BITS = 17
"""Rows a grid may have: keys pack (row, instant, step) or (instant, row) into 64 bits."""
MOST_DEVICES = 511
"""Devices a row may have, for the same reason."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grid:
    """Rows as columns of equal length.  Two grids of equal clusters are interchangeable."""

    types: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    """For each type the slice [low, high) of its rows."""
    type_of: tuple[int, ...]
    """For each row the position of its type in ``types``."""
    names: tuple[NodeName, ...]
    node: Ints
    """Position in ``names`` of each row's node."""
    rack: Ints
    """Number of each row's rack, racks numbered in the order of their names."""
    size: Ints
    """Devices of each row on which something new may start: 0 where the node is not ready."""
    whole: Ints
    """Devices of each row, ready or not."""
    memory_gib: NDArray[np.float64]
    """The least usable memory of any device of the row."""
    link: Ints
    """Devices of the row that share one NVLink island; 1 where they have no NVLink."""
    rdma: NDArray[np.bool_]
    """Whether RDMA joins the nodes of the row's rack."""
    spans_rdma: bool
    """Those racks reach each other by RDMA too."""
    only_row: Mapping[NodeName, int]
    """The row of each node that has just one."""
    row_of: Mapping[tuple[NodeName, DeviceId], int]
    """The row of each device of the other nodes."""
    members: tuple[tuple[DeviceId, ...], ...]
    """The devices of each row, sorted."""
    row_at: tuple[int, ...]
    """The row of each device of the layout, in its order."""

    def rows_of(self, allocation: Allocation) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the rows an allocation is on and how many devices of each it has.

        Devices the cluster no longer has are left out.
        """
        held: dict[int, int] = {}
        for share in allocation.shares:
            row = self.only_row.get(share.node)
            if row is not None:
                held[row] = held.get(row, 0) + len(share.devices)
            else:
                self._count(share, held)
        return tuple(held), tuple(held.values())

    def _count(self, share: NodeShare, held: dict[int, int]) -> None:
        for device in share.devices:
            row = self.row_of.get((share.node, device))
            if row is not None:
                held[row] = held.get(row, 0) + 1

    def rows_of_positions(self, devices: Iterable[int]) -> dict[int, int]:
        """Return row to count for devices given by their positions in the layout."""
        held: dict[int, int] = {}
        for position in devices:
            row = self.row_at[position]
            held[row] = held.get(row, 0) + 1
        return held

    def node_counts(self, rows: Iterable[int], counts: Iterable[int]) -> dict[NodeName, int]:
        """Return how many devices of each node these rows are, sorted by node."""
        found: dict[NodeName, int] = {}
        for row, count in zip(rows, counts, strict=True):
            name = self.names[int(self.node[row])]
            found[name] = found.get(name, 0) + count
        return {name: found[name] for name in sorted(found)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    type: str
    rack: int
    node: int
    island: int
    devices: int
    is_ready: bool
    memory_gib: float
    link: int
    has_rdma: bool
    members: tuple[DeviceId, ...]


def grid_of(where: Layout) -> Grid:
    """Return the rows of a cluster.

    Raises ``ValueError`` where it has more rows, or a row more devices, than keys can hold.
    """
    rack_of = {p: rack for rack, members in enumerate(where.racks) for p in members}
    rows = [
        row
        for position, node in enumerate(where.nodes)
        for row in _rows(where, node, position, rack_of[position])
    ]
    rows.sort(key=lambda row: (row.type, row.rack, row.node, row.island))
    if len(rows) >= 1 << ROW_BITS:
        raise ValueError(f"a cluster may have at most {(1 << ROW_BITS) - 1} nodes and islands")
    most = max((row.devices for row in rows), default=0)
    if most > MOST_DEVICES:
        raise ValueError(f"a node may have at most {MOST_DEVICES} devices of a type, got {most}")
    types = tuple(sorted({row.type for row in rows}))
    ends = np.searchsorted(
        np.array([types.index(row.type) for row in rows], np.int64), np.arange(len(types) + 1)
    ).tolist()
    only_row, row_of = _index(where, rows)
    return Grid(
        types=types,
        spans=tuple((ends[i], ends[i + 1]) for i in range(len(types))),
        type_of=tuple(types.index(row.type) for row in rows),
        names=tuple(node.name for node in where.nodes),
        node=_column([row.node for row in rows]),
        rack=_column([row.rack for row in rows]),
        size=_column([row.devices if row.is_ready else 0 for row in rows]),
        whole=_column([row.devices for row in rows]),
        memory_gib=np.array([row.memory_gib for row in rows], np.float64),
        link=_column([row.link for row in rows]),
        rdma=np.array([row.has_rdma for row in rows], bool),
        spans_rdma=where.spans_rdma,
        only_row=only_row,
        row_of=row_of,
        members=tuple(row.members for row in rows),
        row_at=_row_at(where, rows),
    )


def _column(values: Sequence[int]) -> Ints:
    return np.array(values, np.int64)


def _rows(where: Layout, node: NodeBits, position: int, rack: int) -> list[_Row]:
    found = []
    for kind, of_type in where.by_type.items():
        here = node.all & of_type
        if not here:
            continue
        islands = [island & here for island in node.islands if island & here]
        linked = max(island.bit_count() for island in islands)
        parts = islands if linked > 1 else [here]
        for number, part in enumerate(parts):
            devices = [where.devices[p][1] for p in positions(part)]
            found.append(
                _Row(
                    type=kind,
                    rack=rack,
                    node=position,
                    island=number,
                    devices=len(devices),
                    is_ready=bool(part & where.ready),
                    memory_gib=min(device.memory_gib for device in devices),
                    link=len(devices) if linked > 1 else 1,
                    has_rdma=bool(part & where.rdma),
                    members=tuple(device.id for device in devices),
                )
            )
    return found


def _row_at(where: Layout, rows: Sequence[_Row]) -> tuple[int, ...]:
    found = {
        (where.nodes[row.node].name, device): number
        for number, row in enumerate(rows)
        for device in row.members
    }
    return tuple(found[node, device.id] for node, device in where.devices)


def _index(
    where: Layout, rows: Sequence[_Row]
) -> tuple[dict[NodeName, int], dict[tuple[NodeName, DeviceId], int]]:
    by_node: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        by_node.setdefault(row.node, []).append(number)
    only_row: dict[NodeName, int] = {}
    row_of: dict[tuple[NodeName, DeviceId], int] = {}
    for position, numbers in by_node.items():
        name = where.nodes[position].name
        if len(numbers) == 1:
            only_row[name] = numbers[0]
        else:
            for number in numbers:
                row_of.update(((name, device), number) for device in rows[number].members)
    return only_row, row_of
