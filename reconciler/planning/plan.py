"""Decides: one snapshot in, one plan out.

Pure.  The steps are the house's: facts, files and edits settle what needs no comparison; windows
and budgets are kept; who is left is ranked, placed, perhaps by preemption; what comes out is one
decision a job, the actions they ask for, and a forecast of everyone.

Only what changed since the memo's cycle is worked out again; the forecast is made when it is read.
"""

from collections.abc import Mapping

from reconciler.domain.plan import Decision, Plan
from reconciler.domain.policy import Order
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import JobId
from reconciler.planning.actions import actions
from reconciler.planning.agenda import keep_agenda
from reconciler.planning.books import Books, open_books
from reconciler.planning.decisions import Decisions, Lazy
from reconciler.planning.digest import digest_of_changes, is_change
from reconciler.planning.memo import Memo
from reconciler.planning.orders import Ranked, by_score, by_value
from reconciler.planning.power import share_power
from reconciler.planning.shapes import Shapes
from reconciler.planning.table import Table

_ORDERS = {Order.SCORE: by_score, Order.VALUE: by_value}


def plan(snapshot: Snapshot, memo: Memo | None = None) -> tuple[Plan, Memo]:
    """Return the plan for ``snapshot`` and a memo that makes the next call cheaper."""
    shapes = Shapes(snapshot.cluster, None if memo is None else memo.known)
    books = open_books(snapshot, shapes, None if memo is None else memo.books)
    if books.touched is None:
        memo = None
    share_power(snapshot, shapes, books)
    agenda = keep_agenda(snapshot, shapes, books)
    ranked = _ORDERS[snapshot.policy.order](snapshot, shapes, books, agenda, memo)
    decisions = Decisions(books.settled, ranked.decided, ranked.places)
    news = _news(books, ranked.decided, memo)
    loud = {job for job in news if is_change(decisions.bare(job), snapshot.statuses.get(job))}
    if memo is not None:
        loud |= {job for job in memo.loud - news if job in decisions}
    asking = (decisions.bare(job) for job in sorted(loud | books.restless))
    asked = actions(asking, books.standings, snapshot)
    planned = Plan(
        now=snapshot.now,
        decisions=decisions,
        actions=asked,
        forecast=Lazy(ranked.forecast),
        planner_state=agenda.next_state(ranked.state),
        digest=digest_of_changes(
            (decisions.bare(job) for job in sorted(loud)), asked, agenda.calendar.decisions
        ),
        reservations=agenda.calendar.decisions,
        budgets=agenda.uses,
    )
    return planned, _memo(shapes, books, planned, ranked, news, loud)


def _memo(
    shapes: Shapes,
    books: Books,
    planned: Plan,
    ranked: Ranked,
    news: frozenset[JobId],
    loud: set[JobId],
) -> Memo:
    return Memo(
        known=shapes.known(),
        books=books,
        plan=planned,
        decided=ranked.decided,
        news=news,
        loud=frozenset(loud),
        ranking=ranked.ranking,
        desk=ranked.desk,
        kept=ranked.kept,
        value=ranked.value,
    )


def _news(books: Books, decided: Mapping[JobId, Decision], memo: Memo | None) -> frozenset[JobId]:
    """Return the jobs whose status may not be what this plan says.

    Those looked at again, those decided otherwise than before, and those whose change was never
    recorded.
    """
    if memo is None or books.touched is None:
        return frozenset(books.settled.keys() | decided.keys())
    moved = _moved(memo.decided, decided)
    moved |= books.touched
    moved.update(status.job for status in memo.update.changed)
    return frozenset(job for job in moved if job in books.standings)


def _moved(before: Mapping[JobId, Decision], decided: Mapping[JobId, Decision]) -> set[JobId]:
    """Return the jobs about which something else is decided than before, or nothing any more."""
    if isinstance(before, Table) and isinstance(decided, Table):
        changes = before.changes_to(decided)
        if changes is not None:
            return {
                job
                for job, old in changes.items()
                if (new := decided.get(job)) is not old and (new is None or not _is_alike(old, new))
            }
    before = dict(before)
    moved = {
        job
        for job, decision in decided.items()
        if (old := before.get(job)) is not decision and not _is_alike(old, decision)
    }
    return moved | (before.keys() - decided.keys())


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
