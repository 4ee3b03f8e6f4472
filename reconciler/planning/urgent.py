"""Who goes before the value order: urgent jobs, deadlines that press, and teams that want back
what they lent.

A P0 starts where there is room, else the cheapest set of victims by lost work is asked to leave for
it, as in the order by score: only lower classes and no more than its team's interruption budget.
For what is free soon anyway it waits two minutes from its submission on, and nobody else gets it
meanwhile.  A job with a firm place kept its place when it began: it is a P0's victim where nobody
else will do, and goes before all but P0s to come back.  A P0 that nobody's leaving helps keeps rows
from work that cannot be stopped (``blocked``).

A job whose deadline presses starts where there is room, else the cheapest victims leave that are of
no more urgent class, have no deadline ahead of them and have made progress for a while; a firm one
only where nobody else will do.  It counts against the same interruption budget.

A team of a cohort that asks for no more than its own quota, and is kept from it by borrowers, gets
it back from those who borrowed.
"""

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from functools import partial
from heapq import nsmallest

from reconciler.domain.job import PriorityClass
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import Instant, JobId, TeamName
from reconciler.planning.board import Contender, Holder
from reconciler.planning.books import Books
from reconciler.planning.contenders import Wishes
from reconciler.planning.desk import Desk
from reconciler.planning.elastic import Elastic
from reconciler.planning.giving import Given
from reconciler.planning.interruptions import Interruptions
from reconciler.planning.placement import fits, place
from reconciler.planning.preemption import Ground, Preemption, choose_victims, may_preempt
from reconciler.planning.priority import presses
from reconciler.planning.question import QUANTUM_S
from reconciler.planning.room import Room
from reconciler.planning.shapes import Shapes
from reconciler.planning.value.fleet import JobFacts

PATIENCE_S = 120
"""How long from its submission on an urgent job waits for what is free soon by itself: believed
ends are often wrong, so it does not wait for them for ever."""
MOST_PRESSING = 8
"""Jobs whose deadline presses that are looked at in one cycle."""
MOST_RECLAIMS = 8
"""Jobs whose team wants its quota back that are looked at in one cycle."""


def urgency(job: JobId, facts: JobFacts) -> tuple[int, int, JobId]:
    """Return the key by which urgent jobs go: the nearest deadline first, then who came first."""
    return (facts.deadline or facts.arrived + 10**9, facts.arrived, job)


