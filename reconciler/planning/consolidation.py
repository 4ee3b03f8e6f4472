"""Should a running gang that is spread move closer together, now that nobody wants the place?

A move is a resize to the same number of devices: a checkpoint, a stop and a new attempt, so it
costs a restart.  What is left at the pace of where it runs, against the same work at the pace of
the closer place.

Rule kept: only into devices that nobody waits for, only where it saves several restarts, and only
to a better placement class; so a gang moves at most twice between two starts that somebody else
decided, and never back.
"""

from dataclasses import dataclass, replace

from reconciler.domain.job import GpuRequest
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import JobId
from reconciler.planning.access import Access
from reconciler.planning.books import Books
from reconciler.planning.desk import Desk
from reconciler.planning.elastic import RAN_S, WORTH_RESTARTS, left_at
from reconciler.planning.giving import Given
from reconciler.planning.placement import place, shape_for
from reconciler.planning.room import Room
from reconciler.planning.shapes import Shapes
from reconciler.planning.spread import Spread

CLOSER = "moves to a place closer together"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidation:
    """Moves spread gangs together once everybody was served."""

    snapshot: Snapshot
    shapes: Shapes
    books: Books
    desk: Desk
    access: Access
    spread: Spread

    def move(self, given: Given, room: Room) -> None:
        """Keep closer places for running gangs that gain by them."""
        for job in sorted(self.desk.running) if self.spread.slowdown else ():
            facts = self.desk.running[job]
            if not given.free or facts.gpus < 2 or not facts.preemptible or job in given.stops:
                continue
            if self.snapshot.now - facts.since >= RAN_S:
                self._move(job, given, room)

    def _move(self, job: JobId, given: Given, room: Room) -> None:
        spec, holding = self.books.standings[job].spec, self.desk.holdings.of[job]
        if spec is None:
            return
        own, gpus = holding.devices, self.desk.running[job].gpus
        request = replace(spec.gpus, count=gpus)
        here = self.spread.factor(request, own)
        if here <= 1.0 or own & self.shapes.where.ready != own:
            return
        restart_s = self.snapshot.policy.preemption.restart_s
        left_s = left_at(self.snapshot, self.books, job, gpus)
        open_to = (given.free | own) & self.access.open_to(job)
        open_to &= room.allowed_bits(spec.team, gpus, leaving=(job,))
        for narrower in self.spread.narrower(request):
            devices = self._place(narrower, job, open_to)
            if devices is None:
                continue
            there = self.spread.factor(request, devices)
            if left_s * (1.0 - there / here) - restart_s >= WORTH_RESTARTS * restart_s:
                room.leave((job,))
                room.keep(spec.team, devices)
                given.stop(job, job, own)
                given.hold(job, devices)
                given.waits_for[job] = (job,)
                return

    def _place(self, request: GpuRequest, job: JobId, free: int) -> int | None:
        spec = self.books.standings[job].spec
        assert spec is not None  # asked only for jobs with one
        return place(
            shape_for(self.shapes.of(request), spec.facts, self.shapes.where),
            free,
            self.shapes.where,
        )
