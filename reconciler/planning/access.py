"""Which devices reservations leave open to whom, as the value order asks it."""

from dataclasses import dataclass

from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import JobId
from reconciler.planning import remaining
from reconciler.planning.books import Books
from reconciler.planning.desk import Desk
from reconciler.planning.giving import Given
from reconciler.planning.placement import fits, place, shape_for
from reconciler.planning.room import Room
from reconciler.planning.shapes import Shapes
from reconciler.planning.topology import Shape
from reconciler.planning.windows import Calendar, reach_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The calendar's answers about one snapshot's jobs."""

    snapshot: Snapshot
    shapes: Shapes
    books: Books
    calendar: Calendar

    def open_to(self, job: JobId) -> int:
        """Return the devices on which reservations let a job start."""
        where, calendar, snapshot = self.shapes.where, self.calendar, self.snapshot
        standing = self.books.standings[job]
        spec, status = standing.spec, standing.status
        if not calendar.windows or spec is None or status is None:
            return (1 << len(where.devices)) - 1
        policy = snapshot.policy
        whole = remaining.total(spec, snapshot.sizes.get(job, ()), policy)
        left = remaining.of_pending(status, spec, whole)
        reach = reach_s(spec, left, ran_s=status.ran_s, policy=policy)
        return calendar.open_to(spec, snapshot.now, reach, where)

    def count_in(self, room: Room, taken: int) -> int:
        """Count open windows as use of their teams; return the devices nobody else may have."""
        closed = 0
        for window in self.calendar.windows:
            if window.is_open:
                room.start(window.team, window.devices & ~taken)
                closed |= window.devices if window.is_exclusive else 0
        return closed

    def enter(self, desk: Desk, asking: set[JobId], given: Given, held: Room) -> set[JobId]:
        """Start jobs inside the open windows that admit them; return those that start.

        The windows count for their team's quota already; in ``held`` they do not, so that a team
        that holds more than its quota beside its window starts nothing more inside.  What the next
        window on the same devices does not admit must be gone by then, inside as anywhere.
        """
        if not any(window.is_open for window in self.calendar.windows):
            return set()
        found: set[JobId] = set()
        facts = desk.waiting
        for job in sorted(asking, key=lambda job: (facts[job].level, facts[job].arrived, job)):
            free = given.free & self.calendar.inside(job, self.snapshot.now)
            free &= self.open_to(job) if free else 0
            devices = place(self._shape(job), free, self.shapes.where) if free else None
            team = job.split("/")[0]
            if devices is not None and held.allows(team, devices):
                held.start(team, devices)
                given.start(job, devices)
                found.add(job)
        return found

    def _shape(self, job: JobId) -> Shape:
        spec = self.books.standings[job].spec
        assert spec is not None  # it wants devices
        return shape_for(self.shapes.of(spec.gpus), spec.facts, self.shapes.where)

    def is_all_that_bars(self, job: JobId, desk: Desk, given: Given, room: Room) -> bool:
        """True where only reservations keep a job from what is free."""
        if not self.calendar.windows:
            return False
        team, request = desk.kinds[job]
        shape, where = self.shapes.of(request), self.shapes.where
        free = given.free & room.allowed_bits(team, request.count)
        return fits(shape, free, where) and not fits(shape, free & self.open_to(job), where)
