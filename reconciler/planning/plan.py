"""Decides: one snapshot in, one plan out.

Pure.  The steps are the house's: facts, files and edits settle what needs no comparison; who is
left is ranked, placed over time, perhaps by preemption; what comes out is one decision a job, the
actions they ask for, and a forecast of everyone.
"""

from collections.abc import Mapping

from reconciler.domain.plan import Decision, Plan, Verb
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import JobId
from reconciler.planning.actions import actions
from reconciler.planning.deletion import pruning
from reconciler.planning.digest import plan_digest
from reconciler.planning.eligibility import Bar, bar
from reconciler.planning.memo import Memo, Shapes
from reconciler.planning.settle import settle
from reconciler.planning.standing import Standing, standings
from reconciler.planning.timetable import Timetable


def plan(snapshot: Snapshot, memo: Memo | None = None) -> tuple[Plan, Memo]:
    """Return the plan for ``snapshot`` and a memo that makes the next call cheaper."""
    shapes = Shapes(snapshot.cluster, memo)
    jobs = standings(snapshot)
    prune = pruning(snapshot, jobs)
    decisions: dict[JobId, Decision] = {}
    wanting: list[JobId] = []
    for job, standing in jobs.items():
        decision = settle(snapshot, standing, prune)
        if decision is None:
            wanting.append(job)
        else:
            decisions[job] = decision
    bars = {job: _bar(snapshot, jobs, job, shapes) for job in wanting}
    for job, found in bars.items():
        if found is not None and found.is_held:
            decisions[job] = Decision(
                job=job, verb=Verb.WAIT, reason=found.reason, detail=found.detail
            )
    timetable = Timetable(snapshot, shapes, jobs, decisions, bars)
    decisions.update(timetable.decisions())
    ordered = {job: decisions[job] for job in sorted(decisions)}
    asked = actions(ordered, jobs, snapshot)
    planned = Plan(
        now=snapshot.now,
        decisions=ordered,
        actions=asked,
        forecast=timetable.forecast(),
        planner_state=snapshot.planner_state,
        digest=plan_digest(ordered, asked, snapshot.statuses),
    )
    return planned, shapes.memo()


def _bar(
    snapshot: Snapshot, jobs: Mapping[JobId, Standing], job: JobId, shapes: Shapes
) -> Bar | None:
    status, spec = jobs[job].status, jobs[job].spec
    assert status is not None and spec is not None  # settle leaves only such jobs
    return bar(status, spec, jobs=jobs, shapes=shapes, policy=snapshot.policy, now=snapshot.now)
