"""The two orders a plan may be made in, behind one face.

By score: every contender gets its earliest place in the order of the scores, and whoever is placed
at this instant starts.  By value: who starts and who leaves is chosen for now, and when everybody
else starts is only predicted.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from reconciler.domain.plan import Decision, Expectation, PlannerState
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import JobId
from reconciler.planning.agenda import Agenda
from reconciler.planning.altered import altered
from reconciler.planning.books import Books
from reconciler.planning.by_value import ByValue
from reconciler.planning.decisions import Places
from reconciler.planning.desk import Desk, lay_out
from reconciler.planning.memo import Memo
from reconciler.planning.noise import remembered
from reconciler.planning.outlook import Outlook
from reconciler.planning.shapes import Shapes
from reconciler.planning.timetable import Timetable
from reconciler.planning.value.decide import ValueMemo
from reconciler.planning.waits import Kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """What comparing jobs decided."""

    decided: Mapping[JobId, Decision]
    """About every job that wants devices, every victim, and whoever the agenda asks to leave."""
    places: Callable[[], Places]
    forecast: Callable[[], Mapping[JobId, Expectation]]
    state: PlannerState
    ranking: tuple[JobId, ...] = ()
    """Jobs that want devices, first in rank first, as far as the order ranks them by itself."""
    desk: Desk | None = None
    kept: Kept | None = None
    """What was told to who waits."""
    value: ValueMemo = field(default_factory=ValueMemo)


def by_score(
    snapshot: Snapshot,
    shapes: Shapes,
    books: Books,
    agenda: Agenda,
    memo: Memo | None,  # noqa: ARG001  both orders are called alike
) -> Ranked:
    """Compare the jobs by score alone."""
    timetable = Timetable(snapshot, shapes, books, agenda)
    return Ranked(
        decided=timetable.decisions(),
        places=timetable.places,
        forecast=timetable.forecast,
        state=altered(_remembered(snapshot, books), patience=timetable.patience()),
    )


def _remembered(snapshot: Snapshot, books: Books) -> PlannerState:
    """Return the planner state with what the attempts that just ended say of their nodes."""
    state = snapshot.planner_state
    lost_on = remembered(state.lost_on, books.ended.values(), snapshot.now)
    return state if lost_on is state.lost_on else altered(state, lost_on=lost_on)


def by_value(
    snapshot: Snapshot, shapes: Shapes, books: Books, agenda: Agenda, memo: Memo | None
) -> Ranked:
    """Compare the jobs by the value of what they wait for."""
    before = None if memo is None else memo.desk
    desk = lay_out(snapshot, books, shapes.rows, shapes.where, before, agenda.leaving)
    value = ValueMemo() if memo is None else memo.value
    chosen = ByValue(snapshot, shapes, books, agenda, desk)
    decided = chosen.decisions(
        value, {} if memo is None else memo.decided, None if memo is None else memo.kept
    )
    choices = chosen.choices
    outlook = Outlook(
        snapshot,
        shapes,
        books,
        chosen.bars,
        decided,
        chosen.ranking,
        agenda.calendar.windows,
        agenda.favour,
    )
    state = _remembered(snapshot, books)
    if choices is not None:
        state = altered(
            state,
            value=choices.state,
            interruptions=chosen.interruptions.made(),
            patience=chosen.places.patience,
        )
    return Ranked(
        decided=decided,
        places=outlook.places,
        forecast=outlook.forecast,
        state=state,
        ranking=chosen.ranking,
        desk=desk,
        kept=chosen.kept,
        value=value,
    )
