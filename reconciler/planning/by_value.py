"""Decides by value who starts now and who leaves for whom: counts chosen, devices given.

The core answers in rows and counts.  Here its choices become devices, are held against what counts
cannot see (quotas by type, windows of reservations), and become decisions.  A choice that cannot
be kept is taken back and the core is asked again without that job, so that nothing rests on it.

Rule kept: a start that needs somebody to leave is a hold first.  It names whom it waits for, its
devices are nobody else's meanwhile, and the job starts on them once they have left.
"""

from collections.abc import Mapping
from dataclasses import replace

from reconciler.domain.plan import Decision, Verb
from reconciler.domain.reason import Reason
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import JobId
from reconciler.planning.access import Access
from reconciler.planning.agenda import Agenda
from reconciler.planning.books import Books
from reconciler.planning.consolidation import CLOSER
from reconciler.planning.desk import Desk
from reconciler.planning.elastic import Elastic
from reconciler.planning.eligibility import counted
from reconciler.planning.giving import Given
from reconciler.planning.holdings import by_position, free_rows
from reconciler.planning.interruptions import Interruptions
from reconciler.planning.placement import place, shape_for
from reconciler.planning.promises import Promise, promises
from reconciler.planning.question import Question
from reconciler.planning.room import Room
from reconciler.planning.shapes import Shapes
from reconciler.planning.starting import preempt, preempting, start
from reconciler.planning.topology import allocation_of, positions
from reconciler.planning.urgent import Front, urgency
from reconciler.planning.value.decide import ValueMemo, decide
from reconciler.planning.value.fleet import Choices, Start
from reconciler.planning.wait_or_split import WaitOrSplit
from reconciler.planning.waits import Kept, Waits, wait

MOST_REFUSALS = 20
"""Choices taken back in one cycle, one by one; then whoever's choice fails again waits with all
others of its team."""
KEPT_FREE = "what is free is kept for a reservation"


