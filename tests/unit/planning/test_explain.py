from typing import Any

import pytest

from reconciler.errors import NotFoundError
from reconciler.planning.explain import Explanation, explain, headline
from reconciler.planning.plan import plan
from tests.builders import a_snapshot
from tests.values import NOW, a_job_id


def why(name: str, **given: Any) -> Explanation:
    snapshot = a_snapshot(**given)
    return explain(snapshot, plan(snapshot)[0], a_job_id(name))


def said(found: Explanation) -> dict[str, str]:
    return {check.name: check.words for check in found.checks}


def unmet(found: Explanation) -> list[str]:
    return [check.name for check in found.checks if not check.is_met]


def test_a_waiting_job_is_told_who_is_ahead_and_when_it_starts() -> None:
    found = why(
        "c",
        nodes={"n1": 8},
        running={"runs": {"gpus": 8, "ran": "1h", "estimate": "2h"}},
        pending={
            "a": {"gpus": 8, "priority": "P1", "estimate": "1h"},
            "b": {"gpus": 8, "priority": "P2", "estimate": "1h"},
            "c": {"gpus": 8, "priority": "P3", "estimate": "1h"},
            "d": {"gpus": 8, "priority": "P4", "estimate": "1h"},
        },
    )

    assert found.headline == "wait, gpus_busy"
    assert found.ahead == ("research/a", "research/b")
    assert (found.rank, found.ranked) == (3, 4)
    assert found.expected is not None
    assert found.expected.start_p50 == NOW + 3 * 3600
    assert found.expected.rests_on == ("research/b",)
    assert unmet(found) == ["gpus"]
    assert said(found)["gpus"] == (
        "needs 8 GPUs in one node; 0 GPUs of the kind are free, at most 0 on a node"
    )


def test_the_parts_of_the_score_add_up() -> None:
    snapshot = a_snapshot(pending={"job": {"priority": "P1", "serves_online": True}})
    planned, _ = plan(snapshot)
    found = explain(snapshot, planned, a_job_id("job"))

    assert found.score is not None
    assert found.score.priority_class == pytest.approx(0.225)
    assert found.score.total == planned.decisions[a_job_id("job")].score


def test_what_is_free_but_scattered_is_told() -> None:
    found = why(
        "job",
        nodes={"n1": 8, "n2": 8},
        running={"a": {"gpus": 6, "node": "n1"}, "b": {"gpus": 7, "node": "n2"}},
        pending={"job": {"gpus": 3}},
    )

    assert said(found)["gpus"] == (
        "needs 3 GPUs in one node; 3 GPUs of the kind are free, at most 2 on a node"
    )


def test_a_quota_is_told_in_numbers() -> None:
    found = why(
        "job",
        nodes={"n1": 8},
        teams={"research": {"quota": {"*": 4, "A100-80GB": 6}}},
        running={"a": {"gpus": 4}},
        pending={"job": {"gpus": 2}},
    )

    assert found.headline == "wait, quota_exceeded"
    assert unmet(found) == ["quota"]
    assert said(found)["quota"] == (
        "team research holds 4 of 4 GPUs, 4 of 6 A100-80GB; this asks for 2"
    )


def test_dependencies_are_told_one_by_one() -> None:
    found = why(
        "job",
        pending={"job": {"after": ["a", "b", "gone"]}, "b": {}},
        others={"a": {"phase": "succeeded"}},
    )

    assert [(c.is_met, c.words) for c in found.checks if c.name == "after"] == [
        (True, "research/a is succeeded"),
        (False, "research/b is pending"),
        (False, "research/gone does not exist"),
    ]


def test_a_held_request_is_told_what_the_cluster_lacks() -> None:
    found = why("job", nodes={"n1": 4}, pending={"job": {"gpus": 8}})

    assert "cluster" in unmet(found)
    assert said(found)["cluster"] == "the cluster has no place for 8 GPUs in one node"
    assert (found.rank, found.ahead, found.expected) == (None, (), None)


def test_a_refused_document_is_told_with_its_author() -> None:
    found = why("job", pending={"job": {"file": "never_valid"}})

    assert found.phase is None
    assert "Ada <ada@example.org>" in said(found)["document"]
    assert found.score is None


def test_a_running_job_is_told_where_it_runs() -> None:
    found = why("job", running={"job": {"gpus": 2}})

    assert found.headline == "keep"
    assert said(found) == {"document": "it is valid", "attempt": "attempt 1 is running on n1"}


def test_held_gpus_are_not_called_free() -> None:
    hold = [{"devices": {"n1": list(range(8))}, "victims": ["sweep"]}]
    given: dict[str, Any] = {
        "nodes": {"n1": 8},
        "running": {"sweep": {"gpus": 4, "cause": "preempt"}},
        "pending": {
            "hotfix": {"gpus": 8, "priority": "P0", "reason": "preempting", "holds": hold},
            "job": {"gpus": 1},
        },
    }

    assert "gpus" in unmet(why("job", **given))
    assert "0 GPUs of the kind are free" in said(why("job", **given))["gpus"]
    assert "4 GPUs of the kind are free" in said(why("hotfix", **given))["gpus"]


def test_an_unknown_job_is_told_so() -> None:
    with pytest.raises(NotFoundError, match="no job research/nobody"):
        why("nobody")


def test_other_teams_are_named_in_full() -> None:
    snapshot = a_snapshot(
        nodes={"n1": 8},
        running={"vision/sweep": {"gpus": 8, "estimate": "9h"}},
        pending={"hotfix": {"gpus": 8, "priority": "P0"}},
    )
    decisions = plan(snapshot)[0].decisions

    assert {headline(d) for d in decisions.values()} == {
        "wait, preempting vision/sweep",
        "preempt, for research/hotfix",
    }


def test_budgets_and_reservations_are_among_the_checks() -> None:
    snapshot = a_snapshot(
        budgets={"q4": {"limit": 20, "used": 19}},
        pending={
            "waits": {"gpus": 1, "limit": "9h", "budget_group": "q4"},
            "vision/long": {"gpus": 8, "preemptible": False, "limit": "9h"},
            "named": {"gpus": 1},
        },
        reservations={
            "demo": {"gpus": 4, "start_in": "3h", "for": ["named"], "booked": {"n1": [0, 1, 2, 3]}}
        },
    )
    planned, _ = plan(snapshot)

    def said(job: str) -> dict[str, tuple[bool, str]]:
        checks = explain(snapshot, planned, a_job_id(job)).checks
        return {check.name: (check.is_met, check.words) for check in checks}

    assert said("research/waits")["budget"] == (
        False,
        "budget q4: 19 used and promised, this asks for 9, of 20 GPU-hours",
    )
    assert said("vision/long")["reservation"][0] is False
    assert "4 GPUs kept from it" in said("vision/long")["reservation"][1]
    assert said("research/named")["reservation"] == (
        False,
        "it runs in reservation research/demo, not open yet",
    )
