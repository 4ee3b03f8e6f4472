"""The plan over time of one snapshot, and what it decides about the jobs that want devices.

Holders first, then holds (nobody else may have their devices), then every contender in rank
order.  Whoever is placed at this very instant starts; the rest wait, each with its reason.
"""

from collections.abc import Mapping
from dataclasses import replace

from reconciler.domain.plan import Decision, Expectation, Verb
from reconciler.domain.reason import Reason
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import Instant, JobId
from reconciler.planning.agenda import NO_AGENDA, Agenda
from reconciler.planning.backfill import Pass, Schedule
from reconciler.planning.board import Board, Booking, Contender, Holder, Place
from reconciler.planning.books import Books
from reconciler.planning.closer import Closer
from reconciler.planning.contenders import Wishes, by_job
from reconciler.planning.decisions import Places
from reconciler.planning.eligibility import words
from reconciler.planning.everyone import Everyone, Fixed
from reconciler.planning.forecast import forecast
from reconciler.planning.noise import noisy_devices
from reconciler.planning.placement import fits
from reconciler.planning.power import NO_POWER
from reconciler.planning.preemption import Preemption, choose_victims, ground_of, may_serve
from reconciler.planning.remaining import Moment
from reconciler.planning.shapes import Shapes
from reconciler.planning.slowdown import slowdown_at
from reconciler.planning.spread import SOONER_APART, SOONER_TOGETHER, Spread
from reconciler.planning.starting import start
from reconciler.planning.topology import allocation_of