class ByValue:
    """One cycle of the value order."""

    def __init__(
        self,
        snapshot: Snapshot,
        shapes: Shapes,
        books: Books,
        agenda: Agenda,
        desk: Desk,
    ) -> None:
        self._snapshot = snapshot
        self._shapes = shapes
        self._where = shapes.where
        self._books = books
        self._rows = shapes.rows
        self._desk = desk
        self._agenda = agenda
        self.bars = {**books.bars, **agenda.bars} if agenda.bars else books.bars
        self._room = Room(snapshot.teams, shapes.where, desk.holdings, desk.leaving)
        self._access = Access(
            snapshot=snapshot, shapes=shapes, books=books, calendar=agenda.calendar
        )
        self.promised = promises(shapes, books, desk, self._room, self._access)
        self._free_of_victims = self._may_begin()
        self._kept = 0
        for promise in self.promised.values():
            self._kept |= promise.devices
        self.given = Given(free=shapes.where.ready & ~(desk.holdings.taken | self._kept))
        self._blocked: list[JobId] = []
        self._elastic = Elastic(
            snapshot=snapshot, shapes=shapes, books=books, desk=desk, access=self._access
        )
        self._held = self._room.copy() if agenda.calendar.windows else self._room
        self._reserved = self._access.count_in(self._room, desk.holdings.taken)
        self.interruptions = Interruptions(
            snapshot.planner_state.interruptions, snapshot.teams, snapshot.now
        )
        self.choices: Choices | None = None
        self.kept: Kept | None = None
        self.places = WaitOrSplit(
            snapshot=snapshot, shapes=shapes, books=books, desk=desk, access=self._access
        )

    def decisions(
        self, memo: ValueMemo, before: Mapping[JobId, Decision], kept: Kept | None
    ) -> Mapping[JobId, Decision]:
        """Return the decision about every job that wants devices, and about every victim.

        ``before`` are the last cycle's and ``kept`` what it told: what says the same is the same.
        """
        self._served = self._serve_first()
        self._choose(memo)
        self._resize()
        given, standings = self.given, self._books.standings
        decided: dict[JobId, Decision] = dict(self._agenda.leaving)
        for job, promise in self.promised.items():
            if not promise.is_moving:
                self._on_hold(job, promise, decided)
        for job, devices in given.starts.items():
            decided[job] = start(
                self._snapshot, standings[job], devices, self._where, was_freed=False
            )
        for job, devices in given.holds.items():
            if job not in given.stops:
                decided[job] = preempting(job, given.waits_for[job], devices, self._where)
        self._wait(decided, before)
        for victim, for_job in given.stops.items():
            decided[victim] = self._leave(victim, for_job)
        desk = self._desk
        waits = Waits(self._rows, self._free_rows(), self._room, self._where.unit)
        self.kept = waits.keep(desk.waiting.done(), desk.kinds, desk.asking, kept)
        return self.kept.decisions.with_entries(decided)

    @property
    def ranking(self) -> tuple[JobId, ...]:
        """Jobs that want devices in the order in which they go: urgent ones before all others."""
        facts = self._desk.waiting
        urgent = sorted(
            (job for job in self._served if job in facts and facts[job].rush),
            key=lambda job: urgency(job, facts[job]),
        )
        return (*urgent, *(self.choices.ranking if self.choices is not None else ()))

    def _leave(self, victim: JobId, for_job: JobId) -> Decision:
        """Return the request to a victim to leave, with what is kept for it meanwhile."""
        given = self.given
        decision = preempt(victim, for_job)
        if victim not in given.holds:
            return decision
        kept = allocation_of(given.holds[victim], self._where)
        if victim in given.waits_for[victim]:  # another size, or another place of its own choice
            is_move = kept.gpus == self._desk.running[victim].gpus
            said = CLOSER if is_move else f"goes on with {counted(kept.gpus, self._where.unit)}"
            decision = replace(decision, verb=Verb.RESIZE, detail=said)
        return replace(decision, hold=kept, victims=given.waits_for[victim])

    def _resize(self) -> None:
        """Give other sizes and closer places out of what is left."""
        if not self.given.free or not (self._desk.elastic or self.places.spread.slowdown):
            return
        asking = [
            job
            for job in (self.choices.ranking if self.choices is not None else ())
            if job not in self.given.starts and job not in self.given.holds
        ]
        kept = self.places.kept(self.given.free)
        self.given.free &= ~kept
        self._elastic.start_smaller(asking, self.given, self._room)
        if not (asking or self.promised or self.given.awaited or self._blocked):
            self._elastic.grow(self.given, self._room)
            self.places.consolidate(self.given, self._room)
        self.given.free |= kept

    def _may_begin(self) -> frozenset[JobId]:
        """Return the jobs whose victims have left and whose team may begin on what was kept."""
        whole = ((job, p) for job, p in self.promised.items() if not (p.is_moving or p.victims))
        begins = self._room.begins
        return frozenset(job for job, p in whole if begins(job.split("/")[0], p.devices))

    def _serve_first(self) -> set[JobId]:
        """Serve who goes before the value order; return the jobs it need not be asked about."""
        moved = self._start_elsewhere()
        desk, room = self._desk, self._room
        is_open = any(window.is_open for window in self._agenda.calendar.windows)
        if not (is_open or room.has_cohorts or desk.rushing or desk.timed):
            return moved
        asking = desk.waiting.keys() - self.promised.keys() - self._agenda.bars.keys() - moved
        inside = self._access.enter(desk, asking, self.given, self._held) | moved
        asking -= inside
        if not room.has_cohorts and asking.isdisjoint(desk.rushing | desk.timed):
            return inside
        front = Front(
            snapshot=self._snapshot,
            shapes=self._shapes,
            books=self._books,
            desk=desk,
            room=room,
            given=self.given,
            interruptions=self.interruptions,
            elastic=self._elastic,
            open_to=self._access.open_to,
            promised=self._kept,
            firm=self._snapshot.planner_state.value.firm,
        )
        dealt = front.serve(sorted(asking))
        self._blocked = front.blocked
        return inside | dealt

    def _start_elsewhere(self) -> set[JobId]:
        """Start jobs that still wait for victims where there is room for them meanwhile."""
        found: set[JobId] = set()
        for job, promise in list(self.promised.items()):
            if promise.is_moving or not promise.victims:
                continue
            team, request = self._desk.kinds[job]
            free = self.given.free & self._access.open_to(job)
            free &= self._room.allowed_bits(team, request.count)
            spec = self._books.standings[job].spec
            assert spec is not None  # it wants devices
            shape = shape_for(self._shapes.of(request), spec.facts, self._where)
            devices = place(shape, free, self._where)
            if devices is None:
                continue
            del self.promised[job]
            self._room.keep(team, promise.devices, sign=-1)
            self._room.start(team, devices)
            self.given.free |= promise.devices & ~self._desk.holdings.taken & self._where.ready
            self.given.start(job, devices)
            found.add(job)
        return found

    # Asking the core

    def _choose(self, memo: ValueMemo) -> None:
        refused: set[JobId] = set()
        question = Question(
            snapshot=self._snapshot,
            books=self._books,
            rows=self._rows,
            desk=self._desk,
            favour=self._agenda.favour,
        )
        out = self._served | self._agenda.bars.keys() | self.promised.keys()
        leaving = self.given.stops.keys() | self.given.awaited
        for _ in range(len(self._desk.waiting) + 1):
            choices = decide(
                question.fleet(
                    self._free_rows(),
                    self._room,
                    out | refused | self.places.settled,
                    leaving,
                    self._blocked,
                    self.places.edges(),
                ),
                self._snapshot.planner_state.value,
                self._snapshot.now,
                question.rules(),
                memo,
            )
            self.choices = choices
            given, room, broken = self._give(choices)
            if broken is None:
                if self.places.asks_again(choices, given, room, self.given, self._room):
                    continue
                self.given, self._room = given, room
                return
            refused.add(broken)
            if len(refused) > MOST_REFUSALS:
                team = broken.split("/")[0]
                refused |= {job for job in self._desk.waiting if job.startswith(f"{team}/")}

    # Giving devices

    def _give(self, choices: Choices) -> tuple[Given, Room, JobId | None]:
        """Return devices for the choices and the room left, or the first job whose choice cannot
        be kept."""
        holdings, ready = self._desk.holdings, self._where.ready
        given = self.given.copy()
        room = self._room.copy()
        for chosen in choices.starts:
            for victim in chosen.victims:
                given.stop(victim, chosen.job, holdings.of[victim].devices & ready)
            room.leave(chosen.victims)
            if not self._give_one(chosen, given, room):
                return given, room, chosen.job
        new = given.holds.keys() - self.given.holds.keys()
        leaving = by_position(holdings, given.stops) if new else {}
        for job in new:
            held = positions(given.holds[job])
            found = {leaving[position] for position in held if position in leaving}
            given.waits_for[job] = tuple(sorted(found))
        return given, room, self._left_in_vain(given)

    def _give_one(self, chosen: Start, given: Given, room: Room) -> bool:
        holdings, team = self._desk.holdings, chosen.job.split("/")[0]
        own = 0
        for victim in chosen.victims:
            own |= holdings.of[victim].devices
        freeing, is_moving = given.freeing, chosen.job in given.stops
        if is_moving:  # to other devices than it leaves
            freeing &= ~holdings.of[chosen.job].devices
        mask = self._access.open_to(chosen.job)
        parts = (own & freeing & mask, given.free & mask, freeing & mask)
        devices = self._rows.devices(chosen.nodes, parts)
        later = is_moving or bool(devices is not None and devices & freeing)
        if devices is None or not room.allows(team, devices, later=later):
            return is_moving  # it finds another place once it has left
        if later:
            room.keep(team, devices)
            given.hold(chosen.job, devices)
        else:
            room.start(team, devices)
            given.start(chosen.job, devices)
        return True

    def _left_in_vain(self, given: Given) -> JobId | None:
        """Return a job one of whose victims frees neither its devices nor its quota."""
        for victim, for_job in list(given.stops.items()):
            if victim in given.waits_for.get(for_job, ()):
                continue
            users = [
                job
                for job, names in sorted(given.waits_for.items())
                if victim in names and job not in given.stops
            ]
            if users:
                given.stops[victim] = users[0]
                continue
            team = victim.split("/")[0]
            if for_job in given.waits_for and self._room.shares(team, for_job.split("/")[0]):
                given.waits_for[for_job] = tuple(sorted((*given.waits_for[for_job], victim)))
                continue
            return for_job
        return None

    # Telling

    def _on_hold(self, job: JobId, promise: Promise, decided: dict[JobId, Decision]) -> None:
        if job in self._free_of_victims:
            of, devices = self._books.standings[job], promise.devices
            decided[job] = start(self._snapshot, of, devices, self._where, was_freed=True)
        else:
            decided[job] = preempting(job, promise.victims, promise.devices, self._where)

    def _wait(self, decided: dict[JobId, Decision], before: Mapping[JobId, Decision]) -> None:
        for job, bar in self.bars.items():
            if bar is not None and job not in decided:
                decided[job] = wait(job, bar.reason, bar.detail, before)
        decided.update(self.places.decisions(decided, before))
        if self._agenda.calendar.windows:
            for job in self._desk.waiting.keys() - decided.keys():
                if self._access.is_all_that_bars(job, self._desk, self.given, self._room):
                    decided[job] = wait(job, Reason.GPUS_RESERVED, KEPT_FREE, before)

    def _free_rows(self) -> list[int]:
        """Return what is free in each row once what was given is given."""
        given = self.given
        touched = given.starts or given.holds or given.awaited
        if not (self.promised or touched or self._agenda.calendar):
            return free_rows(self._rows, self._desk.holdings)
        return self._rows.counts(given.free & ~self._reserved)
