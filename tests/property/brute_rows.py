"""The plan of everybody again, in the plainest way: for tiny clusters only.

A row is the devices of one type on one node, or of one NVLink island where a node has several.
Every instant at which anything ends is tried as a start, every domain as a place.  Nothing is
shared with the planner but the values.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from reconciler.domain.cluster import Cluster, Node, NodeState
from reconciler.domain.job import GpuRequest, Interconnect, TopologyDomain


@dataclass(frozen=True)
class Row:
    type: str
    rack: str
    node: str
    size: int
    memory_gib: float
    link: int
    has_rdma: bool


@dataclass
class Book:
    """Who has how many devices of which row, and how many of the team's, in [start, end)."""

    rows: Sequence[Row]
    taken: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(row, count, start, end)"""
    used: list[tuple[str, str, int, int, int]] = field(default_factory=list)
    """(team, type, count, start, end)"""
    watts_a_rack: int | None = None
    watts: dict[str, int] = field(default_factory=dict)
    """What a device of each type draws in use."""

    def free(self, row: int, start: int, end: int) -> int:
        """Return what is free of a row during all of [start, end)."""
        held = [(c, s, e) for r, c, s, e in self.taken if r == row and s < end and e > start]
        return self.rows[row].size - _peak(held, start)

    def watts_free(self, rack: str, start: int, end: int) -> int:
        """Return the watts free in a rack during all of [start, end)."""
        if self.watts_a_rack is None:
            return 1 << 40
        drawn = [
            (c * self.watts[self.rows[r].type], s, e)
            for r, c, s, e in self.taken
            if self.rows[r].rack == rack and s < end and e > start
        ]
        return self.watts_a_rack - _peak(drawn, start)

    def use(self, team: str, kind: str | None, start: int, end: int) -> int:
        """Return the most a team has of a type (None: of all) at once in [start, end)."""
        held = [
            (c, s, e)
            for t, k, c, s, e in self.used
            if t == team and kind in (None, k) and s < end and e > start
        ]
        return _peak(held, start)


def _peak(held: Sequence[tuple[int, int, int]], start: int) -> int:
    instants = [start, *(s for _, s, _ in held if s > start)]
    return max(sum(c for c, s, e in held if s <= t < e) for t in instants)


def rows_of(cluster: Cluster) -> list[Row]:
    """Return the rows of a cluster, in the order the planner numbers them."""
    joined = cluster.rdma_racks
    found = [row for node in cluster.nodes for row in _rows(node, has_rdma=node.rack in joined)]
    racks = sorted({row.rack for row in found})
    return sorted(found, key=lambda row: (row.type, racks.index(row.rack), row.node))


def _rows(node: Node, *, has_rdma: bool) -> Iterator[Row]:
    is_ready = node.state is NodeState.READY
    for kind in sorted({device.type for device in node.devices}):
        devices = [device for device in node.devices if device.type == kind]
        islands = sorted({device.island for device in devices} - {""})
        groups = [[d for d in devices if d.island == name] for name in islands]
        lone = [[d] for d in devices if not d.island]
        has_nvlink = any(len(group) > 1 for group in groups)
        for group in [*groups, *lone] if has_nvlink else [devices]:
            yield Row(
                type=kind,
                rack=node.rack,
                node=node.name,
                size=len(group) if is_ready else 0,
                memory_gib=min(device.memory_gib for device in group),
                link=len(group) if has_nvlink else 1,
                has_rdma=has_rdma,
            )


def places(request: GpuRequest, rows: Sequence[Row]) -> list[tuple[list[int], int, int]]:
    """Return (rows of one domain, rows needed, devices of each) for all ways of a gang.

    No rows needed: any number of devices of each row, together so many.
    """
    found = []
    for kind in sorted({row.type for row in rows}):
        if not request.types or kind in request.types:
            found += _places_of_type(request, rows, kind)
    return found


def _places_of_type(
    request: GpuRequest, rows: Sequence[Row], kind: str
) -> list[tuple[list[int], int, int]]:
    nvlink = TopologyDomain.NVLINK in (request.within, request.interconnect) or (
        request.interconnect is Interconnect.NVLINK
    )
    able = [
        number
        for number, row in enumerate(rows)
        if row.type == kind and row.size and row.memory_gib >= request.min_memory_gib
    ]
    within = request.within
    is_wide = within in (TopologyDomain.RACK, TopologyDomain.CLUSTER)
    if request.interconnect is Interconnect.RDMA and request.count > 1 and is_wide:
        able = [number for number in able if rows[number].has_rdma]
        within = TopologyDomain.RACK
    if nvlink:
        return [
            ([n], 1, request.count)
            for n in able
            if request.count <= min(rows[n].size, rows[n].link)
        ]
    domains = _domains(within, rows, able)
    equal = []
    for size in {rows[number].size for number in able}:
        width = next(
            w
            for w in range(1, request.count + 1)
            if request.count % w == 0 and request.count <= w * size
        )
        each = request.count // width
        for domain in [[n] for n in able] if width == 1 else domains:
            if sum(rows[n].size >= each for n in domain) >= width:
                equal.append((domain, width, each))
    if equal:
        return equal
    return [(d, 0, request.count) for d in domains if sum(rows[n].size for n in d) >= request.count]


def _domains(within: TopologyDomain, rows: Sequence[Row], able: Sequence[int]) -> list[list[int]]:
    def name(row: Row) -> str:
        return {TopologyDomain.NODE: row.node, TopologyDomain.RACK: row.rack}.get(within, "")

    return [[n for n in able if name(rows[n]) == each] for each in {name(rows[n]) for n in able}]


def fits(
    place: tuple[list[int], int, int],
    book: Book,
    start: int,
    end: int,
    team: str,
    quota: dict[str, int],
) -> bool:
    """True if a gang fits a domain, and its team's quota, during all of [start, end)."""
    domain, width, each = place
    free = [book.free(number, start, end) for number in domain]
    devices = each * max(width, 1)
    kind = book.rows[domain[0]].type
    if "*" in quota and book.use(team, None, start, end) + devices > quota["*"]:
        return False
    if kind in quota and book.use(team, kind, start, end) + devices > quota[kind]:
        return False
    units = [int(f >= each) if width else max(f, 0) for f in free]
    share = each if width else 1
    draws = share * book.watts.get(kind, 0)
    found = 0
    for rack in {book.rows[number].rack for number in domain}:
        here = sum(u for u, n in zip(units, domain, strict=True) if book.rows[n].rack == rack)
        powered = max(book.watts_free(rack, start, end), 0) // draws if draws else here
        found += min(here, powered)
    return found >= (width or each)


def earliest(
    request: GpuRequest, book: Book, duration: int, since: int, team: str, quota: dict[str, int]
) -> int | None:
    """Return the first start from ``since`` on; None if there is none ever."""
    ways = places(request, book.rows)
    ends: Iterable[int] = (*(t[3] for t in book.taken), *(u[4] for u in book.used))
    for start in sorted({since, *(end for end in ends if end > since)}):
        if any(fits(way, book, start, start + duration, team, quota) for way in ways):
            return start
    return None