class Timetable:
    """Who runs where and when, from this instant on."""

    def __init__(
        self,
        snapshot: Snapshot,
        shapes: Shapes,
        books: Books,
        agenda: Agenda = NO_AGENDA,
    ) -> None:
        self._snapshot = snapshot
        self._agenda = agenda
        self._where = shapes.where
        self._shapes = shapes
        self._jobs = books.standings
        self._ended = books.ended
        self._bars = {**books.bars, **agenda.bars} if agenda.bars else books.bars
        self._wishes = Wishes(snapshot, shapes, agenda.favour)
        self._holders = {
            job: self._wishes.holder(books.live[job], agenda.leaving.get(job, books.settled[job]))
            for job in sorted(books.live)
        }
        self._closer = Closer(
            spread=Spread(shapes, slowdown_at(snapshot)),
            shapes=shapes,
            patience=snapshot.planner_state.patience,
        )
        self.contenders = by_job(self._contenders())
        self.schedule = self._walk()

    def _contenders(self) -> list[Contender]:
        found = [
            self._wishes.pending(self._jobs[job], self._bars[job], holders=self._holders.values())
            for job in sorted(self._bars)
        ]
        for job in sorted(self._ended):
            ended = self._wishes.ended(self._ended[job])
            if ended is not None:
                found.append(ended)
        back = [holder for holder in self._holders.values() if holder.comes_back]
        return found + [self._returning(holder, holder.until.p50) for holder in back]

    def _returning(self, holder: Holder, gone_at: Instant) -> Contender:
        return self._wishes.returning(holder, self._jobs[holder.job], gone_at)

    def _walk(self) -> Schedule:
        board = self._board()
        ends = {}
        for job, holder in self._holders.items():
            board.book(
                Booking(
                    job=job,
                    team=holder.team,
                    devices=holder.devices,
                    start=board.now,
                    end=holder.until.p50,
                )
            )
            if not holder.comes_back:
                ends[job] = holder.until.p50
        walk = Pass(
            schedule=Schedule(board=board),
            ends=ends,
            preempt=self._preempt,
            come_back=self._returning,
            closer=self._closer if slowdown_at(self._snapshot) else None,
        )
        return walk.walk(walk.keep_holds(self.contenders.values()))

    def _board(self) -> Board:
        snapshot, where = self._snapshot, self._where
        last = noisy_devices(snapshot.planner_state.lost_on, snapshot.now, where)
        calendar = self._agenda.calendar
        return Board(snapshot.now, where, snapshot.teams, calendar=calendar, last=last)

    def _preempt(
        self, contender: Contender, otherwise: Place | None, schedule: Schedule
    ) -> Preemption | None:
        leaving = {v.job for p in schedule.preemptions.values() for v in p.victims}
        rules = self._snapshot.policy.preemption
        return choose_victims(
            contender,
            None if otherwise is None else otherwise.start,
            ground=ground_of(schedule.board, contender),
            holders=[
                holder
                for job, holder in self._holders.items()
                if job not in leaving and may_serve(holder, contender, rules)
            ],
            policy=rules,
        )

    def decisions(self) -> dict[JobId, Decision]:
        """Return the decision about every job that wants devices, and about every victim."""
        decided: dict[JobId, Decision] = dict(self._agenda.leaving)
        taken = self._taken_now()
        for contender in self._ranked():
            if self._starts_now(contender):
                decided[contender.job] = self._start(contender)
            elif contender.job in self.schedule.preemptions:
                decided.update(self._preempting(contender))
            elif contender.job in self.schedule.on_hold:
                decided[contender.job] = self._still_preempting(contender)
            else:
                decided[contender.job] = self._wait(contender, taken)
        return decided

    def _ranked(self) -> list[Contender]:
        return [c for c in self.contenders.values() if c.job in self._bars]

    def places(self) -> Places:
        """Return rank and score of every job that wants devices."""
        return {c.job: (rank, -c.key[1]) for rank, c in enumerate(self._ranked(), start=1)}

    def _starts_now(self, contender: Contender) -> bool:
        place = self.schedule.places.get(contender.job)
        return contender.can_start and place is not None and place.start == self._snapshot.now

    def _taken_now(self) -> Board:
        """Return what is taken once this plan is carried out: held, kept or started now."""
        now = self._snapshot.now
        board = self._board()
        for booking in self.schedule.board.bookings:
            contender = self.contenders.get(booking.job)
            if booking.start == now and (contender is None or contender.can_start):
                board.book(booking)
        return board

    def _decide(self, contender: Contender, verb: Verb, reason: Reason, detail: str) -> Decision:
        return Decision(job=contender.job, verb=verb, reason=reason, detail=detail)

    def _start(self, contender: Contender) -> Decision:
        devices = self.schedule.places[contender.job].devices
        was_freed = contender.job in self.schedule.on_hold
        standing = self._jobs[contender.job]
        decision = start(self._snapshot, standing, devices, self._where, was_freed=was_freed)
        if not was_freed and self._closer.spread.factor(contender.spec.gpus, devices) > 1.0:
            return replace(decision, detail=f"{decision.detail}: {SOONER_APART}")
        return decision

    def _preempting(self, contender: Contender) -> dict[JobId, Decision]:
        preemption = self.schedule.preemptions[contender.job]
        victims = tuple(victim.job for victim in preemption.victims)
        wait = self._decide(
            contender, Verb.WAIT, Reason.PREEMPTING, f"waits for {', '.join(victims)}"
        )
        found = {
            victim: Decision(
                job=victim,
                verb=Verb.PREEMPT,
                reason=Reason.FREED_FOR_PREEMPTOR,
                detail=f"makes room for {contender.job}",
                for_job=contender.job,
            )
            for victim in victims
        }
        hold = allocation_of(preemption.devices, self._where)
        found[contender.job] = replace(wait, victims=victims, hold=hold)
        return found

    def _still_preempting(self, contender: Contender) -> Decision:
        hold = contender.hold
        assert hold is not None  # its place is its hold
        wait = self._decide(
            contender, Verb.WAIT, Reason.PREEMPTING, f"waits for {', '.join(hold.victims)}"
        )
        devices = allocation_of(hold.devices, self._where)
        return replace(wait, victims=hold.victims, hold=devices)

    def _wait(self, contender: Contender, taken: Board) -> Decision:
        bar = self._bars[contender.job]
        if bar is not None:
            return self._decide(contender, Verb.WAIT, bar.reason, bar.detail)
        if contender.job in self.schedule.patience:
            reason, detail = Reason.BETTER_PLACE_SOON, SOONER_TOGETHER
        else:
            reason, detail = self._why_not_now(contender, taken)
        return self._decide(contender, Verb.WAIT, reason, detail)

    def patience(self) -> Mapping[JobId, Instant]:
        """Return until when those may wait for a better place who hold off, or did."""
        before = self._snapshot.planner_state.patience
        after = {job: until for job, until in before.items() if job in self._bars}
        after.update(self.schedule.patience)
        after = {
            job: after[job] for job in sorted(after) if not self._starts_now(self.contenders[job])
        }
        return before if after == before else after

    def _why_not_now(self, contender: Contender, taken: Board) -> tuple[Reason, str]:
        now, spec = self._snapshot.now, contender.spec
        allowed = taken.use.allowed(spec.team, contender.shape.count, now, Instant(now + 1))
        if not fits(contender.shape, self._where.up & allowed, self._where):
            return Reason.QUOTA_EXCEEDED, f"the quota of team {spec.team} is in use"
        free = taken.timeline.free_at(now) & allowed
        if not fits(contender.shape, free, self._where):
            dark = self._where.up & ~self._where.ready & allowed
            if fits(contender.shape, free | dark, self._where):
                return Reason.RACK_POWER, NO_POWER
            return Reason.GPUS_BUSY, f"needs {words(spec.gpus, self._where.unit)}"
        if not fits(contender.shape, free & ~taken.closed_to(contender, now), self._where):
            return Reason.GPUS_RESERVED, "what is free is kept for a reservation"
        return Reason.BEHIND_HIGHER_RANK, "what is free is promised to jobs ahead of it"

    def forecast(self) -> dict[JobId, Expectation]:
        """Return what is expected of every job that holds devices or has a place."""
        return forecast(self.view())

    def view(self) -> Everyone:
        """Return what the forecast of everyone starts from."""
        contenders, leaving = dict(self.contenders), {}
        for preemption in self.schedule.preemptions.values():
            for victim in preemption.victims:
                gone_at = preemption.gone_at
                contenders[victim.job] = self._returning(victim, gone_at)
                leaving[victim.job] = self._no_later_than_grace(gone_at, victim.attempt.grace_s)
        places = self.schedule.places
        fixed = {
            job: found
            for job, contender in contenders.items()
            if job in places and (found := self._fixed(contender, places[job])) is not None
        }
        return Everyone(
            now=self._snapshot.now,
            where=self._where,
            gangs=self._shapes.gangs,
            teams=self._snapshot.teams,
            holders=tuple(self._holders.values()),
            contenders=sorted(contenders.values(), key=lambda contender: contender.key),
            fixed=fixed,
            leaving=leaving,
            windows=self._agenda.calendar.windows,
            spread=self._closer.spread,
        )

    def _fixed(self, contender: Contender, place: Place) -> Fixed | None:
        """Return where a contender was given devices in this cycle; None while it only waits."""
        job, begins = contender.job, Moment(p50=place.start, p90=place.start)
        if job in self._bars and self._starts_now(contender):
            return Fixed(devices=place.devices, start=begins)
        if job in self.schedule.preemptions:
            victims = self.schedule.preemptions[job].victims
            longest_s = max(victim.attempt.grace_s for victim in victims)
            begins = self._no_later_than_grace(place.start, longest_s)
        elif job in self.schedule.on_hold and contender.hold is not None:
            begins = Moment(p50=place.start, p90=max(place.start, contender.hold.until.p90))
        else:
            return None
        return Fixed(devices=place.devices, start=begins, rests_on=place.rests_on)

    def _no_later_than_grace(self, expected: Instant, grace_s: int) -> Moment:
        return Moment(p50=expected, p90=Instant(max(expected, self._snapshot.now + grace_s)))
