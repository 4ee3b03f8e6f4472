"""Other sizes of elastic jobs: smaller to start or to make room, larger to be done sooner.

Which sizes are legal is in the snapshot: they divide what must be divided, keep the global batch
and fit the memory.  A resize is a stop and a new attempt, so it costs a restart.

Rule kept: a smaller size is taken only where it is expected to end the job sooner than waiting for
the size it asked for, and a larger one only where the gain is worth several restarts.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from reconciler.domain.job import JobSpec
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import JobId
from reconciler.planning import remaining
from reconciler.planning.access import Access
from reconciler.planning.books import Books
from reconciler.planning.desk import Desk
from reconciler.planning.giving import Given
from reconciler.planning.placement import place, shape_for
from reconciler.planning.room import Room
from reconciler.planning.shapes import Shapes
from reconciler.planning.topology import Shape

WORTH_RESTARTS = 4
"""A job grows where that saves at least this many restarts of its time."""
RAN_S = 600
"""An attempt younger than this is not resized."""


def legal_sizes(snapshot: Snapshot, spec: JobSpec) -> tuple[int, ...]:
    """Return the gang sizes a job may run at, largest first; only what it asks for if rigid."""
    if spec.elastic is None:
        return (spec.gpus.count,)
    low, high = spec.elastic.min_gpus, spec.elastic.max_gpus
    sizes = {
        size.gpus
        for size in snapshot.sizes.get(spec.id, ())
        if low <= size.gpus <= high
        and (spec.limit_s is None or size.duration_p50_s <= spec.limit_s)
    }
    return tuple(sorted({*sizes, spec.gpus.count}, reverse=True))


def left_at(snapshot: Snapshot, books: Books, job: JobId, gpus: int) -> int:
    """Return the seconds a job has left if it runs on ``gpus``."""
    standing = books.standings[job]
    status, spec = standing.status, standing.spec
    assert status is not None and spec is not None  # asked only for jobs with both
    sizes = snapshot.sizes.get(job, ())
    whole = remaining.total(spec, sizes, snapshot.policy, gpus=gpus)
    live = standing.live
    if live is None:
        return remaining.of_pending(status, spec, whole).p50
    full = remaining.total(spec, sizes, snapshot.policy, gpus=live.gpus)
    left = remaining.of_live(status, live, standing.observed, full, now=snapshot.now)
    return int(left.p50 * whole.p50 / full.p50)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elastic:
    """Gives other sizes once everybody was served at the size asked for."""

    snapshot: Snapshot
    shapes: Shapes
    books: Books
    desk: Desk
    access: Access

    def start_smaller(self, jobs: Iterable[JobId], given: Given, room: Room) -> None:
        """Start elastic jobs that got nothing on what is left, where they are done sooner so."""
        for job in jobs:
            spec = self.books.standings[job].spec
            if spec is None or spec.elastic is None or not given.free:
                continue
            for gpus in legal_sizes(self.snapshot, spec):
                if gpus < spec.gpus.count and self._try(job, spec, gpus, given, room):
                    break

    def _try(self, job: JobId, spec: JobSpec, gpus: int, given: Given, room: Room) -> bool:
        shape = self._shape(spec, gpus)
        free = given.free & self.access.open_to(job) & room.allowed_bits(spec.team, gpus)
        devices = place(shape, free, self.shapes.where)
        if devices is None or not self._ends_sooner(job, spec, gpus, given):
            return False
        room.start(spec.team, devices)
        given.start(job, devices)
        return True

    def _shape(self, spec: JobSpec, gpus: int) -> Shape:
        request = replace(spec.gpus, count=gpus)
        return shape_for(self.shapes.of(request), spec.facts, self.shapes.where)

    def _ends_sooner(self, job: JobId, spec: JobSpec, gpus: int, given: Given) -> bool:
        """True if it ends before it could with what it asks for, were it next in line."""
        now, where = self.snapshot.now, self.shapes.where
        shape = self.shapes.of(spec.gpus)
        free = given.free & self.access.open_to(job)
        ends = sorted(
            (now + left_at(self.snapshot, self.books, other, held.gpus), other)
            for other, held in self.desk.running.items()
            if other not in given.stops and self.books.standings[other].spec is not None
        )
        for end, other in ends:
            free |= self.desk.holdings.of[other].devices & where.ready
            if place(shape, free, where) is not None:
                wait_s = end - now
                break
        else:
            return True
        full = left_at(self.snapshot, self.books, job, spec.gpus.count)
        return left_at(self.snapshot, self.books, job, gpus) < wait_s + full

    def shrink(self, victim: JobId, given: Given, room: Room) -> bool:
        """Keep for a victim what of its own devices nobody needs, if it may run on so few."""
        spec, held = self.books.standings[victim].spec, self.desk.holdings.of[victim]
        if spec is None or spec.elastic is None:
            return False
        left_over = held.devices & given.freeing
        for gpus in legal_sizes(self.snapshot, spec):
            if gpus < held.devices.bit_count() and gpus <= left_over.bit_count():
                shape = self.shapes.of(replace(spec.gpus, count=gpus))
                devices = place(shape, left_over, self.shapes.where)
                if devices is not None and room.allows(spec.team, devices, later=True):
                    room.keep(spec.team, devices)
                    given.hold(victim, devices)
                    given.waits_for[victim] = (victim,)
                    return True
        return False

    def grow(self, given: Given, room: Room) -> None:
        """Let running jobs have what nobody wants, where they are done much sooner so."""
        restart_s = self.snapshot.policy.preemption.restart_s
        for job in sorted(self.desk.running):
            facts, standing = self.desk.running[job], self.books.standings[job]
            spec, own = standing.spec, self.desk.holdings.of[job].devices
            if spec is None or spec.elastic is None or not facts.preemptible or not given.free:
                continue
            if job in given.stops or self.snapshot.now - facts.since < RAN_S:
                continue
            here = left_at(self.snapshot, self.books, job, facts.gpus)
            for gpus in legal_sizes(self.snapshot, spec):
                gain_s = here - left_at(self.snapshot, self.books, job, gpus) - restart_s
                if gpus <= facts.gpus or gain_s < WORTH_RESTARTS * restart_s:
                    continue
                allowed = room.allowed_bits(spec.team, gpus, leaving=(job,))
                free = (given.free | own & self.shapes.where.ready) & self.access.open_to(job)
                devices = place(self._shape(spec, gpus), free & allowed, self.shapes.where)
                if devices is not None:
                    room.leave((job,))
                    room.keep(spec.team, devices)
                    given.stop(job, job, own & self.shapes.where.ready)
                    given.hold(job, devices)
                    given.waits_for[job] = (job,)
                    break
