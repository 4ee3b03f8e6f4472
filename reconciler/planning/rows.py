"""The cluster as the value order sees it: rows of interchangeable devices, and their bits.

A row is the devices of one type on one node, or those of one NVLink island of it.  Which of its
devices a gang gets matters to nobody, so choices are made in counts; here counts become devices.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.domain.job import GpuRequest, Interconnect, TopologyDomain
from reconciler.domain.units import DeviceId, NodeName
from reconciler.domain.value_state import Held
from reconciler.planning.caches import rows_with
from reconciler.planning.capacity.grid import Grid
from reconciler.planning.topology import Layout, lowest
from reconciler.planning.value.fleet import Nodes, Within

_WITHIN = {
    TopologyDomain.NVLINK: Within.UNIT,
    TopologyDomain.NODE: Within.NODE,
    TopologyDomain.RACK: Within.RACK,
    TopologyDomain.CLUSTER: Within.POOL,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """The rows of one cluster.  Depends on the cluster alone."""

    nodes: Nodes
    ready: tuple[int, ...]
    """Devices of each row on which something new may start."""
    up: tuple[int, ...]
    """The same, whether or not their rack has the power for all of them."""
    shut: frozenset[int]
    """Rows on which nothing may start."""
    bits: tuple[int, ...]
    """The devices of each row."""
    row_of: Mapping[tuple[NodeName, DeviceId], int]
    pools: tuple[tuple[str, float, bool], ...]
    """Type, usable memory of a device and whether NVLink joins them, of each pool."""
    rdma_pools: int
    """Pools of racks whose nodes reach each other by RDMA, bit ``i`` for pool ``i``."""
    spans_rdma: bool
    """Those racks reach each other by RDMA too."""

    def held(self, devices: int) -> Held:
        """Return a set of devices as (row, count) pairs, sorted by row."""
        found = []
        for row, bits in enumerate(self.bits):
            here = (devices & bits).bit_count()
            if here:
                found.append((row, here))
        return tuple(found)

    def counts(self, devices: int) -> list[int]:
        """Return how many of ``devices`` each row has."""
        return [(devices & bits).bit_count() for bits in self.bits]

    def devices(self, held: Held, parts: Iterable[int]) -> int | None:
        """Return ``held`` as devices, out of the first part that has some left, then the next.

        None where a row has too few in all of them.
        """
        found = 0
        for row, count in held:
            rest = count
            for part in parts:
                here = part & self.bits[row] & ~found
                got = min(rest, here.bit_count())
                found |= lowest(here, got)
                rest -= got
                if not rest:
                    break
            if rest:
                return None
        return found

    def pools_for(self, request: GpuRequest) -> int:
        """Return the pools that would do, bit ``i`` for pool ``i``."""
        linked = request.interconnect is Interconnect.NVLINK
        linked = (linked or request.within is TopologyDomain.NVLINK) and request.count > 1
        found = 0
        for number, (kind, memory_gib, is_linked) in enumerate(self.pools):
            would_do = not request.types or kind in request.types
            if would_do and memory_gib >= request.min_memory_gib and (is_linked or not linked):
                found |= 1 << number
        return found & self.rdma_pools if request.wants_rdma else found

    def fast_pools(self, request: GpuRequest) -> int:
        """Return the pools with the faster links, where not all that would do have them; else 0."""
        would_do = self.pools_for(request)
        sizes = zip(self.nodes.pool, self.nodes.sizes, strict=True)
        is_wide = all(size < request.count for pool, size in sizes if would_do >> pool & 1)
        fast = self.rdma_pools
        if not is_wide:
            fast = sum(1 << index for index, pool in enumerate(self.pools) if pool[2])
        fast &= would_do
        return fast if request.count > 1 and fast != would_do else 0

    def within(self, request: GpuRequest) -> Within:
        """Return the smallest domain that must hold the whole gang."""
        return _WITHIN[request.domain(spans_rdma=self.spans_rdma)]


def rows_of(where: Layout, grid: Grid) -> Rows:
    """Return the rows of a cluster, in the order of its grid."""
    row_of = dict(grid.row_of)
    bits = [0] * len(grid.size)
    for position, (node, device) in enumerate(where.devices):
        row = grid.only_row.get(node)
        if row is None:
            row = grid.row_of[node, device.id]
        else:
            row_of[node, device.id] = row
        bits[row] |= 1 << position
    kinds = [""] * len(grid.size)
    for name, (low, high) in zip(grid.types, grid.spans, strict=True):
        kinds[low:high] = [name] * (high - low)
    columns = (kinds, grid.memory_gib.tolist(), grid.link.tolist(), grid.rdma.tolist())
    keys = [
        (kind, float(memory_gib), bool(link > 1), has_rdma)
        for kind, memory_gib, link, has_rdma in zip(*columns, strict=True)
    ]
    pools = tuple(sorted(set(keys)))
    number = {key: index for index, key in enumerate(pools)}
    node = grid.node.tolist()
    return Rows(
        nodes=Nodes(
            names=_names(where, node),
            sizes=tuple(grid.whole.tolist()),
            pool=tuple(number[key] for key in keys),
            pools=tuple(_pool_name(*pool) for pool in pools),
            rack=tuple(grid.rack.tolist()),
            node=tuple(node),
            caches=rows_with(where.caches, [where.nodes[position].name for position in node]),
        ),
        ready=tuple(grid.size.tolist()),
        up=tuple(grid.size.tolist()),
        shut=frozenset(row for row, ready in enumerate(grid.size.tolist()) if not ready),
        bits=tuple(bits),
        row_of=row_of,
        pools=tuple(pool[:3] for pool in pools),
        rdma_pools=sum(1 << index for index, pool in enumerate(pools) if pool[3]),
        spans_rdma=grid.spans_rdma,
    )


def _pool_name(kind: str, memory_gib: float, is_linked: bool, has_rdma: bool) -> str:
    links = f"{' nvlink' if is_linked else ''}{' rdma' if has_rdma else ''}"
    return f"{kind} {memory_gib:g} GiB{links}"


def _names(where: Layout, node: list[int]) -> tuple[str, ...]:
    """Return a name for each row: its node's, numbered where a node has several."""
    several = {position for position, rows in Counter(node).items() if rows > 1}
    made: dict[int, int] = {}
    names = []
    for position in node:
        name = where.nodes[position].name
        if position in several:
            made[position] = made.get(position, 0) + 1
            names.append(f"{name}#{made[position]}")
        else:
            names.append(str(name))
    return tuple(names)
