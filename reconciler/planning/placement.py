"""Where a gang goes: all of it in one place that leaves the fewest fragments, or nowhere.

A gang's devices are of one type and inside one domain (NVLink island, node, rack, cluster).
Among the places that fit, the order is: fewest nodes, fewest racks, fewest islands, least left
over beside it (best fit), most of the job's model and data there already (``Shape.near``), the
request's order of types, the node's name.  A gang over long sequences looks first among devices
with the faster links (NVLink in a node, RDMA over several).  Gangs over several nodes use equal
counts per node where that costs no more than twice the fewest nodes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import TypeAlias

from reconciler.domain.job import TopologyDomain, WorkloadFacts
from reconciler.planning.caches import nearest_first
from reconciler.planning.topology import Layout, NodeBits, Shape, lowest, positions

Cost: TypeAlias = tuple[int, ...]

FEW = 16
"""So few devices are sooner counted one by one than node by node."""


def shape_for(shape: Shape, facts: WorkloadFacts, where: Layout) -> Shape:
    """Return the shape of a job that reads this: it is placed near what nodes have of it, and over
    long sequences where the links are fast."""
    fast = _fast(shape, where) if facts.is_long else 0
    near = where.caches.near(facts.model, facts.data) if where.caches else None
    return replace(shape, near=near or {}, fast=fast) if near or fast else shape


def _fast(shape: Shape, where: Layout) -> int:
    """Return the devices with the faster links, where not all that would do have them."""
    would_do = reduce(or_, (fitting for _, fitting in shape.per_type), 0)
    is_wide = all((node.all & would_do).bit_count() < shape.count for node in where.nodes)
    fast = would_do & (where.rdma if is_wide else where.linked)
    return fast if shape.count > 1 and fast != would_do else 0


def place(shape: Shape, free: int, where: Layout) -> int | None:
    """Return the devices of ``free`` the gang gets, or None if it does not fit."""
    if shape.fast:
        found = _place(shape, free & shape.fast, where)
        if found is not None:
            return found
    return _place(shape, free, where)


def _place(shape: Shape, free: int, where: Layout) -> int | None:
    best: tuple[Cost, int] | None = None
    for order, (_, fitting) in enumerate(shape.per_type):
        usable = free & fitting
        if usable.bit_count() < shape.count:
            continue
        for cost, devices in _places(shape, usable, where):
            ranked = ((*cost[:-1], order, cost[-1]), devices)
            if best is None or ranked < best:
                best = ranked
    return None if best is None else best[1]


def fits(shape: Shape, free: int, where: Layout) -> bool:
    """True where :func:`place` finds a place; cheaper."""
    for _, fitting in shape.per_type:
        usable = free & fitting
        if usable.bit_count() < shape.count:
            continue
        if shape.within is TopologyDomain.CLUSTER:
            return True
        if shape.within is TopologyDomain.NODE and usable.bit_count() <= FEW:
            names = [where.devices[position][0] for position in positions(usable)]
            if max(map(names.count, names), default=0) >= shape.count:
                return True
            continue
        if any((usable & domain).bit_count() >= shape.count for domain in _domains(shape, where)):
            return True
    return False


def fits_empty(shape: Shape, where: Layout) -> bool:
    """True if the gang fits the declared cluster with nothing running and every node ready."""
    return fits(shape, where.most, where)


def _domains(shape: Shape, where: Layout) -> Iterator[int]:
    if shape.within is TopologyDomain.NVLINK:
        for node in where.nodes:
            yield from node.islands
    elif shape.within is TopologyDomain.NODE:
        for node in where.nodes:
            yield node.all
    else:
        for rack in where.racks:
            yield sum(where.nodes[position].all for position in rack)


def _places(shape: Shape, usable: int, where: Layout) -> Iterator[tuple[Cost, int]]:
    """Yield (cost, devices) for the best place of each node, rack and the whole cluster."""
    one_node = False
    for position, node in enumerate(where.nodes):
        found = _in_node(shape, usable & node.all, node)
        if found is not None:
            one_node = True
            islands, beside, left, devices = found
            far = -shape.near.get(node.name, 0) if shape.near else 0
            yield (1, 1, islands, beside, left, far, position), devices
    if one_node or shape.within in (TopologyDomain.NVLINK, TopologyDomain.NODE):
        return
    one_rack = False
    for rack in where.racks:
        here = _near_first([where.nodes[p] for p in rack], shape, usable)
        found_many = _over_nodes(shape.count, usable, here)
        if found_many is not None:
            one_rack = True
            nodes, left, devices = found_many
            yield (nodes, 1, 0, 0, left, _far(devices, here, shape), rack[0]), devices
    if one_rack or shape.within is TopologyDomain.RACK:
        return
    by_rack = sorted(
        where.racks,
        key=lambda rack: (-sum((usable & where.nodes[p].all).bit_count() for p in rack), rack),
    )
    in_order = [
        node
        for rack in _racks_near_first(by_rack, shape, usable, where)
        for node in _near_first([where.nodes[position] for position in rack], shape, usable)
    ]
    found_many = _over_nodes(shape.count, usable, in_order, tightest=False)
    if found_many is not None:
        nodes, left, devices = found_many
        yield (nodes, len(where.racks), 0, 0, left, 0, 0), devices  # nearest within its type


def _near_first(nodes: Sequence[NodeBits], shape: Shape, usable: int) -> Sequence[NodeBits]:
    """Return nodes in their order, but of those with as much free the nearest first."""
    near = shape.near
    if not near:
        return nodes
    alike = [(usable & node.all).bit_count() for node in nodes]
    return nearest_first(nodes, alike, [near.get(node.name, 0) for node in nodes])


def _racks_near_first(
    racks: Sequence[Sequence[int]], shape: Shape, usable: int, where: Layout
) -> Sequence[Sequence[int]]:
    """Return racks in their order, but of those alike node by node the nearest first."""
    near, nodes = shape.near, where.nodes
    if not near:
        return racks
    alike = [tuple((usable & nodes[p].all).bit_count() for p in rack) for rack in racks]
    worth = [
        sum(near.get(nodes[p].name, 0) for p in rack if usable & nodes[p].all) for rack in racks
    ]
    return nearest_first(racks, alike, worth)


def _far(devices: int, nodes: Iterable[NodeBits], shape: Shape) -> int:
    """Return how little the nodes of a place are worth to the job together."""
    near = shape.near
    return -sum(near.get(node.name, 0) for node in nodes if node.all & devices) if near else 0


def _in_node(shape: Shape, usable: int, node: NodeBits) -> tuple[int, int, int, int] | None:
    """Return (islands used, devices left beside it in them, left on the node, devices)."""
    left = usable.bit_count() - shape.count
    if left < 0:
        return None
    parts = [(usable & island) for island in node.islands]
    holding = [part for part in parts if part.bit_count() >= shape.count]
    if holding:
        part = min(holding, key=lambda part: (part.bit_count(), part))
        return 1, part.bit_count() - shape.count, left, lowest(part, shape.count)
    if shape.within is TopologyDomain.NVLINK:
        return None
    return _over_islands(shape.count, parts, left)


def _over_islands(count: int, parts: Sequence[int], left: int) -> tuple[int, int, int, int]:
    """Fill the fullest islands first, the last one by best fit."""
    rest = sorted((part for part in parts if part), key=lambda part: (-part.bit_count(), part))
    taken, islands = 0, 0
    while count:
        enough = [part for part in rest if part.bit_count() >= count]
        part = min(enough, key=lambda part: (part.bit_count(), part)) if enough else rest[0]
        got = min(count, part.bit_count())
        beside = part.bit_count() - got
        taken |= lowest(part, got)
        count -= got
        islands += 1
        rest.remove(part)
    return islands, beside, left, taken


def _over_nodes(
    count: int, usable: int, nodes: Sequence[NodeBits], *, tightest: bool = True
) -> tuple[int, int, int] | None:
    """Return (nodes used, devices left on them, devices) for a gang over several nodes.

    Not ``tightest``: take nodes in the order given, which keeps racks together.
    """
    free = [(node, usable & node.all) for node in nodes if usable & node.all]
    if sum(part.bit_count() for _, part in free) < count:
        return None
    most_first = sorted(range(len(free)), key=lambda i: (-free[i][1].bit_count(), i))
    fewest, reached = 0, 0
    while reached < count:
        reached += free[most_first[fewest]][1].bit_count()
        fewest += 1
    for width in range(fewest, min(2 * fewest, len(free)) + 1):
        if count % width == 0:
            each = count // width
            enough = [i for i in range(len(free)) if free[i][1].bit_count() >= each]
            if len(enough) >= width:
                if tightest:
                    enough.sort(key=lambda i: (free[i][1].bit_count(), i))
                return _taken(free, [(i, each) for i in enough[:width]])
    shares, rest = [], count
    for i in most_first[:fewest]:
        got = min(rest, free[i][1].bit_count())
        shares.append((i, got))
        rest -= got
    return _taken(free, shares)


def _taken(
    free: Sequence[tuple[NodeBits, int]], shares: Sequence[tuple[int, int]]
) -> tuple[int, int, int]:
    devices, left = 0, 0
    for i, got in shares:
        node, part = free[i]
        islands = [part & island for island in node.islands]
        devices |= _over_islands(got, islands, 0)[3]
        left += part.bit_count() - got
    return len(shares), left, devices
