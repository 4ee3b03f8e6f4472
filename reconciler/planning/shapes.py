"""Which devices would do for a request: asked once a request and cluster.

What is known depends on its key alone: the bits of a cluster, and which of them satisfy a request.
A cluster that differs in anything is looked at afresh.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.domain.cluster import Cluster
from reconciler.domain.job import GpuRequest
from reconciler.planning.capacity.gang import Gangs
from reconciler.planning.capacity.grid import Grid, grid_of
from reconciler.planning.placement import fits_empty
from reconciler.planning.rows import Rows, rows_of
from reconciler.planning.topology import Layout, Shape, layout, shape

FORGET_OVER = 1_000
"""More requests than this are not kept: only those of the last call are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What one planning call learned about one cluster."""

    cluster: Cluster
    where: Layout
    shapes: Mapping[GpuRequest, tuple[Shape, bool]] = field(default_factory=dict)
    """Request to its shape and whether it fits the cluster with nothing running."""
    grid: Grid | None = None
    """Its rows, once somebody asked for them."""
    rows: Rows | None = None
    gangs: Gangs | None = None


class Shapes:
    """Requests resolved on one cluster during one planning call, starting from what is known."""

    def __init__(self, cluster: Cluster, known: Known | None) -> None:
        if known is None or known.cluster != cluster:
            known = Known(cluster=cluster, where=layout(cluster))
        self._cluster = cluster
        self._known = known.shapes
        self._used: dict[GpuRequest, tuple[Shape, bool]] = {}
        self.where = known.where
        self._grid = known.grid
        self._rows = known.rows
        self._gangs = known.gangs

    def of(self, request: GpuRequest) -> Shape:
        """Return which devices would do for ``request``."""
        return self._resolved(request)[0]

    def can_ever_fit(self, request: GpuRequest) -> bool:
        """True if the request fits the declared cluster with nothing running."""
        return self._resolved(request)[1]

    @property
    def grid(self) -> Grid:
        """The cluster as rows of interchangeable devices."""
        if self._grid is None:
            self._grid = grid_of(self.where)
        return self._grid

    @property
    def rows(self) -> Rows:
        """The rows with their bits."""
        if self._rows is None:
            self._rows = rows_of(self.where, self.grid)
        return self._rows

    @property
    def gangs(self) -> Gangs:
        """The ways each request may be laid out on the rows."""
        if self._gangs is None:
            self._gangs = Gangs(self.grid)
        return self._gangs

    def _resolved(self, request: GpuRequest) -> tuple[Shape, bool]:
        known = self._used.get(request) or self._known.get(request)
        if known is None:
            resolved = shape(request, self.where)
            known = (resolved, fits_empty(resolved, self.where))
        self._used[request] = known
        return known

    def known(self) -> Known:
        """Return what to start the next call from."""
        shapes = self._known
        if self._used.keys() - shapes.keys():
            shapes = {**shapes, **self._used}
        if len(shapes) > FORGET_OVER:
            shapes = self._used
        return Known(
            cluster=self._cluster,
            where=self.where,
            shapes=shapes,
            grid=self._grid,
            rows=self._rows,
            gangs=self._gangs,
        )