@dataclass(frozen=True, slots=True, kw_only=True)
class Soon:
    """Devices that a job finds free once some running jobs have ended by themselves."""

    end: Instant
    devices: int
    jobs: tuple[JobId, ...]
    """Who is on them until then and was not asked to leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """What the step before the value order works on."""

    snapshot: Snapshot
    shapes: Shapes
    books: Books
    desk: Desk
    room: Room
    given: Given
    interruptions: Interruptions
    elastic: Elastic
    open_to: Callable[[JobId], int]
    """Devices on which a job may start, as reservations allow."""
    promised: int
    """Devices kept for somebody already, some of them still taken by who is leaving."""
    firm: Container[JobId]
    """Jobs that have reached their waiting bound."""
    blocked: list[JobId] = field(default_factory=list)
    """Urgent jobs for which nobody's leaving makes room, in the order in which they go."""

    def serve(self, waiting: Iterable[JobId]) -> set[JobId]:
        """Give devices to urgent and reclaiming jobs of ``waiting``; return those dealt with."""
        wishes = Wishes(self.snapshot, self.shapes)
        dealt: set[JobId] = set()
        urgent = [job for job in waiting if self.desk.waiting[job].rush]
        for job in sorted(urgent, key=lambda job: urgency(job, self.desk.waiting[job])):
            standing = self.books.standings[job]
            if self._serve_urgent(wishes.pending(standing, None, holders=()), wishes):
                dealt.add(job)
        for job in self._pressing(waiting, dealt, wishes):
            contender = wishes.pending(self.books.standings[job], None, holders=())
            if self._start(contender) or self._make_room_in_time(contender, wishes):
                dealt.add(job)
        if self.room.has_cohorts:
            dealt |= self._reclaim((job for job in waiting if job not in dealt), wishes)
        return dealt

    def _serve_urgent(self, contender: Contender, wishes: Wishes) -> bool:
        """Return False for a job that has no right to be served first any more."""
        if self._start(contender):
            return True
        job, team = contender.job, contender.spec.team
        soon = self._soon(contender, wishes)
        if soon is not None and soon.end <= self.desk.waiting[job].arrived + PATIENCE_S:
            self.given.await_ends(soon.devices, soon.jobs)
            return True
        room_for = self.room.allowed_bits(team, contender.shape.count)
        rules = self.snapshot.policy.preemption
        lower = {
            level for level in PriorityClass if may_preempt(level, contender.spec.priority, rules)
        }
        found = None
        for may_be_firm in (False, True):
            found = found or self._victims(
                contender, wishes, partial(self._is_lower, lower, may_be_firm)
            )
        if found is None:
            ready, where = self.shapes.where.ready, self.shapes.where
            if fits(contender.shape, ready & room_for, where):
                self.blocked.append(job)  # else it is its quota that keeps it, not who runs
            return True
        if not self.interruptions.allows(team, len(found.victims)):
            return False
        self.interruptions.spend(team, len(found.victims))
        self._hold(contender, found)
        return True

    def _pressing(
        self, waiting: Iterable[JobId], dealt: Container[JobId], wishes: Wishes
    ) -> list[JobId]:
        """Return the jobs whose deadline presses, whoever has to start soonest first."""
        now, found, timed = self.snapshot.now, [], self.desk.timed
        for job in waiting if timed else ():
            if job not in timed:
                continue
            facts = self.desk.waiting[job]
            if facts.deadline <= now or facts.rush or job in dealt:
                continue
            pending = wishes.pending_job(self.books.standings[job])
            delay_s = now - facts.arrived - facts.served
            if pending is not None and presses(pending, delay_s=delay_s, now=now):
                found.append((pending.latest_start() or now, job))
        return [job for _, job in sorted(found)[:MOST_PRESSING]]

    def _make_room_in_time(self, contender: Contender, wishes: Wishes) -> bool:
        """Ask victims to leave for a job whose deadline presses, if it may have any."""
        team = contender.spec.team
        if self.interruptions.is_used_up(team):
            return False
        found = None
        for may_be_firm in (False, True):
            found = found or self._victims(
                contender, wishes, partial(self._may_wait, contender, may_be_firm)
            )
        if found is None or not self.interruptions.allows(team, len(found.victims)):
            return False
        self.interruptions.spend(team, len(found.victims))
        self._hold(contender, found)
        return True

    def _may_wait(self, contender: Contender, may_be_firm: bool, job: JobId) -> bool:
        """True for a running job that a deadline which presses may put off."""
        facts, now = self.desk.running[job], self.snapshot.now
        least_s = self.snapshot.policy.preemption.min_run_s or QUANTUM_S
        if facts.deadline > now or now - facts.since < least_s:
            return False
        if job in self.firm and not may_be_firm:
            return False
        return facts.level >= contender.spec.priority

    def _is_lower(self, lower: Container[PriorityClass], may_be_firm: bool, job: JobId) -> bool:
        if job in self.firm and not may_be_firm:
            return False
        return PriorityClass(self.desk.running[job].level) in lower

    def _start(self, contender: Contender) -> bool:
        """Start a job where there is room, if there is."""
        job, team = contender.job, contender.spec.team
        free = self.given.free & self.open_to(job)
        free &= self.room.allowed_bits(team, contender.shape.count)
        devices = place(contender.shape, free, self.shapes.where)
        if devices is None:
            return False
        self.given.start(job, devices)
        self.room.start(team, devices)
        return True

    def _hold(self, contender: Contender, found: Preemption) -> None:
        victims = tuple(victim.job for victim in found.victims)
        job = contender.job
        for victim in found.victims:
            self.given.stop(victim.job, job, victim.devices & self.shapes.where.ready)
        self.room.leave(victims)
        self.room.keep(contender.spec.team, found.devices)
        self.given.hold(job, found.devices)
        self.given.waits_for[job] = victims
        for name in victims:
            self.elastic.shrink(name, self.given, self.room)

    def _victims(
        self, contender: Contender, wishes: Wishes, may_stop: Callable[[JobId], bool]
    ) -> Preemption | None:
        """Return the cheapest preemption among the running jobs that may be stopped."""
        holders = list(self._candidates(wishes, may_stop))
        if not holders:
            return None
        known = {holder.job: holder.devices for holder in holders}
        given, where, room = self.given, self.shapes.where, self.room
        team, gpus = contender.spec.team, contender.shape.count
        open_to = self.open_to(contender.job)

        def free(names: Container[JobId], _end: Instant) -> int:
            found = given.free | given.freeing
            for job, devices in known.items():
                if job in names:
                    found |= devices & where.ready
            return found & open_to

        def allowed(names: Container[JobId], _end: Instant) -> int:
            return room.allowed_bits(team, gpus, leaving=[job for job in known if job in names])

        return choose_victims(
            contender,
            None,
            ground=Ground(now=self.snapshot.now, where=where, free=free, allowed=allowed),
            holders=holders,
            policy=self.snapshot.policy.preemption,
        )

    def _candidates(self, wishes: Wishes, may_stop: Callable[[JobId], bool]) -> Iterable[Holder]:
        for job, facts in self.desk.running.items():
            is_leaving = job in self.given.stops or job in self.given.awaited
            if facts.preemptible and not facts.rush and not is_leaving and may_stop(job):
                holder = wishes.holder(self.books.live[job], self.books.settled[job])
                if holder.victim is not None:
                    yield holder

    def _soon(self, contender: Contender, wishes: Wishes) -> "Soon | None":
        """Return where the job would start without stopping anybody, if that is soon."""
        now, where = self.snapshot.now, self.shapes.where
        open_to = self.open_to(contender.job)
        free = self.given.free & open_to
        ends = []
        for job, standing in self.books.live.items():
            if job not in self.given.stops and job not in self.given.awaited:
                holder = wishes.holder(standing, self.books.settled[job])
                ends.append((holder.until.p50, job, holder.devices & ~self.promised))
        horizon = now + self.snapshot.policy.preemption.restart_s + contender.spec.grace_s
        allowed = self.room.allowed_bits(contender.spec.team, contender.shape.count)
        ended: list[tuple[JobId, int]] = []
        for end, job, devices in sorted(ends):
            if end > horizon:
                break
            free |= devices & where.ready & open_to
            ended.append((job, devices))
            found = place(contender.shape, free & allowed, where)
            if found is not None:
                stay = self.desk.running
                jobs = tuple(job for job, devices in ended if devices & found and job in stay)
                return Soon(end=end, devices=found, jobs=jobs)
        return None

    def _reclaim(self, waiting: Iterable[JobId], wishes: Wishes) -> set[JobId]:
        """Serve jobs whose team is owed what others borrowed; the longest waiting first."""
        dealt: set[JobId] = set()
        facts, kinds = self.desk.waiting, self.desk.kinds
        owed = {id(kind) for kind in self.desk.asking if self.room.is_owed_any(*kind)}
        if not owed:
            return dealt
        since = ((facts[job].arrived, job) for job in waiting if id(kinds[job]) in owed)
        for _, job in nsmallest(MOST_RECLAIMS, since):
            if not self.room.is_owed_any(*kinds[job]):
                continue
            contender = wishes.pending(self.books.standings[job], None, holders=())
            if self.room.allowed_bits(contender.spec.team, contender.shape.count):
                continue  # it is not the quota that keeps it: the order by value decides
            found = None
            if self._soon(contender, wishes) is None:
                found = self._victims(
                    contender, wishes, partial(self._has_borrowed, contender.spec.team)
                )
            if found is not None:
                self._hold(contender, found)
                dealt.add(job)
        return dealt

    def _has_borrowed(self, lender: TeamName, job: JobId) -> bool:
        team = TeamName(job.split("/")[0])
        if job in self.firm or team == lender:
            return False
        return self.room.shares(team, lender) and bool(self.room.over(team))
