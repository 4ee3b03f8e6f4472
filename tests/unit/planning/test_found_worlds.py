"""Worlds that random tests found, kept: each was wrong once."""

from typing import Any

import pytest

from reconciler.domain.plan import Verb
from reconciler.domain.policy import Order
from reconciler.domain.reason import Reason
from reconciler.domain.snapshot import Snapshot
from reconciler.planning.invariants import check
from reconciler.planning.plan import plan
from tests.builders import a_snapshot
from tests.values import NOW, a_job_id


def by_value(**world: Any) -> Snapshot:
    return a_snapshot(policy={"order": "value"}, **world)


def test_a_team_over_its_lowered_quota_has_devices_kept_while_it_gives_others_up() -> None:
    """It held 3 of 2 GPUs, and a hold for its urgent job was taken for a start beyond the quota."""
    snapshot = by_value(
        nodes={"n1": 4},
        running={"vision/wide": {"gpus": 3, "priority": "P1"}},
        pending={"first": {"gpus": 1, "priority": "P0"}, "vision/urgent": {"priority": "P0"}},
        teams={"vision": {"quota": {"*": 2}}},
    )

    planned, _ = plan(snapshot)

    check(snapshot, planned)
    urgent = planned.decisions[a_job_id("vision/urgent")]
    assert urgent.reason is Reason.PREEMPTING
    assert planned.decisions[a_job_id("vision/wide")].verb is Verb.PREEMPT


def test_devices_pass_from_one_job_to_another_between_two_looks() -> None:
    """What the second had taken was counted free again when the first let go of it."""
    nodes = {"n1": 2, "n2": 4}
    before = by_value(
        nodes=nodes, running={"first": {"on": {"n1": [0]}}, "second": {"on": {"n1": [1]}}}
    )
    after = by_value(
        nodes=nodes,
        running={"first": {"on": {"n1": [1]}}, "second": {"on": {"n1": [0]}}},
        pending={"third": {"gpus": 1, "priority": "P0"}},
    )
    _, memo = plan(before)

    planned, _ = plan(after, memo)

    check(after, planned)
    assert planned == plan(after)[0]


def test_nothing_is_kept_for_an_urgent_job_that_its_quota_keeps_from_starting() -> None:
    """Rows were kept for it for good, and what cannot be stopped never started."""
    snapshot = by_value(
        nodes={"n1": 4},
        pending={
            "urgent": {"gpus": 4, "priority": "P0", "submitted_ago": "1h"},
            "vision/fixed": {"gpus": 4, "priority": "P2", "preemptible": False},
        },
        teams={"research": {"quota": {"*": 2}}},
    )

    planned, _ = plan(snapshot)

    assert planned.decisions[a_job_id("urgent")].reason is Reason.QUOTA_EXCEEDED
    assert planned.decisions[a_job_id("vision/fixed")].verb is Verb.START


def test_a_job_grows_on_devices_none_of_which_it_has_now() -> None:
    """It was taken for a victim that frees nothing, and nothing was recorded any more."""
    snapshot = by_value(
        nodes={"n1": 4, "n2": 4},
        running={
            "fixed": {"gpus": 2, "on": {"n1": [0, 1]}, "preemptible": False},
            "small": {
                "gpus": 1,
                "on": {"n1": [2]},
                "elastic": [1, 4],
                "sizes": {1: "4d", 4: "1d"},
            },
        },
    )

    planned, _ = plan(snapshot)

    check(snapshot, planned)
    grows = planned.decisions[a_job_id("small")]
    assert grows.verb is Verb.RESIZE
    assert grows.hold is not None
    assert [share.node for share in grows.hold.shares] == ["n2"]


def test_a_job_at_its_waiting_bound_stops_one_of_a_more_urgent_class() -> None:
    """The one exception: who has waited as long as anybody may is stopped for by all but a P0."""
    snapshot = by_value(
        nodes={"n1": 4},
        running={
            "urgent": {"gpus": 2, "priority": "P0", "ran": "1m", "estimate": "5h"},
            "often": {"gpus": 2, "priority": "P1", "ran": "1m", "estimate": "5h"},
        },
        pending={"long-ago": {"gpus": 2, "priority": "P2", "submitted_ago": "5h"}},
    )

    planned, _ = plan(snapshot)

    check(snapshot, planned)
    assert a_job_id("long-ago") in planned.planner_state.value.firm
    assert planned.decisions[a_job_id("long-ago")].victims == (a_job_id("often"),)
    assert planned.decisions[a_job_id("urgent")].verb is Verb.KEEP


@pytest.mark.parametrize(
    ("stays", "gone_in_s"), [({"file": "gone"}, 90), ({"preemptible": False}, 60)]
)
@pytest.mark.parametrize("order", ["score", "value"])
def test_who_keeps_a_window_from_opening_is_not_expected_gone_at_its_start(
    order: str, stays: dict[str, Any], gone_in_s: int
) -> None:
    """The start was a minute ago: the end of what was still there was forecast for then."""
    snapshot = a_snapshot(
        policy={"order": order},
        nodes={"n1": 2},
        running={"there": {"gpus": 2, "ran": "1m", "estimate": "1m", **stays}},
        pending={"named": {"gpus": 2, "estimate": "1m"}},
        reservations={
            "demo": {
                "gpus": 2,
                "started_ago": "1m",
                "duration": "10m",
                "for": ["named"],
                "booked": {"n1": [0, 1]},
            }
        },
    )

    planned, _ = plan(snapshot)

    check(snapshot, planned)
    expected = planned.forecast
    assert expected[a_job_id("there")].end_p50 == NOW + gone_in_s
    assert expected[a_job_id("named")].start_p50 == NOW + gone_in_s


@pytest.mark.parametrize("order", Order)
def test_a_team_over_a_lowered_quota_starts_nothing_inside_its_window_either(order: Order) -> None:
    """The window counts once in its team's quota; what the team holds beside it counts too."""
    running = {name: {"gpus": 1, "on": {"n1": [at]}} for at, name in enumerate(("e", "h", "i"))}
    snapshot = a_snapshot(
        nodes={"n0": 2, "n1": 4},
        policy={"order": order},
        teams={"research": {"quota": {"*": 2}}},
        running=running,
        pending={"b": {"gpus": 1}},
        reservations={
            "window": {
                "gpus": 2,
                "booked": {"n0": [0, 1]},
                "started_ago": "0s",
                "duration": "1h",
                "for": ["research/b"],
            }
        },
    )
    planned, _ = plan(snapshot)

    check(snapshot, planned)
    assert planned.decisions[a_job_id("b")].attempt is None
