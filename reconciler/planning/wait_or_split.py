"""Start spread now, or wait for a better place?  Whichever is expected to end first.

Asked by the value order about gangs that may go over several nodes, once the core has chosen: those
it would start further apart than need be, and those it left waiting though they fit the pieces
that are left.  When a better place comes is told by the ends of what runs; the devices of it that
are free already stay so, for whoever is not gone by then.

Rule kept: a job holds off no longer than being spread would cost it.  That is written down when
it first does (its patience), so a better place that keeps not coming costs no more than that, and
the answer cannot go back and forth for ever.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from heapq import merge

from reconciler.domain.job import GpuRequest
from reconciler.domain.plan import Decision
from reconciler.domain.reason import Reason
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import Instant, JobId
from reconciler.domain.value_state import Held
from reconciler.planning.access import Access
from reconciler.planning.books import Books
from reconciler.planning.consolidation import Consolidation
from reconciler.planning.contenders import Wishes
from reconciler.planning.desk import Desk
from reconciler.planning.elastic import left_at
from reconciler.planning.giving import Given
from reconciler.planning.placement import place, shape_for
from reconciler.planning.room import Room
from reconciler.planning.shapes import Shapes
from reconciler.planning.slowdown import slowdown_at
from reconciler.planning.spread import SOONER_APART, SOONER_TOGETHER, Spread
from reconciler.planning.topology import lowest
from reconciler.planning.value.counts import FreeCounts
from reconciler.planning.value.fleet import Cause, Choices
from reconciler.planning.waits import Kind, wait

MOST_LOOKED_AT = 16
"""Waiting gangs that are offered the pieces which are left in one cycle, and that hold off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Better:
    """A place worth waiting for."""

    start: Instant
    end: Instant
    patience: Instant
    """Until when the job may wait for such a place at all."""
    kept: Held
    """Devices of it that nobody holds now, and that stay free for it."""


