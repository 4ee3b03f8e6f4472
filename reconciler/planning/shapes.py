"""Which devices would do for a request: asked once a request and cluster.

What is known depends on its key alone: the bits of a cluster, and which of them satisfy a request.
A cluster that differs in anything is looked at afresh.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from reconciler.domain.cluster import Cluster
from reconciler.domain.job import GpuRequest
from reconciler.planning.capacity.gang import Gangs
from reconciler.planning.capacity.grid import Grid, grid_of
from reconciler.planning.placement import fits_empty
from reconciler.planning.rows import Rows, rows_of
from reconciler.planning.topology import Layout, Shape, layout, powered, shape

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
    limited: "Limited | None" = None
    """The same under the power of racks, as it was last shared out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limited:
    """One cluster while some of its devices have to stay idle for want of power."""

    where: Layout
    grid: Grid
    rows: Rows
    gangs: Gangs
    """The ways a request may be laid out over time (``Layout.ahead``)."""


class Shapes:
    """Requests resolved on one cluster during one planning call, starting from what is known."""

    def __init__(self, cluster: Cluster, known: Known | None) -> None:
        if known is None or known.cluster != cluster:
            known = Known(cluster=cluster, where=layout(cluster))
        self._cluster = cluster
        self._known = known.shapes
        self._used: dict[GpuRequest, tuple[Shape, bool]] = {}
        self.where = self._whole = known.where
        self._grid = known.grid
        self._rows = known.rows
        self._gangs = known.gangs
        self._last = known.limited
        self._limited: Limited | None = None

    def of(self, request: GpuRequest) -> Shape:
        """Return which devices would do for ``request``."""
        return self._resolved(request)[0]

    def can_ever_fit(self, request: GpuRequest) -> bool:
        """True if the request fits the declared cluster with nothing running."""
        return self._resolved(request)[1]

    def share_power(self, in_use: int, booked: int) -> None:
        """Leave out of what may start the free devices that the racks have no power for.

        ``in_use`` are held, or kept for somebody; ``booked`` are promised to reservations.
        """
        whole = self._whole
        if not whole.caps:
            return
        first = whole.ahead
        ready = whole.up & powered(whole.caps, whole.nodes, whole.up, in_use, booked, first)
        self._limited = self._last
        if self._last is None or self._last.where.ready != ready:
            where = replace(whole, ready=ready)
            rows = self._all_rows()
            counts = rows.counts(ready)
            grid = replace(self._all(), size=np.array(counts, np.int64))
            limited_rows = replace(
                rows,
                ready=tuple(counts),
                shut=frozenset(row for row, count in enumerate(counts) if not count),
            )
            ahead = replace(grid, size=np.array(rows.counts(whole.ahead), np.int64))
            self._limited = Limited(where=where, grid=grid, rows=limited_rows, gangs=Gangs(ahead))
        assert self._limited is not None  # made above
        self.where = self._limited.where

    @property
    def grid(self) -> Grid:
        """The cluster as rows of interchangeable devices."""
        return self._all() if self._limited is None else self._limited.grid

    @property
    def rows(self) -> Rows:
        """The rows with their bits."""
        return self._all_rows() if self._limited is None else self._limited.rows

    @property
    def gangs(self) -> Gangs:
        """The ways each request may be laid out on the rows."""
        if self._limited is not None:
            return self._limited.gangs
        if self._gangs is None:
            self._gangs = Gangs(self._all())
        return self._gangs

    def _all(self) -> Grid:
        if self._grid is None:
            self._grid = grid_of(self._whole)
        return self._grid

    def _all_rows(self) -> Rows:
        if self._rows is None:
            self._rows = rows_of(self._whole, self._all())
        return self._rows

    def _resolved(self, request: GpuRequest) -> tuple[Shape, bool]:
        known = self._used.get(request) or self._known.get(request)
        if known is None:
            resolved = shape(request, self._whole)
            known = (resolved, fits_empty(resolved, self._whole))
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
            where=self._whole,
            shapes=shapes,
            grid=self._grid,
            rows=self._rows,
            gangs=self._gangs,
            limited=self._limited,
        )
