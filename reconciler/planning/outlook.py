"""What the forecast of everyone starts from, once a cycle has decided by value.

Made when somebody reads the forecast: holders and contenders cost a millisecond a hundred jobs,
which a cycle that only starts and stops does not pay.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.domain.plan import Decision, Expectation, Verb
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import Instant, JobId
from reconciler.planning.board import Contender, Holder
from reconciler.planning.books import Books
from reconciler.planning.contenders import Wishes
from reconciler.planning.decisions import Places
from reconciler.planning.eligibility import Bar
from reconciler.planning.everyone import Everyone, Fixed
from reconciler.planning.fair_use import Factors
from reconciler.planning.forecast import forecast
from reconciler.planning.remaining import Moment
from reconciler.planning.shapes import Shapes
from reconciler.planning.slowdown import slowdown_at
from reconciler.planning.spread import Spread
from reconciler.planning.topology import bits_of
from reconciler.planning.windows import Window


@dataclass(frozen=True, slots=True)
class Outlook:
    """One cycle's decisions, seen from the future."""

    snapshot: Snapshot
    shapes: Shapes
    books: Books
    bars: Mapping[JobId, Bar | None]
    """Of every job that wants devices: what keeps it from starting, if anything."""
    decided: Mapping[JobId, Decision]
    order: tuple[JobId, ...]
    """Jobs that want devices, first in rank first; whoever is missing goes last."""
    windows: tuple[Window, ...] = ()
    """What reservations keep."""
    favour: Factors = field(default_factory=dict)
    """What fair use makes of each team."""

    def places(self) -> Places:
        """Return rank and score of every job that wants devices."""
        wishes = Wishes(self.snapshot, self.shapes, self.favour)
        found = {}
        for rank, job in enumerate(self._ranked(), start=1):
            contender = wishes.pending(self.books.standings[job], self.bars[job], holders=())
            found[job] = (rank, -contender.key[1])
        return found

    def forecast(self) -> dict[JobId, Expectation]:
        """Return what is expected of everybody that holds devices or has a place."""
        holders = self._holders()
        contenders, fixed = self._contenders(holders)
        return forecast(
            Everyone(
                now=self.snapshot.now,
                where=self.shapes.where,
                gangs=self.shapes.gangs,
                teams=self.snapshot.teams,
                holders=[holders[job] for job in sorted(holders)],
                contenders=contenders,
                fixed=fixed,
                windows=self.windows,
                spread=Spread(self.shapes, slowdown_at(self.snapshot)),
            )
        )

    def _ranked(self) -> list[JobId]:
        bars = self.bars
        first = [job for job in self.order if job in bars]
        known = set(first)
        return [*first, *(job for job in sorted(bars) if job not in known)]

    def _holders(self) -> dict[JobId, Holder]:
        wishes = Wishes(self.snapshot, self.shapes)
        found = {}
        for job, standing in self.books.live.items():
            decision = self.decided.get(job, self.books.settled[job])
            found[job] = wishes.holder(standing, decision)
        return found

    def _contenders(
        self, holders: Mapping[JobId, Holder]
    ) -> tuple[list[Contender], dict[JobId, Fixed]]:
        wishes = Wishes(self.snapshot, self.shapes)
        fixed: dict[JobId, Fixed] = {}
        ranked = []
        for job in self._ranked():
            ranked.append(wishes.pending(self.books.standings[job], self.bars[job], holders=()))
            given = self._fixed(job, holders)
            if given is not None:
                fixed[job] = given
        return [*ranked, *self._others(wishes, holders)], fixed

    def _others(self, wishes: Wishes, holders: Mapping[JobId, Holder]) -> Iterator[Contender]:
        """Yield jobs that leave their devices, or just left them, and come back."""
        for job in sorted(self.books.ended):
            ended = wishes.ended(self.books.ended[job])
            if ended is not None:
                yield ended
        for job in sorted(holders):
            holder = holders[job]
            if holder.comes_back:
                yield wishes.returning(holder, self.books.live[job], holder.until.p50)

    def _fixed(self, job: JobId, holders: Mapping[JobId, Holder]) -> Fixed | None:
        decision, now, where = self.decided.get(job), self.snapshot.now, self.shapes.where
        if decision is None:
            return None
        if decision.verb is Verb.START and decision.attempt is not None:
            devices = bits_of(decision.attempt.allocation, where)
            return Fixed(devices=devices, start=Moment(p50=now, p90=now))
        if decision.hold is None:
            return None
        until = [holders[victim].until for victim in decision.victims if victim in holders]
        start = Moment(
            p50=max((each.p50 for each in until), default=Instant(now + 1)),
            p90=max((each.p90 for each in until), default=Instant(now + 1)),
        )
        return Fixed(devices=bits_of(decision.hold, where), start=start, rests_on=decision.victims)
