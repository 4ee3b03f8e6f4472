"""What stands before any ranking: the calendar of reservations, the budgets, and fair use.

Both are worked out each cycle from what is booked and spent, and cost nothing where there is
neither.  They overrule what is settled about attempts in the way of a window or over a budget,
and bar jobs that wait for a window or for more budget.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from reconciler.domain.budget import BudgetUse
from reconciler.domain.plan import Decision, PlannerState, Used
from reconciler.domain.reason import Reason
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import JobId, TeamName
from reconciler.planning.books import Books
from reconciler.planning.budget import Ledger, charge_idle
from reconciler.planning.eligibility import Bar
from reconciler.planning.fair_use import Factors, factors, used_after
from reconciler.planning.reservations import keep_calendar
from reconciler.planning.shapes import Shapes
from reconciler.planning.windows import NO_CALENDAR, Calendar


@dataclass(frozen=True, slots=True, kw_only=True)
class Agenda:
    """One cycle's windows and budgets."""

    calendar: Calendar = NO_CALENDAR
    leaving: Mapping[JobId, Decision] = field(default_factory=dict)
    """Live jobs that are asked to leave for a window or a budget."""
    bars: Mapping[JobId, Bar] = field(default_factory=dict)
    """Jobs that could start but for a window or a budget."""
    spent: Mapping[str, int] | None = None
    """What budgets have spent once this cycle is recorded; None: as before."""
    uses: tuple[BudgetUse, ...] = ()
    used: Mapping[TeamName, Used] | None = None
    """What teams have used once this cycle is recorded; None: as before."""
    favour: Factors = field(default_factory=dict)
    """What fair use makes of each team."""

    def next_state(self, state: PlannerState) -> PlannerState:
        """Return what to remember of the budgets and of what teams used."""
        if self.used is not None and self.used is not state.used:
            state = replace(state, used=self.used)
        if self.spent is None or self.spent == state.spent:
            return state
        return replace(state, spent=self.spent)


NO_AGENDA = Agenda()


def keep_agenda(snapshot: Snapshot, shapes: Shapes, books: Books) -> Agenda:
    """Return the agenda; :data:`NO_AGENDA` where nobody reserves and nothing is counted."""
    agenda = NO_AGENDA
    if snapshot.policy.fair_use.half_life_s:
        used = used_after(snapshot, books.ended)
        agenda = Agenda(used=used, favour=factors(snapshot, used, books.live))
    if not snapshot.budgets and not snapshot.reservations and not snapshot.desired.reservations:
        return agenda
    ledger = Ledger(snapshot, shapes, live=books.live, ended=books.ended)
    calendar = keep_calendar(
        snapshot,
        shapes,
        settled=books.settled,
        live=books.live,
        bars=books.bars,
        budget=ledger.room_for,
    )
    ledger.keep_windows(calendar.windows)
    budget_bars = ledger.bars(books.bars, books.standings)
    return replace(
        agenda,
        calendar=calendar,
        leaving={**ledger.leaving(books.settled), **calendar.leaving},
        bars={**budget_bars, **_planned(calendar, books)},
        spent=charge_idle(ledger.spent, snapshot, calendar.decisions),
        uses=ledger.uses(),
    )


def _planned(calendar: Calendar, books: Books) -> dict[JobId, Bar]:
    """Return the bars of jobs that a window names which has not opened yet."""
    found: dict[JobId, Bar] = {}
    named = {job for window in calendar.windows for job in window.members}
    for job in sorted(named):
        window = calendar.wait_for(job) if job in books.bars else None
        if window is not None and books.bars[job] is None:
            found[job] = Bar(
                reason=Reason.RESERVATION_PLANNED,
                detail=f"runs in reservation {window.reservation}",
                until=window.start,
            )
    return found
