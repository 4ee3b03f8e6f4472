"""Nodes that lost work lately are used last, and only then."""

from dataclasses import replace

import pytest

from reconciler.domain.plan import Plan, PlannerState
from reconciler.domain.units import Instant, NodeName
from reconciler.planning.noise import DAY_S, noisy_nodes
from reconciler.planning.plan import plan
from tests.builders import NOW, a_job_id, a_snapshot

A, B, C = (a_job_id(name) for name in ("a", "b", "c"))
N1 = NodeName("n1")
ORDERS = ("score", "value")


def planned(order: str, lost_on: dict[NodeName, dict[str, Instant]], **given: object) -> Plan:
    snapshot = a_snapshot(
        **{"nodes": {"n1": 4, "n2": 4}, "policy": {"order": order}, **given}  # type: ignore[arg-type]
    )
    state = PlannerState(
        lost_on={n: {a_job_id(j): at for j, at in jobs.items()} for n, jobs in lost_on.items()}
    )
    return plan(replace(snapshot, planner_state=state))[0]


def node_of(answer: Plan, job: str) -> str:
    attempt = answer.decisions[a_job_id(job)].attempt
    assert attempt is not None
    return attempt.allocation.shares[0].node


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("preemptible", [True, False])
def test_a_node_that_lost_two_jobs_today_is_used_last(order: str, preemptible: bool) -> None:
    lost_on = {N1: {"a": Instant(NOW - 60), "b": Instant(NOW - 7200)}}
    job = {"gpus": 2, "preemptible": preemptible}

    assert node_of(planned(order, lost_on, pending={"next": job}), "next") == "n2"
    assert node_of(planned(order, {}, pending={"next": job}), "next") == "n1"


@pytest.mark.parametrize("order", ORDERS)
def test_it_is_used_where_nothing_else_is_left(order: str) -> None:
    lost_on = {N1: {"a": NOW, "b": NOW}}

    answer = planned(order, lost_on, pending={"one": {"gpus": 4}, "two": {"gpus": 4}})

    assert {node_of(answer, "one"), node_of(answer, "two")} == {"n1", "n2"}


@pytest.mark.parametrize(
    "jobs",
    [
        {A: NOW},
        {A: NOW, B: Instant(NOW - DAY_S)},
        {},
    ],
)
def test_one_job_or_an_old_loss_says_nothing(jobs: dict[object, Instant]) -> None:
    assert noisy_nodes({N1: jobs}, NOW) == frozenset()  # type: ignore[dict-item]
    assert noisy_nodes({N1: {A: NOW, C: Instant(NOW - DAY_S + 1)}}, NOW) == {N1}


@pytest.mark.parametrize("order", ORDERS)
def test_a_lost_attempt_is_remembered_with_its_node(order: str) -> None:
    gone = {"gpus": 2, "node": "n2", "seen": "lost", "ran": "1h"}

    state = planned(order, {}, running={"gone": gone}).planner_state

    assert state.lost_on == {"n2": {a_job_id("gone"): NOW}}


@pytest.mark.parametrize("order", ORDERS)
def test_what_is_a_day_old_is_forgotten_with_the_next_loss(order: str) -> None:
    gone = {"gpus": 2, "node": "n2", "seen": "lost", "ran": "1h"}
    old = {N1: {"a": Instant(NOW - DAY_S)}}

    state = planned(order, old, running={"gone": gone}).planner_state

    assert list(state.lost_on) == ["n2"]