@dataclass(slots=True, kw_only=True)
class WaitOrSplit:
    """Weighs places against each other.  Local to one planning call."""

    snapshot: Snapshot
    shapes: Shapes
    books: Books
    desk: Desk
    access: Access
    spread: Spread = field(init=False)
    waits: dict[JobId, Better] = field(default_factory=dict)
    """Who holds off for which place."""
    starts: dict[JobId, int] = field(default_factory=dict)
    """Who starts on pieces, and on which devices."""
    _ends: list[tuple[Instant, JobId, Held]] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.spread = Spread(self.shapes, slowdown_at(self.snapshot))

    @property
    def settled(self) -> frozenset[JobId]:
        """Jobs the core need not be asked about: they hold off, or start spread."""
        return frozenset((*self.waits, *self.starts))

    def asks_again(
        self, choices: Choices, given: Given, room: Room, before: Given, room_before: Room
    ) -> bool:
        """True if somebody holds off, or starts spread on pieces: the core is to choose again.

        ``given`` and ``room`` are what the choices left; who starts spread is given its devices
        ``before`` the core chooses anew.
        """
        if not self.spread.slowdown or len(self.waits) + len(self.starts) >= MOST_LOOKED_AT:
            return False
        starts, waits = self._weigh(choices, given, room)
        waits.update(self._started_apart(choices, given))
        self.waits.update(waits)
        self.starts.update(starts)
        for job, devices in starts.items():
            room_before.start(job.split("/")[0], devices)
            before.start(job, devices)
        return bool(starts or waits)

    def decisions(
        self, decided: Mapping[JobId, Decision], before: Mapping[JobId, Decision]
    ) -> dict[JobId, Decision]:
        """Return the waits of those that hold off, and ``decided`` starts on pieces in words."""
        found = {
            job: wait(job, Reason.BETTER_PLACE_SOON, SOONER_TOGETHER, before)
            for job in sorted(self.waits)
        }
        for job in sorted(self.starts):
            said = f"{decided[job].detail}: {SOONER_APART}"
            found[job] = replace(decided[job], detail=said)
        return found

    def _started_apart(self, choices: Choices, given: Given) -> dict[JobId, Better]:
        """Return who of those that the core starts further apart than need be should hold off."""
        found: dict[JobId, Better] = {}
        for chosen in choices.starts:
            job = chosen.job
            if chosen.cause is not Cause.FREE or job not in given.starts or job in choices.firm:
                continue
            devices = given.starts[job]
            if self.spread.factor(self.desk.kinds[job][1], devices) <= 1.0:
                continue
            without = given.copy()
            without.free |= devices
            better = self._better(job, devices, without)
            if better is not None:
                found[job] = better
        return found

    def _weigh(
        self, choices: Choices, given: Given, room: Room
    ) -> tuple[dict[JobId, int], dict[JobId, Better]]:
        """Return who of those passed over starts on pieces of what is left, and who holds off.

        What a job ranked behind it was given counts as left.
        """
        starts: dict[JobId, int] = {}
        found: dict[JobId, Better] = {}
        rest, gone = room.copy(), self.kept(given.free)
        filled = self._filled(choices, given)
        nowhere: set[Kind] = set()
        patient = self.snapshot.planner_state.patience
        everything = given.free
        for _, devices in filled:
            everything |= devices
        for rank, job in self._passed_over(choices, given, everything.bit_count()):
            kind = team, request = self.desk.kinds[job]
            if kind in nowhere and job not in patient:
                continue  # for one behind another, fewer pieces count as left
            left = given.copy()
            for other, devices in filled:
                if other > rank:
                    left.free |= devices
            left.free &= ~gone
            free = left.free & self.access.open_to(job) & rest.allowed_bits(team, request.count)
            spec = self.books.standings[job].spec
            assert spec is not None  # it wants devices
            shape = shape_for(self.shapes.of(request), spec.facts, self.shapes.where)
            pieces = place(shape, free, self.shapes.where)
            if pieces is None:
                better = self._still_awaited(job, left)
                if better is None and not self.access.calendar.windows:
                    nowhere.add(kind)
            else:
                better = self._better(job, pieces, left)
            if better is not None:
                found[job] = better
                gone |= self._kept({job: better}, left.free)
            elif pieces is not None:
                starts[job] = pieces
                rest.start(team, pieces)
                gone |= pieces
        return starts, found

    def _filled(self, choices: Choices, given: Given) -> list[tuple[int, int]]:
        """Return (rank, devices) of those the core starts on what was free."""
        starts = {
            chosen.job
            for chosen in choices.starts
            if chosen.cause is Cause.FREE and chosen.job in given.starts
        } - choices.firm
        if not starts:
            return []
        return [
            (rank, given.starts[job]) for rank, job in enumerate(choices.ranking) if job in starts
        ]

    def edges(self) -> list[tuple[int, int, int]]:
        """Return (row, devices, instant) of what is kept for those that hold off."""
        return [
            (row, count, self.waits[job].start)
            for job in sorted(self.waits)
            for row, count in self.waits[job].kept
        ]

    def consolidate(self, given: Given, room: Room) -> None:
        """Let gangs that run spread move to what nobody wants, where that saves much."""
        Consolidation(
            snapshot=self.snapshot,
            shapes=self.shapes,
            books=self.books,
            desk=self.desk,
            access=self.access,
            spread=self.spread,
        ).move(given, room)

    def kept(self, free: int) -> int:
        """Return the devices of ``free`` that are kept for those that hold off."""
        return self._kept(self.waits, free)

    def _kept(self, waits: Mapping[JobId, Better], free: int) -> int:
        bits, found = self.shapes.rows.bits, 0
        for _, better in sorted(waits.items()):
            for row, count in better.kept:
                here = free & bits[row] & ~found
                found |= lowest(here, min(count, here.bit_count()))
        return found

    @property
    def patience(self) -> Mapping[JobId, Instant]:
        """Return what to remember: for each job that held off and still waits, until when."""
        before = self.snapshot.planner_state.patience
        desk = self.desk
        after = {job: at for job, at in before.items() if job in desk.waiting or job in desk.aside}
        after.update((job, better.patience) for job, better in self.waits.items())
        return before if after == before else {job: after[job] for job in sorted(after)}

    def _passed_over(
        self, choices: Choices, given: Given, most: int
    ) -> Iterable[tuple[int, JobId]]:
        """Yield (rank, job) of waiting gangs that might fit on ``most`` devices, first in rank
        first."""
        found = 0
        patient = self.snapshot.planner_state.patience
        for rank, job in enumerate(choices.ranking):
            request = self.desk.kinds[job][1]
            if request.count > most and job not in patient:
                continue
            if job in given.starts or job in given.holds or job in choices.firm:
                continue
            if self.spread.matters(request):
                yield rank, job
                found += 1
                if found == MOST_LOOKED_AT:
                    return

    def _better(self, job: JobId, devices: int, given: Given) -> Better | None:
        """Return the place that ends a job sooner than ``devices`` now; None: it takes those."""
        request, now = self.desk.kinds[job][1], self.snapshot.now
        factor = self.spread.factor(request, devices)
        if factor <= 1.0:
            return None
        left_s = left_at(self.snapshot, self.books, job, request.count)
        ends_at = now + int(left_s * factor)
        known = self.snapshot.planner_state.patience.get(job)
        patience = Instant(now + int(left_s * (factor - 1.0))) if known is None else known
        return self._first(job, request, left_s, ends_at, patience, given)

    def _still_awaited(self, job: JobId, given: Given) -> Better | None:
        """Return the place a job that gave up another one waits for, while it has patience."""
        patience = self.snapshot.planner_state.patience.get(job)
        if patience is None:
            return None
        request = self.desk.kinds[job][1]
        left_s = left_at(self.snapshot, self.books, job, request.count)
        ends_at = patience + left_s + 1
        return self._first(job, request, left_s, ends_at, patience, given)

    def _first(
        self,
        job: JobId,
        request: GpuRequest,
        left_s: int,
        ends_at: int,
        patience: Instant,
        given: Given,
    ) -> Better | None:
        """Return the place that comes by ``patience`` and ends first, if before ``ends_at``."""
        facts, rows, now = self.desk.waiting[job], self.shapes.rows, self.snapshot.now
        if patience <= now:
            return None
        free = rows.counts(given.free)
        counts = FreeCounts(rows.nodes, free)
        avoid = self._closed(job)
        best: Better | None = None
        gained: dict[int, int] = {}
        for until, other, held in merge(self._releases(), self._begun(given, job)):
            if until > patience or until + left_s >= ends_at:
                break
            if other in given.stops:
                continue
            open_held = tuple(pair for pair in held if pair[0] not in rows.shut)
            counts.give(open_held)
            for row, count in open_held:
                gained[row] = gained.get(row, 0) + count
            found = counts.place(facts.gpus, facts.pools, facts.within, avoid)
            if found is None:
                continue
            factor = self.spread.factor_of_rows(request, (row for row, _ in found))
            end = until + int(left_s * factor)
            if end < ends_at:
                ends_at = end
                kept = [(row, count - gained.get(row, 0)) for row, count in found]
                best = Better(
                    start=until,
                    end=Instant(end),
                    patience=patience,
                    kept=tuple(pair for pair in kept if pair[1] > 0),
                )
        return best

    def _closed(self, job: JobId) -> frozenset[int]:
        """Return the rows that reservations keep a job from."""
        if not self.access.calendar.windows:
            return frozenset()
        closed = self.shapes.where.ready & ~self.access.open_to(job)
        return frozenset(row for row, bits in enumerate(self.shapes.rows.bits) if bits & closed)

    def _begun(self, given: Given, but: JobId) -> list[tuple[Instant, JobId, Held]]:
        """Return when those that start now are expected to be gone."""
        found = []
        for job in given.starts.keys() - {but}:
            gpus = self.desk.kinds[job][1].count
            until = self.snapshot.now + left_at(self.snapshot, self.books, job, gpus)
            found.append((Instant(until), job, self.shapes.rows.held(given.starts[job])))
        return sorted(found)

    def _releases(self) -> list[tuple[Instant, JobId, Held]]:
        """Return when everybody that holds devices is expected to be gone, soonest first."""
        if self._ends is None:
            wishes, desk, books = Wishes(self.snapshot, self.shapes), self.desk, self.books
            kept = desk.promised  # what is leaving may be leaving for them
            self._ends = sorted(
                (wishes.until(books.live[job], books.settled[job]), job, holding.held)
                for job, holding in desk.holdings.of.items()
                if job in books.live and not (kept and job in desk.leaving)
            )
        return self._ends
