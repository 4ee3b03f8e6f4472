"""One plan of any snapshot in which somebody reserves and something has a budget."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.policy import Order
from reconciler.domain.snapshot import Snapshot
from reconciler.planning.invariants import check
from reconciler.planning.plan import plan
from reconciler.planning.statuses import next_statuses
from tests.calendars import with_calendar
from tests.strategies import DURATIONS, TEAMS, snapshots

STARTS = ("0s", "1m", "10m", "1h", "5h")


@st.composite
def reservations(draw: st.DrawFn) -> dict[str, Any]:
    """Up to three, of which one may be booked, open or gone already."""
    found: dict[str, Any] = {}
    for number in range(draw(st.integers(1, 3))):
        said: dict[str, Any] = {
            "gpus": draw(st.sampled_from((1, 1, 2, 4))),
            "within": draw(st.sampled_from(("node", "cluster"))),
            "duration": draw(st.sampled_from(DURATIONS)),
            "exclusive": draw(st.booleans()),
            "budget": draw(st.sampled_from((None, "q4"))),
            "for": draw(st.sampled_from(((), (), ("vision/a", "research/b")))),
            draw(st.sampled_from(("start_in", "started_ago"))): draw(st.sampled_from(STARTS)),
        }
        if number == 0 and draw(st.booleans()):
            said |= {"gpus": 2, "booked": {"n0": [0, 1]}, "file": draw(
                st.sampled_from(("valid", "valid", "gone")))}  # fmt: skip
            if "started_ago" in said and draw(st.booleans()):
                said |= {"phase": "active", "idle_gpus": 2, "idle_for": "40m"}
            said["release_if_idle"] = "30m"
        found[f"{draw(st.sampled_from(TEAMS))}/reservation-{number}"] = said
    return found


@st.composite
def calendars(draw: st.DrawFn) -> Snapshot:
    """A snapshot with reservations and a budget that some of the jobs are charged to."""
    snapshot = with_calendar(
        draw(snapshots()),
        draw(reservations()),
        {"q4": {"limit": draw(st.sampled_from((1, 20, 200))), "used": 0.5}},
    )
    jobs = {
        job: replace(wanted, spec=replace(wanted.spec, budget_group="q4"))
        if wanted.spec is not None and draw(st.booleans())
        else wanted
        for job, wanted in snapshot.desired.jobs.items()
    }
    order = draw(st.sampled_from(tuple(Order)))
    return replace(
        snapshot,
        desired=replace(snapshot.desired, jobs=jobs),
        policy=replace(snapshot.policy, order=order),
    )


@given(calendars())
def test_every_plan_keeps_the_rules_of_the_calendar(snapshot: Snapshot) -> None:
    planned, _ = plan(snapshot)

    assert len(planned.forecast) <= len(planned.decisions)  # it is made when it is read
    check(snapshot, planned)


@given(calendars())
def test_a_memo_changes_nothing(snapshot: Snapshot) -> None:
    first, memo = plan(snapshot)
    later = replace(snapshot, now=snapshot.now + 15)

    again, _ = plan(later, memo)
    afresh, _ = plan(later)

    assert again.digest == afresh.digest
    assert again.reservations == afresh.reservations
    assert again.budgets == afresh.budgets
    assert memo.update == next_statuses(snapshot, first)


@given(calendars())
def test_what_is_decided_about_reservations_is_decided_once(snapshot: Snapshot) -> None:
    _, memo = plan(snapshot)
    update = memo.update
    kept = {**snapshot.reservations, **{each.reservation: each for each in update.reservations}}
    statuses = {**snapshot.statuses, **{each.job: each for each in update.changed}}
    after = replace(
        snapshot,
        reservations=dict(sorted(kept.items())),
        statuses=dict(sorted(statuses.items())),
    )

    again = plan(after)[0].reservations

    booked = {(d.reservation, d.occurrence.start) for d in plan(snapshot)[0].reservations}
    assert not [
        d
        for d in again
        if (d.reservation, d.occurrence.start) in booked and d.verb.value in ("book", "refuse")
    ]
