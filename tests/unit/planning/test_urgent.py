"""Whom urgent jobs make leave, and what is kept for them, under the order by value."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.plan import Plan, PlannerState, Verb
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.value_state import FirmPlace, ValueState
from reconciler.planning.invariants import check
from reconciler.planning.plan import plan
from tests.builders import NOW, a_job_id, a_snapshot


def _snapshot(firm: tuple[str, ...] = (), **given: Any) -> Snapshot:
    places = {a_job_id(name): FirmPlace(since=NOW - 60) for name in firm}
    state = PlannerState(value=ValueState(firm=places))
    return replace(
        a_snapshot(policy={"order": "value"}, **given),
        planner_state=state,
    )


def _verbs(planned: Plan) -> Mapping[str, Verb]:
    return {job.split("/")[1]: decision.verb for job, decision in planned.decisions.items()}


def _planned(snapshot: Snapshot) -> Plan:
    planned, _ = plan(snapshot)
    check(snapshot, planned)
    return planned


def test_a_running_job_with_a_firm_place_is_the_last_to_leave_for_an_urgent_one() -> None:
    snapshot = _snapshot(
        firm=("promised",),
        nodes={"n1": 8, "n2": 8},
        running={
            "promised": {"gpus": 8, "node": "n1", "since_checkpoint": "1m"},
            "dear": {"gpus": 8, "node": "n2", "since_checkpoint": "2h"},
        },
        pending={"hotfix": {"gpus": 8, "priority": "P0"}},
    )
    assert _verbs(_planned(snapshot)) == {
        "promised": Verb.KEEP,
        "dear": Verb.PREEMPT,
        "hotfix": Verb.WAIT,
    }


def test_a_running_job_with_a_firm_place_leaves_where_nobody_else_makes_room() -> None:
    snapshot = _snapshot(
        firm=("promised",),
        nodes={"n1": 8},
        running={"promised": {"gpus": 8, "since_checkpoint": "1m"}},
        pending={"hotfix": {"gpus": 8, "priority": "P0"}},
    )
    planned = _planned(snapshot)
    assert _verbs(planned) == {"promised": Verb.PREEMPT, "hotfix": Verb.WAIT}
    assert a_job_id("promised") in planned.planner_state.value.firm


def _with_a_deadline(**more: Any) -> dict[str, Any]:
    return {"gpus": 8, "estimate": "10m", "deadline_in": "40m", "submitted_ago": "1h", **more}


def test_a_running_job_with_a_firm_place_is_the_last_to_leave_for_a_deadline() -> None:
    snapshot = _snapshot(
        firm=("promised",),
        nodes={"n1": 8, "n2": 8},
        running={
            "promised": {"gpus": 8, "node": "n1", "ran": "2h", "since_checkpoint": "1m"},
            "dear": {"gpus": 8, "node": "n2", "ran": "2h", "since_checkpoint": "1h"},
        },
        pending={"report": _with_a_deadline()},
    )
    planned = _planned(snapshot)
    assert _verbs(planned) == {
        "promised": Verb.KEEP,
        "dear": Verb.PREEMPT,
        "report": Verb.WAIT,
    }


@pytest.mark.parametrize(
    "running",
    [
        pytest.param({"priority": "P1"}, id="of a more urgent class"),
        pytest.param({"preemptible": False}, id="not to be stopped"),
        pytest.param({"ran": "9m"}, id="just begun"),
        pytest.param({"deadline_in": "30h"}, id="with a deadline of its own"),
    ],
)
def test_a_deadline_that_presses_does_not_stop_a_job(running: dict[str, Any]) -> None:
    spared = {"gpus": 8, "ran": "20h", "estimate": "22h", "since_checkpoint": "1m", **running}
    snapshot = _snapshot(
        firm=("spared",),
        nodes={"n1": 8},
        running={"spared": spared},
        pending={"report": _with_a_deadline()},
    )
    assert _verbs(_planned(snapshot)) == {"spared": Verb.KEEP, "report": Verb.WAIT}


def test_a_deadline_that_presses_makes_a_job_leave_that_has_a_firm_place() -> None:
    snapshot = _snapshot(
        firm=("promised",),
        nodes={"n1": 8},
        running={"promised": {"gpus": 8, "ran": "2h", "since_checkpoint": "1m"}},
        pending={"report": _with_a_deadline()},
    )
    planned = _planned(snapshot)
    assert _verbs(planned) == {"promised": Verb.PREEMPT, "report": Verb.WAIT}
    assert a_job_id("promised") in planned.planner_state.value.firm


def test_a_team_without_interruptions_left_stops_nobody_for_a_deadline() -> None:
    snapshot = _snapshot(
        firm=("promised",),
        nodes={"n1": 8},
        teams={"research": {"interruptions_per_day": 0}},
        running={"promised": {"gpus": 8, "ran": "2h", "since_checkpoint": "1m"}},
        pending={"report": _with_a_deadline()},
    )
    assert _verbs(_planned(snapshot)) == {"promised": Verb.KEEP, "report": Verb.WAIT}


@pytest.mark.parametrize("priority", ["P1", "P2"])
def test_only_an_urgent_job_makes_a_firm_one_leave(priority: str) -> None:
    snapshot = _snapshot(
        firm=("promised",),
        nodes={"n1": 8},
        running={"promised": {"gpus": 8, "since_checkpoint": "1m"}},
        pending={"other": {"gpus": 8, "priority": priority, "estimate": "1m"}},
    )
    assert _verbs(_planned(snapshot))["promised"] is Verb.KEEP


def test_the_work_an_urgent_job_waits_for_is_not_stopped_for_a_firm_one() -> None:
    snapshot = _snapshot(
        firm=("late",),
        nodes={"n1": 8},
        running={
            "nearly": {"gpus": 4, "ran": "59m", "estimate": "1h", "since_checkpoint": "1m"},
            "other": {"gpus": 4, "priority": "P0", "ran": "1m", "estimate": "5h"},
        },
        pending={
            "hotfix": {"gpus": 4, "priority": "P0", "submitted_ago": "0s"},
            "late": {"gpus": 4, "submitted_ago": "9d"},
        },
    )
    assert _verbs(_planned(snapshot)) == {
        "nearly": Verb.KEEP,
        "other": Verb.KEEP,
        "hotfix": Verb.WAIT,
        "late": Verb.WAIT,
    }
