"""The state of one planning pass: who holds or is promised which devices, until when.

A board is built from the attempts that hold devices and from what higher ranks were promised
before.  It is mutable, local to one pure planning call, and cheap to build again when a holder is
asked to leave earlier than expected.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from reconciler.domain.attempt import Attempt
from reconciler.domain.job import JobSpec
from reconciler.domain.team import Team
from reconciler.domain.units import Instant, JobId, Seconds, TeamName
from reconciler.planning.occupancy import Timeline
from reconciler.planning.placement import place
from reconciler.planning.priority import RankKey
from reconciler.planning.quota import TeamUse
from reconciler.planning.remaining import Moment, Span
from reconciler.planning.topology import Layout, Shape
from reconciler.planning.windows import NO_CALENDAR, Calendar


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """Devices of one job in [start, end): held by an attempt, kept for it, or promised."""

    job: JobId
    team: TeamName
    devices: int
    start: Instant
    end: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A live attempt: what it holds and when it is expected to be gone."""

    job: JobId
    team: TeamName
    attempt: Attempt
    devices: int
    until: Moment
    comes_back: bool = False
    """True for a stopping attempt whose job will want devices again."""
    victim: "Victim | None" = None
    """What stopping it would mean; None: it may not be stopped for another job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """What a preemption of one running attempt costs, and whom it may serve."""

    spec: JobSpec
    key: RankKey
    cost: int
    """GPU-seconds lost: work since the last durable checkpoint plus the restart."""
    leaves_in_s: Seconds
    """Expected time to its next checkpoint and exit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Devices kept for a contender while its victims stop."""

    devices: int
    victims: tuple[JobId, ...]
    """Victims that have not left yet, sorted; empty: the devices are free."""
    until: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A job that wants devices: pending, or about to leave its own and to come back."""

    spec: JobSpec
    shape: Shape
    key: RankKey
    left: Span
    not_before: Instant
    can_start: bool = True
    """False: something else is decided about it in this cycle; it only keeps its place."""
    after: tuple[JobId, ...] = ()
    """Unfinished dependencies: it starts when the last one is expected to end."""
    hold: Hold | None = None
    reach_s: Seconds = Seconds(0)
    """How long after a start its devices may have to be left to it (``windows.reach_s``)."""

    @property
    def job(self) -> JobId:
        return self.spec.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where and when one contender is planned to run."""

    devices: int
    start: Instant
    end: Instant
    rests_on: tuple[JobId, ...] = ()


class Board:
    """Bookings with the timeline and the team use they add up to."""

    def __init__(
        self,
        now: Instant,
        where: Layout,
        teams: Mapping[TeamName, Team],
        bookings: Iterable[Booking] = (),
        calendar: Calendar = NO_CALENDAR,
        last: int = 0,
    ) -> None:
        self.now = now
        self.where = where
        self.teams = teams
        self.bookings: list[Booking] = []
        self.timeline = Timeline(now, where.ready, last)
        self.use = TeamUse(teams, where)
        self._really = TeamUse(teams, where)
        """What teams hold, whatever windows keep for them; counted where there are windows."""
        self.calendar = calendar
        for window in calendar.windows:
            since = max(now, window.start)
            self.timeline.mark(since)
            self.timeline.mark(window.end)
            self.use.add(window.reservation, window.team, window.devices, since, window.end)
        for booking in bookings:
            self.book(booking)

    def book(self, booking: Booking) -> None:
        """Take the booking's devices out of what is free."""
        self.bookings.append(booking)
        self.timeline.occupy(booking.devices, booking.start, booking.end)
        if self.calendar.windows:
            held = booking.devices, booking.start, booking.end
            self._really.add(booking.job, booking.team, *held)
        devices = booking.devices
        for window in self.calendar.windows:
            inside = devices & window.devices
            if inside and window.team == booking.team and window.start <= booking.start:
                devices &= ~inside  # counted with the window, until its end
                self.use.add(booking.job, booking.team, inside, window.end, booking.end)
        self.use.add(booking.job, booking.team, devices, booking.start, booking.end)

    def leaving(self, until: Mapping[JobId, Instant]) -> "Board":
        """Return a board on which the present bookings of these jobs end at the given instants."""
        return Board(
            self.now,
            self.where,
            self.teams,
            (
                replace(b, end=min(b.end, until[b.job])) if b.job in until else b
                for b in self.bookings
            ),
            self.calendar,
            self.timeline.last,
        )

    def without(self, job: JobId) -> "Board":
        """Return a board without the bookings of ``job``."""
        rest = (b for b in self.bookings if b.job != job)
        last = self.timeline.last
        return Board(self.now, self.where, self.teams, rest, self.calendar, last)

    def find(
        self, contender: Contender, *, not_before: Instant, duration_s: Seconds
    ) -> Place | None:
        """Return the contender's earliest place under everything booked, quota and windows
        included; in a window that is open to it first."""
        inside = self._inside(contender, not_before, duration_s)
        if inside is not None:
            return inside
        team, bounded = contender.spec.team, self.use.is_bounded(contender.spec.team)
        allowed = None
        if bounded or self.calendar.windows:

            def allowed(start: Instant, end: Instant) -> int:
                open_to = ~self.closed_to(contender, start)
                if not bounded:
                    return open_to
                return open_to & self.use.allowed(team, contender.shape.count, start, end)

        found = self.timeline.earliest(
            contender.shape,
            self.where,
            duration_s=duration_s,
            not_before=not_before,
            allowed=allowed,
        )
        if found is None:
            return None
        start, devices = found
        return Place(
            devices=devices,
            start=start,
            end=Instant(start + duration_s),
            rests_on=self._rests_on(contender, devices, start),
        )

    def closed_to(self, contender: Contender, start: Instant) -> int:
        """Return the devices that windows keep from the contender if it starts at ``start``."""
        return self.calendar.closed_to(
            contender.job,
            is_preemptible=contender.spec.preemptible,
            start=start,
            until=start + max(contender.reach_s, 1),
        )

    def _inside(self, contender: Contender, start: Instant, duration_s: Seconds) -> Place | None:
        """Return a place in the open windows that admit the contender, where it fits at once."""
        devices = self.calendar.inside(contender.job, start)
        if not devices:
            return None
        end = Instant(start + duration_s)
        free = devices & self.timeline.free_between(start, end) & ~self.closed_to(contender, start)
        team = contender.spec.team
        if self._really.is_bounded(team):  # it may hold more than its quota beside the window
            free &= self._really.allowed(team, contender.shape.count, start, end)
        found = place(contender.shape, free, self.where)
        return None if found is None else Place(devices=found, start=start, end=end)

    def _rests_on(self, contender: Contender, devices: int, start: Instant) -> tuple[JobId, ...]:
        """Return whose end the start waits for: on these devices, or else in the team's quota."""
        if start <= self.now:
            return ()
        ending = [b for b in self.bookings if b.end == start and b.job != contender.job]
        own = {b.job for b in ending if b.devices & devices}
        if not own:
            own = {b.job for b in ending if b.team == contender.spec.team}
        return tuple(sorted(own))
