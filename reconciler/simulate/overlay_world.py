"""The traced world with what the overlay adds: nodes that die and come back, and reservations."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from typing import Any

from reconciler.domain.attempt import ObservedState
from reconciler.domain.cluster import Allocation, NodeState
from reconciler.domain.plan import Plan
from reconciler.domain.reservation import ReservationPhase
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.status import StatusUpdate
from reconciler.domain.units import AttemptId, JobId
from reconciler.simulate.failures import Failure
from reconciler.simulate.paper_fleet import EPOCH, paper_commit
from reconciler.simulate.paper_reservations import PaperReservations
from reconciler.simulate.trace_world import ENDS, NEARS_LIMIT, TraceWorld

FAILS, REPAIRED, ASKS, LOOKS = 3, 4, 5, 6


class OverlayWorld(TraceWorld):
    """What happens to a fleet besides jobs that come and go."""

    def __init__(
        self,
        *world: Any,
        failures: Sequence[Failure] = (),
        reservations: PaperReservations | None = None,
        **more: Any,
    ) -> None:
        super().__init__(*world, **more)
        self.reservations = reservations
        for each in failures:
            self._plan(EPOCH + each.at_s, FAILS, each.node, "")
            self._plan(EPOCH + each.repaired_s, REPAIRED, each.node, "")
        for at, number in [] if reservations is None else reservations.looks():
            if at >= self.now:
                self._plan(at, LOOKS if number is None else ASKS, number or 0, "")

    def observe(self) -> Snapshot:
        """Return everything there is to know at ``now``, reservations too."""
        snapshot = super().observe()
        if self.reservations is None:
            return snapshot
        self.reservations.watch(self.now, self._statuses)
        return replace(
            snapshot,
            desired=replace(
                snapshot.desired, reservations=dict(sorted(self.reservations.desired.items()))
            ),
            reservations=dict(sorted(self.reservations.statuses.items())),
        )

    def record(self, snapshot: Snapshot, plan: Plan, update: StatusUpdate) -> None:
        """Make the statuses fact, those of reservations too."""
        super().record(snapshot, plan, update)
        if self.reservations is not None:
            bounds = {
                self.specs[run.job].id: run.began_at + (self.specs[run.job].limit_s or 0)
                for run in self._attempts.values()
            }
            changed = update.reservations
            if changed:
                nodes = len(self.cluster.nodes)
                self.reservations.record(changed, self._statuses, bounds, nodes)
            self.reservations.watch(self.now, self._statuses)

    def _happen(self, kind: int, number: int, attempt: AttemptId) -> None:
        if kind == ASKS and self.reservations is not None:
            self._commits += 1
            self.reservations.ask(number, paper_commit(self._commits))
        elif kind in (FAILS, REPAIRED):
            self.set_node(number, NodeState.DOWN if kind == FAILS else NodeState.READY)
        elif kind != LOOKS:
            super()._happen(kind, number, attempt)

    def _is_stale(self, event: tuple[float, int, int, int, str]) -> bool:
        return event[1] in (ENDS, NEARS_LIMIT) and super()._is_stale(event)

    def closed(self) -> set[int]:
        """Return the nodes on which nothing of just anybody may start: down, or in a window."""
        found = {
            at for at, node in enumerate(self.cluster.nodes) if node.state is not NodeState.READY
        }
        for _, devices in self._open_windows():
            found |= {self._node[share.node] for share in devices.shares}
        return found

    def _kept_idle(self, teams: Container[str]) -> int:
        kept = 0
        for name, devices in self._open_windows():
            if name.partition("/")[0] not in teams:
                continue
            idle = set(devices.devices())
            for attempt in self._attempts.values():
                status = self._statuses.get(self.specs[attempt.job].id)
                live = None if status is None else status.live_attempt
                if live is not None and status is not None and status.job.split("/")[0] in teams:
                    idle -= set(live.allocation.devices())
            kept += len(idle)
        return kept

    def _open_windows(self) -> Iterator[tuple[JobId, Allocation]]:
        if self.reservations is None:
            return
        for name, status in self.reservations.statuses.items():
            for occurrence in status.occurrences:
                if occurrence.phase is ReservationPhase.ACTIVE and occurrence.devices is not None:
                    yield name, occurrence.devices

    def set_node(self, number: int, state: NodeState) -> None:
        """Change a node's state; what runs on a node that goes down is lost."""
        name = self.cluster.nodes[number].name
        self.cluster = replace(
            self.cluster,
            nodes=tuple(
                replace(node, state=state) if node.name == name else node
                for node in self.cluster.nodes
            ),
        )
        if state is NodeState.DOWN:
            for run in list(self._attempts.values()):
                if any(node == number for node, _ in run.place):
                    self._lose(run.id, ObservedState.LOST)
