"""Reservations of a simulated fleet: what is on main, what the planner says of it, when it held.

A window is there once its occurrence is open and nobody else's attempt is left on its devices.  A
refusal was avoidable where enough nodes had neither work that may not be stopped, as far as limits
tell, nor another window, and the team's quota holds its windows together.
"""

from collections.abc import Iterable, Mapping

from reconciler.domain.attempt import Attempt
from reconciler.domain.job import GpuRequest, TopologyDomain
from reconciler.domain.reservation import (
    Occurrence,
    Reservation,
    ReservationPhase,
    ReservationStatus,
)
from reconciler.domain.snapshot import DesiredReservation
from reconciler.domain.status import JobStatus
from reconciler.domain.units import (
    CommitId,
    DeviceId,
    Digest,
    Instant,
    JobId,
    JobName,
    NodeName,
    Seconds,
    TeamName,
)
from reconciler.simulate.calendar import Booked
from reconciler.simulate.outcome import HeldReservation
from reconciler.simulate.paper_fleet import EPOCH, instant, legal_name

RELEASE_S = Seconds(1800)
AROUND_START_S = (-3600, -1800, -1200, -900, *range(-600, 61, 15))
"""When the loop's own timer would look at a window, of all its looks the ones that matter."""


class PaperReservations:
    """Every reservation asked for, and what became of it."""

    def __init__(
        self,
        asked: Iterable[Booked],
        gpus_per_node: int,
        quotas: Mapping[str, int] | None = None,
    ) -> None:
        self.asked = tuple(asked)
        self._quotas = quotas or {}
        self.desired: dict[JobId, DesiredReservation] = {}
        self.statuses: dict[JobId, ReservationStatus] = {}
        self._gpus_per_node = gpus_per_node
        self._by_id = {self._id(each): each for each in self.asked}
        self._ready: dict[JobId, float] = {}
        self._was_possible: dict[JobId, bool] = {}

    @staticmethod
    def _id(booked: Booked) -> JobId:
        return JobId(f"{legal_name(booked.team)}/{legal_name(booked.id)}")

    def looks(self) -> list[tuple[int, int | None]]:
        """Return the instants a loop looks at, with a number where a reservation is asked for."""
        found: list[tuple[int, int | None]] = []
        for number, each in enumerate(self.asked):
            found.append((EPOCH + each.asked_s, number))
            found += [(EPOCH + each.start_s + around, None) for around in AROUND_START_S]
            found += [(EPOCH + each.start_s + RELEASE_S + 15, None), (EPOCH + each.end_s, None)]
        return found

    def ask(self, number: int, commit: CommitId) -> None:
        """Put the ``number``-th reservation on main."""
        booked = self.asked[number]
        held = Reservation(
            team=TeamName(legal_name(booked.team)),
            name=JobName(legal_name(booked.id)),
            gpus=GpuRequest(
                count=booked.nodes * self._gpus_per_node, within=TopologyDomain.CLUSTER
            ),
            occurrences=((instant(booked.start_s), instant(booked.end_s)),),
            release_if_idle_s=None if booked.shows_up else RELEASE_S,
        )
        digest = Digest(f"sha256:{number:064x}")
        self.desired[held.id] = DesiredReservation(
            id=held.id, commit=commit, held=held, spec_digest=digest
        )

    def record(
        self,
        changed: Iterable[ReservationStatus],
        statuses: Mapping[JobId, JobStatus],
        bounds: Mapping[JobId, float],
        nodes: int,
    ) -> None:
        """Keep what was decided; ``bounds`` has when each running job ends at the latest."""
        for status in changed:
            self.statuses[status.reservation] = status
            if status.phase is ReservationPhase.REFUSED:
                busy = self._busy(
                    instant(self._by_id[status.reservation].start_s), statuses, bounds
                )
                self._was_possible[status.reservation] = self._could_be(
                    self._by_id[status.reservation], busy, nodes
                )

    def _could_be(self, booked: Booked, busy: set[NodeName], nodes: int) -> bool:
        """True where enough nodes are neither busy nor kept by windows at the same time, and the
        team's quota holds its windows together."""
        beside = [
            (self._by_id[name], occurrence.devices)
            for name, status in self.statuses.items()
            for occurrence in status.occurrences
            if occurrence.devices is not None
            and occurrence.phase.is_firm
            and occurrence.start < instant(booked.end_s)
            and occurrence.end > instant(booked.start_s)
        ]
        kept = {share.node for _, devices in beside for share in devices.shares}
        own = sum(each.nodes for each, _ in beside if each.team == booked.team)
        asked, limit = (booked.nodes + own) * self._gpus_per_node, self._quotas.get(booked.team)
        is_within = limit is None or asked <= limit
        return is_within and nodes - len(busy | kept) >= booked.nodes

    @staticmethod
    def _busy(
        start: Instant, statuses: Mapping[JobId, JobStatus], bounds: Mapping[JobId, float]
    ) -> set[NodeName]:
        """Return the nodes with work that cannot be stopped and may still be there at ``start``."""
        return {
            share.node
            for job, each in statuses.items()
            if (live := each.live_attempt) is not None
            and not live.preemptible
            and bounds.get(job, start) >= start
            for share in live.allocation.shares
        }

    def watch(self, now: Instant, statuses: Mapping[JobId, JobStatus]) -> None:
        """Notice which open windows are clear of others by ``now``, and drop what is long over."""
        for name, status in list(self.statuses.items()):
            booked = self._by_id[name]
            if now > EPOCH + booked.end_s + 60:
                self.desired.pop(name, None)
                if not status.phase.is_firm:
                    self.statuses.pop(name, None)
            opened = [o for o in status.occurrences if o.phase is ReservationPhase.ACTIVE]
            if name not in self._ready and opened and _is_clear(opened[0], name, statuses):
                self._ready[name] = now - EPOCH

    def outcomes(self) -> tuple[HeldReservation, ...]:
        """Return what came of each."""
        return tuple(
            HeldReservation(
                id=name,
                team=booked.team,
                nodes=booked.nodes,
                start_s=booked.start_s,
                end_s=booked.end_s,
                accepted=name not in self._was_possible,
                was_possible=self._was_possible.get(name, True),
                ready_s=self._ready.get(name),
            )
            for name, booked in sorted(self._by_id.items())
        )


def _is_clear(opened: Occurrence, name: JobId, statuses: Mapping[JobId, JobStatus]) -> bool:
    team = name.partition("/")[0]
    if opened.devices is None:
        return False
    kept = set(opened.devices.devices())
    others = (
        status.live_attempt
        for job, status in statuses.items()
        if status.live_attempt is not None and job.partition("/")[0] != team
    )
    return not any(_is_on(attempt, kept) for attempt in others if attempt is not None)


def _is_on(attempt: Attempt, kept: set[tuple[NodeName, DeviceId]]) -> bool:
    return any(device in kept for device in attempt.allocation.devices())
