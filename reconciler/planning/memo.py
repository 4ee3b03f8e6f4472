"""Saves work between cycles, and never anything else.

What is kept depends on its key alone: the bits of a cluster, and which of them satisfy a request.
A cluster that differs in anything gets a memo of its own, so any memo gives the same plan as none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.domain.cluster import Cluster
from reconciler.domain.job import GpuRequest
from reconciler.planning.placement import fits_empty
from reconciler.planning.topology import Layout, Shape, layout, shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Memo:
    """What one planning call learned about one cluster."""

    cluster: Cluster
    where: Layout
    shapes: Mapping[GpuRequest, tuple[Shape, bool]] = field(default_factory=dict)
    """Request to its shape and whether it fits the cluster with nothing running."""


class Shapes:
    """Requests resolved on one cluster during one planning call, starting from a memo."""

    def __init__(self, cluster: Cluster, memo: Memo | None) -> None:
        if memo is None or memo.cluster != cluster:
            memo = Memo(cluster=cluster, where=layout(cluster))
        self._cluster = cluster
        self._known = dict(memo.shapes)
        self._used: dict[GpuRequest, tuple[Shape, bool]] = {}
        self.where = memo.where

    def of(self, request: GpuRequest) -> Shape:
        """Return which devices would do for ``request``."""
        return self._resolved(request)[0]

    def can_ever_fit(self, request: GpuRequest) -> bool:
        """True if the request fits the declared cluster with nothing running."""
        return self._resolved(request)[1]

    def _resolved(self, request: GpuRequest) -> tuple[Shape, bool]:
        known = self._used.get(request) or self._known.get(request)
        if known is None:
            resolved = shape(request, self.where)
            known = (resolved, fits_empty(resolved, self.where))
        self._used[request] = known
        return known

    def memo(self) -> Memo:
        """Return what to pass to the next call; requests nobody makes any more are dropped."""
        return Memo(cluster=self._cluster, where=self.where, shapes=self._used)
