from typing import Any

import pytest

from reconciler.domain.job import PriorityClass
from reconciler.domain.plan import Decision, Plan, Stop, Verb
from reconciler.domain.policy import PreemptionPolicy
from reconciler.planning.invariants import check
from reconciler.planning.plan import plan
from reconciler.planning.preemption import EXACT_UP_TO, may_preempt
from tests.builders import a_snapshot
from tests.values import a_job_id


def planned(**given: Any) -> Plan:
    snapshot = a_snapshot(**given)
    found, _ = plan(snapshot)
    check(snapshot, found)
    return found


def victims(**given: Any) -> list[str]:
    decisions = planned(**given).decisions
    return [job.split("/")[1] for job, d in decisions.items() if d.verb is Verb.PREEMPT]


def of(found: Plan, name: str) -> Decision:
    return found.decisions[a_job_id(name)]


HOTFIX = {"gpus": 8, "priority": "P0"}


@pytest.mark.parametrize("preemptor", PriorityClass)
@pytest.mark.parametrize("victim", PriorityClass)
def test_only_strictly_lower_classes_are_victims_whatever_the_policy(
    victim: PriorityClass, preemptor: PriorityClass
) -> None:
    everyone = PreemptionPolicy(victims_of={p: tuple(PriorityClass) for p in PriorityClass})

    assert may_preempt(victim, preemptor, everyone) is (victim > preemptor)


def test_the_default_policy_lets_p1_stop_p3_and_p4_only() -> None:
    policy = PreemptionPolicy()

    assert not may_preempt(PriorityClass.P2, PriorityClass.P1, policy)
    assert may_preempt(PriorityClass.P3, PriorityClass.P1, policy)
    assert not may_preempt(PriorityClass.P4, PriorityClass.P2, policy)


def test_a_victim_must_rank_below_its_preemptor() -> None:
    """A lower class that serves production with a hot model outranks this P1."""
    found = victims(
        nodes={"n1": 8},
        policy={"model_heat": {"hot": 1.0}},
        running={
            "online": {
                "gpus": 8,
                "priority": "P3",
                "serves_online": True,
                "model": "hot",
                "since_checkpoint": "1m",
            }
        },
        pending={"job": {"gpus": 8, "priority": "P1"}},
    )

    assert found == []


def test_work_since_the_start_counts_where_there_is_no_checkpoint() -> None:
    found = victims(
        nodes={"n1": 8, "n2": 8},
        running={
            "young": {"gpus": 8, "node": "n1", "ran": "10m", "estimate": "9h"},
            "old": {"gpus": 8, "node": "n2", "ran": "4h", "since_checkpoint": "12m"},
        },
        pending={"hotfix": HOTFIX},
    )

    assert found == ["young"]


def test_a_checkpoint_of_an_earlier_attempt_does_not_make_a_victim_dear() -> None:
    """Only what this attempt ran is at stake."""
    found = victims(
        nodes={"n1": 8, "n2": 8},
        running={
            "resumed": {
                "gpus": 8,
                "node": "n1",
                "ran": "1m",
                "since_checkpoint": "5h",
                "estimate": "9h",
            },
            "other": {"gpus": 8, "node": "n2", "ran": "4h", "since_checkpoint": "2m"},
        },
        pending={"hotfix": HOTFIX},
    )

    assert found == ["resumed"]


def test_victims_keep_the_devices_beside_the_gang_free_for_all() -> None:
    found = planned(
        nodes={"n1": 8},
        running={"sweep": {"gpus": 8, "since_checkpoint": "1m", "estimate": "9h"}},
        pending={"hotfix": {"gpus": 2, "priority": "P0"}},
    )
    hold = of(found, "hotfix").hold

    assert hold is not None and hold.gpus == 2


def test_two_preemptors_do_not_share_a_victim() -> None:
    found = planned(
        nodes={"n1": 8, "n2": 8},
        running={
            "a": {"gpus": 8, "node": "n1", "since_checkpoint": "1m", "estimate": "9h"},
            "b": {"gpus": 8, "node": "n2", "since_checkpoint": "2m", "estimate": "9h"},
        },
        pending={"x": HOTFIX, "y": HOTFIX},
    )

    assert of(found, "x").victims == ("research/a",)
    assert of(found, "y").victims == ("research/b",)


