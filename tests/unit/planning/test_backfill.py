"""The plan over time, seen through whole plans: who starts when, and what that rests on."""

from typing import Any

from reconciler.domain.plan import Expectation, Plan
from reconciler.planning.plan import plan
from tests.builders import a_snapshot
from tests.values import a_job_id

HOUR = 3600


def planned(**given: Any) -> Plan:
    return plan(a_snapshot(**given))[0]


def expected(found: Plan, name: str) -> Expectation:
    return found.forecast[a_job_id(name)]


def starts_in(found: Plan, name: str) -> int:
    return expected(found, name).start_p50 - found.now


def test_jobs_are_planned_one_after_the_other() -> None:
    found = planned(
        nodes={"n1": 8},
        pending={
            "a": {"gpus": 8, "estimate": "1h", "priority": "P1"},
            "b": {"gpus": 8, "estimate": "2h", "priority": "P2"},
            "c": {"gpus": 8, "estimate": "1h", "priority": "P3"},
        },
    )

    assert [starts_in(found, name) for name in "abc"] == [0, HOUR, 3 * HOUR]
    assert expected(found, "c").rests_on == ("research/b",)


def test_a_lower_rank_never_delays_a_planned_start() -> None:
    """With and without the lower jobs, the higher ones are planned alike."""
    running = {"half": {"gpus": 4, "ran": "1h", "estimate": "4h"}}
    higher = {
        "big": {"gpus": 8, "priority": "P1", "estimate": "2h"},
        "next": {"gpus": 6, "priority": "P2", "estimate": "1h"},
    }
    lower = {
        f"low{i}": {"gpus": 1 + i % 4, "priority": "P4", "estimate": f"{1 + i}h"} for i in range(8)
    }

    without = planned(nodes={"n1": 8}, running=running, pending=higher)
    with_lower = planned(nodes={"n1": 8}, running=running, pending=higher | lower)

    for name in higher:
        assert starts_in(with_lower, name) == starts_in(without, name)


def test_a_dependent_is_planned_right_after_its_dependency() -> None:
    found = planned(
        nodes={"n1": 8},
        running={"train": {"gpus": 4, "ran": "1h", "estimate": "3h"}},
        pending={
            "eval": {"gpus": 2, "after": ["train"], "estimate": "1h", "priority": "P0"},
            "report": {"gpus": 1, "after": ["eval"], "priority": "P0"},
        },
    )

    assert starts_in(found, "eval") == 2 * HOUR
    assert starts_in(found, "report") == 3 * HOUR
    assert expected(found, "eval").rests_on == ("research/train",)
    assert expected(found, "report").rests_on == ("research/eval",)


def test_a_chain_of_dependencies_is_planned_whatever_its_ranks() -> None:
    found = planned(
        nodes={"n1": 8},
        pending={
            "first": {"gpus": 1, "estimate": "1h", "priority": "P4"},
            "second": {"gpus": 1, "estimate": "1h", "priority": "P0", "after": ["first"]},
            "third": {"gpus": 1, "estimate": "1h", "priority": "P2", "after": ["second"]},
        },
    )

    assert [starts_in(found, name) for name in ("first", "second", "third")] == [0, HOUR, 2 * HOUR]


def test_a_circle_of_dependencies_has_no_forecast() -> None:
    found = planned(
        nodes={"n1": 8}, pending={"a": {"after": ["b"]}, "b": {"after": ["a"]}, "c": {}}
    )

    assert list(found.forecast) == ["research/c"]


def test_a_dependency_that_rests_gives_no_forecast() -> None:
    found = planned(
        nodes={"n1": 8},
        pending={"job": {"after": ["rests"]}},
        others={"rests": {"phase": "suspended", "reason": "suspend_asked", "suspend": True}},
    )

    assert list(found.forecast) == []


def test_a_back_off_is_part_of_the_forecast() -> None:
    found = planned(
        nodes={"n1": 8}, pending={"job": {"gpus": 1, "retry_in": "5m", "tries_used": 1}}
    )

    assert starts_in(found, "job") == 300


def test_a_start_that_waits_for_quota_rests_on_the_teams_own_job() -> None:
    found = planned(
        nodes={"n1": 8, "n2": 8},
        teams={"research": {"quota": {"*": 8}}},
        running={"mine": {"gpus": 8, "ran": "1h", "estimate": "3h"}},
        pending={"job": {"gpus": 8}},
    )

    assert starts_in(found, "job") == 2 * HOUR
    assert expected(found, "job").rests_on == ("research/mine",)


def test_p90_is_later_than_p50_and_takes_everything_to_last_longer() -> None:
    found = planned(
        nodes={"n1": 8},
        running={"mine": {"gpus": 8, "ran": "1h", "estimate": "3h"}},
        pending={"job": {"gpus": 8, "estimate": "2h"}},
    )
    job = expected(found, "job")

    assert (job.start_p50 - found.now, job.start_p90 - found.now) == (2 * HOUR, 7 * HOUR // 2)
    assert (job.end_p50 - found.now, job.end_p90 - found.now) == (4 * HOUR, 13 * HOUR // 2)


def test_the_p90_walk_starts_nobody_that_the_decision_left_waiting() -> None:
    """If everything lasted its p90 the job could start now; it was decided that it does not."""
    found = planned(
        nodes={"n1": 8},
        running={"half": {"gpus": 4, "ran": "4h", "estimate": "6h"}},
        pending={
            "big": {"gpus": 8, "priority": "P1", "estimate": "4h"},
            "slow": {"gpus": 4, "priority": "P3", "estimate": "3h"},
        },
    )
    slow = expected(found, "slow")

    assert found.decisions[a_job_id("slow")].reason.value == "behind_higher_rank"
    assert (slow.start_p50 - found.now, slow.start_p90 - found.now) == (6 * HOUR, 11 * HOUR)


def test_a_job_that_leaves_a_node_is_told_by_its_next_start() -> None:
    found = planned(
        nodes={"n1": {"gpus": 8, "state": "draining"}, "n2": 8},
        running={
            "moves": {"gpus": 8, "cause": "drain", "asked_ago": "0s", "reason": "node_draining"},
            "there": {"gpus": 8, "node": "n2", "ran": "1h", "estimate": "2h"},
        },
    )

    assert starts_in(found, "moves") == HOUR
    assert expected(found, "moves").rests_on == ("research/there",)


def test_a_job_that_just_failed_keeps_its_place() -> None:
    """It may start in the next cycle; a lower job may not slip in for hours."""
    found = planned(
        nodes={"n1": 8},
        running={
            "failed": {
                "gpus": 8,
                "priority": "P1",
                "seen": "ended",
                "outcome": "failed",
                "estimate": "2h",
            }
        },
        pending={
            "slow": {"gpus": 7, "priority": "P3", "estimate": "5h"},
            "quick": {"gpus": 1, "priority": "P3", "estimate": "20s"},
        },
    )

    assert starts_in(found, "failed") == 30
    assert found.decisions[a_job_id("quick")].verb.value == "start"
    assert found.decisions[a_job_id("slow")].reason.value == "behind_higher_rank"
