"""Gives every contender its earliest place, in rank order: a conservative plan over time.

Each place is found under everything that holds devices and everything promised to higher ranks.
So a job that starts now delays no planned start of a job ranked above it, and every pending job
has a planned start.  A contender whose dependency is not planned yet waits for it and is planned
right after it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

from reconciler.domain.units import Instant, JobId, Seconds
from reconciler.planning.board import Board, Booking, Contender, Holder, Place
from reconciler.planning.closer import Closer
from reconciler.planning.preemption import Preemption


@dataclass(slots=True, kw_only=True)
class Schedule:
    """What one pass found; ``board`` has every booking of it."""

    board: Board
    places: dict[JobId, Place] = field(default_factory=dict)
    preemptions: dict[JobId, Preemption] = field(default_factory=dict)
    on_hold: set[JobId] = field(default_factory=set)
    """Contenders whose place is the devices held for them."""
    patience: dict[JobId, Instant] = field(default_factory=dict)
    """Contenders that could start now and hold off for a better place, and until when."""


Preempt = Callable[[Contender, Place | None, Schedule], Preemption | None]
ComeBack = Callable[[Holder, Instant], Contender]


@dataclass(slots=True, kw_only=True)
class Pass:
    """One walk through the contenders, everything taken to last its p50."""

    schedule: Schedule
    ends: dict[JobId, Instant]
    """Expected ends of what dependencies may wait for."""
    preempt: Preempt | None = None
    come_back: ComeBack | None = None
    closer: Closer | None = None

    def walk(self, contenders: Iterable[Contender]) -> Schedule:
        """Place every contender it can, in rank order, and return the schedule."""
        waiting = {contender.job: contender for contender in contenders}
        heap = [(contender.key, contender.job) for contender in waiting.values()]
        heapify(heap)
        parked: dict[JobId, list[Contender]] = {}
        while heap:
            _, job = heappop(heap)
            contender = waiting[job]
            behind = next((d for d in contender.after if d in waiting), None)
            if behind is not None:
                parked.setdefault(behind, []).append(contender)
                continue
            del waiting[job]
            self._place(contender)
            returning = self._returning(contender)
            for other in (*parked.pop(job, ()), *returning):
                waiting[other.job] = other
                heappush(heap, (other.key, other.job))
        return self.schedule

    def keep_holds(self, contenders: Iterable[Contender]) -> list[Contender]:
        """Book the devices held for contenders before anybody is placed; return all contenders.

        A hold that the team's quota has no room for any more is dropped.
        """
        kept = []
        for contender in contenders:
            hold, board = contender.hold, self.schedule.board
            if hold is not None:
                end = Instant(hold.until.p50 + contender.left.p50)
                team = contender.spec.team
                allowed = board.use.allowed(
                    team, contender.shape.count, board.now, end, without=hold.victims
                )
                if hold.devices & (~allowed | board.closed_to(contender, board.now)):
                    contender = replace(contender, hold=None)
                else:
                    board.book(
                        Booking(
                            job=contender.job,
                            team=team,
                            devices=hold.devices,
                            start=board.now,
                            end=end,
                        )
                    )
            kept.append(contender)
        return kept

    def _returning(self, contender: Contender) -> list[Contender]:
        """Return the victims just chosen, as contenders for another place."""
        preemption = self.schedule.preemptions.get(contender.job)
        if preemption is None or self.come_back is None:
            return []
        return [self.come_back(victim, preemption.gone_at) for victim in preemption.victims]

    def _place(self, contender: Contender) -> None:
        if any(dependency not in self.ends for dependency in contender.after):
            return
        latest = max((self.ends[d] for d in contender.after), default=contender.not_before)
        not_before = max(contender.not_before, latest)
        duration_s = contender.left.p50
        if contender.hold is not None and self._place_on_hold(contender, duration_s):
            return
        board = self.schedule.board
        found = board.find(contender, not_before=not_before, duration_s=duration_s)
        if self._place_by_preemption(contender, found, duration_s):
            return
        if found is not None and self.closer is not None:
            found = self._closer_together(contender, found, self.closer)
        if found is not None:
            if found.start == not_before and latest == found.start > board.now:
                rests = {*found.rests_on, *(d for d in contender.after if self.ends[d] == latest)}
                found = replace(found, rests_on=tuple(sorted(rests)))
            self._settle(contender, found, since=found.start)

    def _closer_together(self, contender: Contender, found: Place, closer: Closer) -> Place:
        board = self.schedule.board
        better = closer(contender, found, board)
        if contender.can_start and found.start == board.now < better.start:
            until = closer.may_wait_until(contender, found.devices, board.now)
            self.schedule.patience[contender.job] = until
        return better

    def _place_on_hold(self, contender: Contender, duration_s: Seconds) -> bool:
        """Place the contender on its held devices, unless it can start elsewhere at once."""
        hold, board = contender.hold, self.schedule.board
        assert hold is not None  # asked only for contenders with one
        if hold.victims and contender.can_start:
            elsewhere = board.find(contender, not_before=board.now, duration_s=duration_s)
            if elsewhere is not None and elsewhere.start == board.now:
                self.schedule.board = board.without(contender.job)
                self._settle(contender, elsewhere, since=board.now)
                return True
        start = hold.until.p50 if hold.victims else board.now
        self.schedule.on_hold.add(contender.job)
        self.schedule.places[contender.job] = Place(
            devices=hold.devices,
            start=start,
            end=Instant(start + duration_s),
            rests_on=hold.victims,
        )
        self.ends[contender.job] = Instant(start + duration_s)
        return True

    def _place_by_preemption(
        self, contender: Contender, found: Place | None, duration_s: Seconds
    ) -> bool:
        board = self.schedule.board
        if self.preempt is None or not contender.can_start or contender.not_before > board.now:
            return False
        if contender.after or (found is not None and found.start == board.now):
            return False
        preemption = self.preempt(contender, found, self.schedule)
        if preemption is None:
            return False
        gone_at = preemption.gone_at
        self.schedule.board = board.leaving({v.job: gone_at for v in preemption.victims})
        self.schedule.preemptions[contender.job] = preemption
        for victim in preemption.victims:
            self.ends.pop(victim.job, None)
        planned = Place(
            devices=preemption.devices,
            start=gone_at,
            end=Instant(gone_at + duration_s),
            rests_on=tuple(victim.job for victim in preemption.victims),
        )
        self._settle(contender, planned, since=board.now)
        return True

    def _settle(self, contender: Contender, found: Place, *, since: Instant) -> None:
        self.schedule.places[contender.job] = found
        self.ends[contender.job] = found.end
        self.schedule.board.book(
            Booking(
                job=contender.job,
                team=contender.spec.team,
                devices=found.devices,
                start=since,
                end=found.end,
            )
        )