def test_the_second_preemptor_uses_what_is_left_of_the_first_victim() -> None:
    found = planned(
        nodes={"n1": 8},
        running={"sweep": {"gpus": 8, "since_checkpoint": "1m", "estimate": "9h"}},
        pending={"x": {"gpus": 4, "priority": "P0"}, "y": {"gpus": 4, "priority": "P0"}},
    )

    assert of(found, "x").victims == ("research/sweep",)
    assert of(found, "y").reason.value == "gpus_busy"
    assert found.forecast[a_job_id("y")].start_p50 == found.forecast[a_job_id("x")].start_p50


def test_a_victim_is_told_its_grace() -> None:
    found = planned(
        nodes={"n1": 8},
        running={"sweep": {"gpus": 8, "grace": "7m", "estimate": "9h"}},
        pending={"hotfix": HOTFIX},
    )

    assert [a.grace_s for a in found.actions if isinstance(a, Stop)] == [420]


def test_an_unobserved_or_starting_attempt_is_no_victim() -> None:
    starting = {"attempt_phase": "launching", "seen": "absent"}
    for unfit in ({"seen": "unknown"}, starting, {"file": "gone"}):
        running = {"sweep": {"gpus": 8, "estimate": "9h", **unfit}}
        assert victims(nodes={"n1": 8}, running=running, pending={"hotfix": HOTFIX}) == []


def test_a_job_that_may_not_start_stops_nobody() -> None:
    for barred in ({"after": ["sweep"]}, {"retry_in": "1m"}, {"suspend": True}):
        running = {"sweep": {"gpus": 8, "estimate": "9h"}}
        pending = {"hotfix": HOTFIX | barred}
        assert victims(nodes={"n1": 8}, running=running, pending=pending) == []


def test_nobody_is_stopped_on_a_node_that_starts_nothing() -> None:
    nodes = {"n1": {"gpus": 8, "state": "cordoned"}, "n2": {"gpus": 8, "state": "ready"}}
    running = {
        "on-cordoned": {"gpus": 8, "node": "n1", "since_checkpoint": "1m", "estimate": "9h"},
        "on-ready": {"gpus": 8, "node": "n2", "since_checkpoint": "1h", "estimate": "9h"},
    }

    assert victims(nodes=nodes, running=running, pending={"hotfix": HOTFIX}) == ["on-ready"]


def many_small(count: int, per_node: int) -> dict[str, dict[str, Any]]:
    """Return one-GPU jobs; the lower the number, the cheaper."""
    return {
        f"s{i:02d}": {
            "gpus": 1,
            "node": f"n{i // per_node}",
            "since_checkpoint": f"{i + 1}m",
            "estimate": "9h",
        }
        for i in range(count)
    }


def test_many_candidates_over_nodes_are_searched_node_by_node() -> None:
    found = victims(
        nodes={"n0": 8, "n1": 8},
        running=many_small(16, 8),
        pending={"hotfix": {"gpus": 3, "priority": "P0"}},
    )

    assert len(many_small(16, 8)) > EXACT_UP_TO
    assert found == ["s00", "s01", "s02"]


def test_many_candidates_in_one_place_are_searched_greedily_without_surplus() -> None:
    found = victims(
        nodes={"n0": {"gpus": 16}},
        running=many_small(16, 16),
        pending={"hotfix": {"gpus": 3, "priority": "P0"}},
    )

    assert found == ["s00", "s01", "s02"]


def test_a_gang_over_nodes_stops_the_cheapest_anywhere() -> None:
    found = victims(
        nodes={"n0": 8, "n1": 8},
        running=many_small(16, 8),
        pending={"hotfix": {"gpus": 10, "priority": "P0", "within": "cluster"}},
    )

    assert found == [f"s{i:02d}" for i in range(10)]


def test_the_victims_next_start_is_in_the_forecast() -> None:
    found = planned(
        nodes={"n1": 8},
        running={"sweep": {"gpus": 8, "ran": "1h", "estimate": "9h", "grace": "2m"}},
        pending={"hotfix": {"gpus": 8, "priority": "P0", "estimate": "1h"}},
    )
    hotfix, sweep = found.forecast[a_job_id("hotfix")], found.forecast[a_job_id("sweep")]

    assert hotfix.start_p50 == found.now + 90
    assert hotfix.start_p90 == found.now + 120
    assert hotfix.rests_on == ("research/sweep",)
    assert sweep.start_p50 == hotfix.end_p50
    assert sweep.rests_on == ("research/hotfix",)
