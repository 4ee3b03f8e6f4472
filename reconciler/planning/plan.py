"""Decides: one snapshot in, one plan out.

Pure.  The steps are the house's: facts, files and edits settle what needs no comparison; who is
left is ranked, placed over time, perhaps by preemption; what comes out is one decision a job, the
actions they ask for, and a forecast of everyone.

Only what changed since the memo's cycle is worked out again; the forecast is made when it is read.
"""

from collections.abc import Mapping

from reconciler.domain.plan import Decision, Plan
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import JobId
from reconciler.planning.actions import actions
from reconciler.planning.books import Books, open_books
from reconciler.planning.decisions import Decisions, Lazy
from reconciler.planning.digest import digest_of_changes, is_change
from reconciler.planning.memo import Memo
from reconciler.planning.shapes import Shapes
from reconciler.planning.timetable import Timetable


def plan(snapshot: Snapshot, memo: Memo | None = None) -> tuple[Plan, Memo]:
    """Return the plan for ``snapshot`` and a memo that makes the next call cheaper."""
    shapes = Shapes(snapshot.cluster, None if memo is None else memo.known)
    books = open_books(snapshot, shapes, None if memo is None else memo.books)
    timetable = Timetable(snapshot, shapes, books)
    decided = timetable.decisions()
    decisions = Decisions(books.settled, decided, timetable.places)
    news = _news(books, decided, memo)
    loud = {job for job in news if is_change(decisions.bare(job), snapshot.statuses.get(job))}
    if memo is not None and books.touched is not None:
        loud |= {job for job in memo.loud - news if job in decisions}
    ordered = sorted(loud)
    asking = (decisions.bare(job) for job in sorted(loud | books.restless))
    asked = actions(asking, books.standings, snapshot)
    planned = Plan(
        now=snapshot.now,
        decisions=decisions,
        actions=asked,
        forecast=Lazy(timetable.forecast),
        planner_state=snapshot.planner_state,
        digest=digest_of_changes((decisions.bare(job) for job in ordered), asked),
    )
    after = Memo(
        known=shapes.known(),
        books=books,
        plan=planned,
        decided=decided,
        news=news,
        loud=frozenset(loud),
    )
    return planned, after


def _news(books: Books, decided: Mapping[JobId, Decision], memo: Memo | None) -> frozenset[JobId]:
    """Return the jobs whose status may not be what this plan says.

    Those looked at again, those decided otherwise than before, and those whose change was never
    recorded.
    """
    if memo is None or books.touched is None:
        return frozenset(books.settled.keys() | decided.keys())
    before = memo.decided
    moved = {
        job
        for job, decision in decided.items()
        if (old := before.get(job)) is not decision and not _is_alike(old, decision)
    }
    moved |= before.keys() - decided.keys()
    moved |= books.touched
    moved.update(status.job for status in memo.update.changed)
    return frozenset(job for job in moved if job in books.standings)


def _is_alike(old: Decision | None, new: Decision) -> bool:
    """True where two decisions differ in nothing but the place in the ranking."""
    return (
        old is not None
        and old.verb is new.verb
        and old.reason is new.reason
        and old.attempt is new.attempt
        and old.detail == new.detail
        and old.victims == new.victims
        and old.for_job == new.for_job
        and old.hold == new.hold
    )
