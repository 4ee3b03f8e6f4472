"""What holds for one plan of any snapshot."""

from dataclasses import replace
from random import Random
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.job import PriorityClass
from reconciler.domain.plan import Verb
from reconciler.domain.policy import Order
from reconciler.domain.snapshot import Snapshot
from reconciler.planning.invariants import check
from reconciler.planning.lifecycle import LEGAL, LEGAL_ATTEMPTS
from reconciler.planning.plan import plan
from reconciler.planning.statuses import next_statuses
from tests.strategies import snapshots

Key = TypeVar("Key")
Value = TypeVar("Value")


@given(snapshots())
def test_every_plan_keeps_the_invariants(snapshot: Snapshot) -> None:
    planned, _ = plan(snapshot)

    assert len(planned.forecast) <= len(planned.decisions)  # it is made when it is read
    check(snapshot, planned)


@given(snapshots())
def test_no_device_is_given_twice(snapshot: Snapshot) -> None:
    planned, _ = plan(snapshot)
    after = {status.job: status for status in next_statuses(snapshot, planned).changed}
    statuses = {**snapshot.statuses, **after}

    given_devices = [
        device
        for status in statuses.values()
        if status.live_attempt is not None
        for device in status.live_attempt.allocation.devices()
    ]

    assert len(given_devices) == len(set(given_devices))


@given(snapshots())
def test_statuses_move_only_along_legal_transitions(snapshot: Snapshot) -> None:
    planned, _ = plan(snapshot)

    for status in next_statuses(snapshot, planned).changed:
        before = snapshot.statuses.get(status.job)
        assert status.phase in LEGAL[before.phase if before is not None else None]
        known = {a.id: a.phase for a in before.attempts} if before is not None else {}
        for attempt in status.attempts:
            assert attempt.phase in LEGAL_ATTEMPTS[known.get(attempt.id)]


@given(snapshots())
def test_a_live_attempt_means_a_job_that_runs_or_stops(snapshot: Snapshot) -> None:
    planned, _ = plan(snapshot)

    for status in next_statuses(snapshot, planned).changed:
        live = status.live_attempt is not None
        assert live == (status.phase.value in ("running", "stopping"))


@given(snapshots(), st.randoms(use_true_random=False))
def test_input_order_does_not_matter(snapshot: Snapshot, random: Random) -> None:
    planned, _ = plan(snapshot)
    planned_shuffled, _ = plan(shuffled(snapshot, random))

    assert planned_shuffled == planned
    assert list(planned_shuffled.decisions) == list(planned.decisions)
    assert list(planned_shuffled.forecast) == list(planned.forecast)


def shuffled(snapshot: Snapshot, random: Random) -> Snapshot:
    def mixed(mapping: dict[Key, Value]) -> dict[Key, Value]:
        items = list(mapping.items())
        random.shuffle(items)
        return dict(items)

    nodes = list(snapshot.cluster.nodes)
    random.shuffle(nodes)
    return replace(
        snapshot,
        desired=replace(snapshot.desired, jobs=mixed(dict(snapshot.desired.jobs))),
        statuses=mixed(dict(snapshot.statuses)),
        observations=mixed(dict(snapshot.observations)),
        teams=mixed(dict(snapshot.teams)),
        cluster=replace(snapshot.cluster, nodes=tuple(nodes)),
    )


@given(snapshots(), snapshots())
def test_a_memo_never_changes_a_plan(one: Snapshot, other: Snapshot) -> None:
    _, memo = plan(other)
    _, own = plan(one)

    assert plan(one, memo)[0] == plan(one)[0]
    assert plan(one, own)[0] == plan(one)[0]


@given(snapshots())
def test_everyone_who_waits_for_gpus_has_a_forecast(snapshot: Snapshot) -> None:
    planned, _ = plan(snapshot)

    for job, decision in planned.decisions.items():
        if decision.verb is Verb.START:
            assert planned.forecast[job].start_p50 == snapshot.now
        if decision.reason.value in ("gpus_busy", "behind_higher_rank", "preempting"):
            assert planned.forecast[job].start_p50 > snapshot.now


@given(snapshots())
def test_victims_are_of_no_more_urgent_class(snapshot: Snapshot) -> None:
    planned, _ = plan(snapshot)

    for job, decision in planned.decisions.items():
        if decision.verb is Verb.PREEMPT and decision.for_job is not None:
            mine = snapshot.desired.jobs[job].spec
            theirs = snapshot.desired.jobs[decision.for_job].spec
            assert mine is not None and theirs is not None
            if snapshot.policy.order is Order.SCORE:
                assert mine.priority > theirs.priority
            elif decision.for_job in planned.planner_state.value.firm:
                assert mine.priority > PriorityClass.P0  # who waited too long may stop others
            else:
                assert mine.priority >= theirs.priority
