"""How a request may be laid out on the rows of a cluster: the ways of a gang.

A way is ``width`` rows with ``count`` devices of each, all of one type, in one domain.  Equal
shares are what a distributed launch wants; so a gang that no single row holds is spread over the
smallest number of rows that divides it.  Rows of different sizes give a gang several ways.  Where
no equal shares fit a type at all, the gang is laid out loosely: any number of devices of each row.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from reconciler.domain.job import GpuRequest, TopologyDomain
from reconciler.planning.capacity.grid import Grid, Ints


class Domain(Enum):
    """What must hold all rows of a way."""

    ROW = "row"
    NODE = "node"
    RACK = "rack"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Way:
    """One layout of a gang on rows of one type."""

    type: int
    """Position in ``Grid.types``."""
    width: int
    """How many rows; more than one for a loose way, which takes as many as it needs."""
    count: int
    """Devices of each row; of the whole gang in a loose way."""
    domain: Domain
    would_do: NDArray[np.bool_] | None
    """Which rows of the grid satisfy the request; None: all of this type."""
    is_loose: bool = False
    """The gang may take any number of devices of each row, together ``count``."""

    @property
    def devices(self) -> int:
        """How many devices the gang has."""
        return self.count if self.is_loose else self.width * self.count


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gang:
    """A request on one grid.  Equal requests should share one gang: searches remember it."""

    devices: int
    ways: tuple[Way, ...]
    """In order of preference; empty: the gang fits this cluster at no time."""

    @property
    def fits(self) -> bool:
        """True if the gang fits the cluster with nothing running."""
        return bool(self.ways)


class Gangs:
    """The gangs of one grid, each made once."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self._known: dict[GpuRequest, Gang] = {}

    def of(self, request: GpuRequest) -> Gang:
        """Return the gang of ``request``."""
        gang = self._known.get(request)
        if gang is None:
            gang = self._known[request] = gang_of(request, self.grid)
        return gang


def gang_of(request: GpuRequest, grid: Grid) -> Gang:
    """Return the ways ``request`` may be laid out on ``grid``, types in the request's order."""
    wanted = request.types or grid.types
    ways = [
        way
        for name in dict.fromkeys(wanted)
        if name in grid.types
        for way in _ways(request, grid, grid.types.index(name))
    ]
    return Gang(devices=request.count, ways=tuple(ways))


def _ways(request: GpuRequest, grid: Grid, kind: int) -> list[Way]:
    low, high = grid.spans[kind]
    within = request.domain(spans_rdma=grid.spans_rdma)
    here = np.zeros(len(grid.size), bool)
    here[low:high] = grid.size[low:high] > 0
    if request.min_memory_gib > 0:
        here &= grid.memory_gib >= request.min_memory_gib
    if request.wants_rdma:
        here &= grid.rdma
    if within is TopologyDomain.NVLINK:
        here &= grid.link >= request.count
    sizes = np.unique(grid.size[here])[::-1].tolist()
    would_do = None if here[low:high].all() else here
    found = []
    for width, count in dict.fromkeys(split(request.count, size) for size in sizes):
        domain = _domain(within, width)
        if domain is not None and _most_rows(grid, here, count, domain) >= width:
            found.append(Way(type=kind, width=width, count=count, domain=domain, would_do=would_do))
    domain = _domain(within, 2)
    if not found and domain is not None and _most_devices(grid, here, domain) >= request.count:
        found.append(
            Way(
                type=kind,
                width=2,
                count=request.count,
                domain=domain,
                would_do=would_do,
                is_loose=True,
            )
        )
    return found


def split(devices: int, size: int) -> tuple[int, int]:
    """Return (rows, devices of each) for a gang on rows of ``size``: fewest equal shares."""
    width = -(-devices // size)
    while devices % width:
        width += 1
    return width, devices // width


def _domain(within: TopologyDomain, width: int) -> Domain | None:
    if width == 1:
        return Domain.ROW
    return {
        TopologyDomain.NVLINK: None,
        TopologyDomain.NODE: Domain.NODE,
        TopologyDomain.RACK: Domain.RACK,
        TopologyDomain.CLUSTER: Domain.CLUSTER,
    }[within]


def _most_rows(grid: Grid, here: NDArray[np.bool_], count: int, domain: Domain) -> int:
    """Return how many rows of one domain could each give ``count`` devices, all being free."""
    enough = here & (grid.size >= count)
    if domain is Domain.ROW or domain is Domain.CLUSTER:
        return int(np.count_nonzero(enough))
    groups = group_of(grid, domain)[enough]
    return int(np.bincount(groups).max()) if len(groups) else 0


def _most_devices(grid: Grid, here: NDArray[np.bool_], domain: Domain) -> int:
    """Return how many devices one domain has, all being free."""
    if not here.any():
        return 0
    if domain is Domain.CLUSTER:
        return int(grid.size[here].sum())
    return int(np.bincount(group_of(grid, domain)[here], grid.size[here]).max())


def group_of(grid: Grid, domain: Domain) -> Ints:
    """Return the number of each row's node or rack."""
    return grid.node if domain is Domain.NODE else grid.rack
