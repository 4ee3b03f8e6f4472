"""Starting spread now against waiting for a better place: whichever is expected to end first."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.job import GpuRequest, TopologyDomain
from reconciler.domain.plan import Decision, PlannerState, Verb
from reconciler.domain.policy import SpreadSlowdown
from reconciler.domain.reason import Reason
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import Instant
from reconciler.planning.explain import explain
from reconciler.planning.plan import plan
from reconciler.planning.shapes import Shapes
from reconciler.planning.spread import Spread
from tests.builders import NOW, a_cluster, a_job_id, a_snapshot

ORDERS = ("score", "value")
RACKS = {f"n{number}": {"gpus": 8, "rack": f"r{number}"} for number in (1, 2, 3)}
WIDE = a_job_id("wide")
MEASURED = {"nodes": 1.05, "racks": 1.28}


def a_choice(
    order: str, *, work_min: int, box_in_min: int, slowdown: Any = None, **wide: Any
) -> Snapshot:
    """Return a world in which ``wide`` fits on pieces of two racks now, or in a box soon."""
    return a_snapshot(
        nodes=RACKS,
        policy={"order": order, "spread_slowdown": slowdown or MEASURED},
        running={
            "left": {"gpus": 4, "node": "n1", "estimate": "40h", "preemptible": False},
            "right": {"gpus": 4, "node": "n2", "estimate": "40h", "preemptible": False},
            "box": {
                "gpus": 8,
                "node": "n3",
                "ran": "30m",
                "estimate": f"{30 + box_in_min}m",
                "preemptible": False,
            },
        },
        pending={"wide": {"gpus": 8, "within": "cluster", "estimate": f"{work_min}m", **wide}},
    )


def with_patience(snapshot: Snapshot, until: int) -> Snapshot:
    state = replace(snapshot.planner_state, patience={WIDE: Instant(until)})
    return replace(snapshot, planner_state=state)


def about_wide(snapshot: Snapshot) -> tuple[Decision, PlannerState]:
    planned, _ = plan(snapshot)
    return planned.decisions[WIDE], planned.planner_state


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("work_min", [10, 60, 107, 108, 300, 1_000])
@pytest.mark.parametrize("box_in_min", [1, 30, 200])
def test_it_waits_exactly_where_that_ends_first(order: str, work_min: int, box_in_min: int) -> None:
    decision, _ = about_wide(a_choice(order, work_min=work_min, box_in_min=box_in_min))

    ends_apart_s, ends_together_s = int(work_min * 60 * 1.28), (box_in_min + work_min) * 60
    expected = Verb.WAIT if ends_together_s < ends_apart_s else Verb.START
    assert decision.verb is expected
    if expected is Verb.WAIT:
        assert decision.reason is Reason.BETTER_PLACE_SOON
    else:
        assert "ends sooner spread now" in decision.detail


@pytest.mark.parametrize("order", ORDERS)
def test_the_forecast_says_the_end_that_was_chosen(order: str) -> None:
    waits, _ = plan(a_choice(order, work_min=120, box_in_min=30))
    starts, _ = plan(a_choice(order, work_min=60, box_in_min=30))

    assert waits.forecast[WIDE].start_p50 - NOW == 30 * 60
    assert waits.forecast[WIDE].end_p50 - NOW == 150 * 60
    assert starts.forecast[WIDE].end_p50 - NOW == int(60 * 60 * 1.28)


@pytest.mark.parametrize("order", ORDERS)
def test_why_has_both_ends(order: str) -> None:
    snapshot = a_choice(order, work_min=120, box_in_min=30)
    planned, _ = plan(snapshot)

    said = explain(snapshot, planned, WIDE)

    assert said.apart is not None and said.expected is not None
    assert [share.node for share in said.apart.allocation.shares] == ["n1", "n2"]
    assert said.apart.end_p50 - NOW == int(120 * 60 * 1.28)
    assert said.expected.end_p50 < said.apart.end_p50


@pytest.mark.parametrize("order", ORDERS)
def test_it_has_patience_for_as_long_as_being_spread_would_cost(order: str) -> None:
    _, state = about_wide(a_choice(order, work_min=120, box_in_min=30))

    assert state.patience == {WIDE: NOW + int(120 * 60 * 0.28)}


@pytest.mark.parametrize("order", ORDERS)
def test_patience_is_kept_as_it_was_first_written(order: str) -> None:
    snapshot = with_patience(a_choice(order, work_min=300, box_in_min=30), NOW + 31 * 60)

    decision, state = about_wide(snapshot)

    assert decision.reason is Reason.BETTER_PLACE_SOON
    assert state.patience == {WIDE: NOW + 31 * 60}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("until", [NOW - 1, NOW, NOW + 29 * 60])
def test_who_has_no_patience_left_for_it_starts_on_the_pieces(order: str, until: int) -> None:
    snapshot = with_patience(a_choice(order, work_min=300, box_in_min=30), until)

    decision, _ = about_wide(snapshot)

    assert decision.verb is Verb.START


@pytest.mark.parametrize("order", ORDERS)
def test_patience_is_forgotten_with_its_job(order: str) -> None:
    snapshot = a_choice(order, work_min=60, box_in_min=30)
    gone = replace(snapshot.planner_state, patience={a_job_id("gone"): Instant(NOW + 60)})

    planned, _ = plan(replace(snapshot, planner_state=gone))

    assert planned.planner_state.patience == {}


@pytest.mark.parametrize("order", ORDERS)
def test_without_a_measured_slowdown_nobody_holds_off(order: str) -> None:
    snapshot = a_choice(order, work_min=300, box_in_min=30, slowdown={"nodes": 1.0, "racks": 1.0})

    decision, state = about_wide(snapshot)

    assert decision.reason is not Reason.BETTER_PLACE_SOON
    assert state.patience == {}


def test_what_is_free_of_the_awaited_box_stays_free_for_it() -> None:
    def given(limit: str) -> Snapshot:
        return a_snapshot(
            nodes=RACKS,
            policy={"order": "value", "spread_slowdown": MEASURED},
            running={
                "left": {"gpus": 4, "node": "n1", "estimate": "40h", "preemptible": False},
                "right": {"gpus": 4, "node": "n2", "estimate": "40h", "preemptible": False},
                "box": {
                    "gpus": 6,
                    "node": "n3",
                    "ran": "30m",
                    "estimate": "1h",
                    "preemptible": False,
                },
            },
            pending={
                "wide": {"gpus": 8, "within": "cluster", "estimate": "2h", "priority": "P1"},
                "d": {
                    "gpus": 2,
                    "priority": "P4",
                    "estimate": limit,
                    "limit": limit,
                    "grace": "1m",
                },
            },
        )

    def node_of_d(limit: str) -> str:
        planned, _ = plan(given(limit))
        assert planned.decisions[WIDE].reason is Reason.BETTER_PLACE_SOON
        attempt = planned.decisions[a_job_id("d")].attempt
        assert attempt is not None
        return attempt.allocation.shares[0].node

    assert node_of_d("9h") == "n1"
    assert node_of_d("20m") == "n3"


@pytest.mark.parametrize(
    ("on", "factor"),
    [
        (["n1"], 1.0),
        (["n1", "n2"], 1.05),
        (["n1", "n3"], 1.28),
        (["n1", "n2", "n3"], 1.28),
    ],
)
def test_a_gang_takes_longer_the_further_it_is_spread(on: list[str], factor: float) -> None:
    racks = {"n1": "r1", "n2": "r1", "n3": "r2"}
    shapes = Shapes(a_cluster({n: {"gpus": 8, "rack": r} for n, r in racks.items()}), None)
    spread = Spread(shapes, SpreadSlowdown(**MEASURED))
    devices = sum(
        next(node.all & -node.all for node in shapes.where.nodes if node.name == name)
        for name in on
    )

    assert spread.factor(GpuRequest(count=8, within=TopologyDomain.CLUSTER), devices) == factor


def test_a_gang_no_node_holds_is_not_spread_over_the_fewest() -> None:
    shapes = Shapes(a_cluster(RACKS), None)
    spread = Spread(shapes, SpreadSlowdown(**MEASURED))
    request = GpuRequest(count=16, within=TopologyDomain.CLUSTER)

    assert spread.fewest(request) == (2, 2)
    assert spread.narrower(request) == ()


@pytest.mark.parametrize(("nodes", "racks"), [(0.9, 1.0), (1.3, 1.2)])
def test_a_slowdown_that_speeds_up_is_refused(nodes: float, racks: float) -> None:
    with pytest.raises(ValueError, match="at least 1, and over racks no less"):
        SpreadSlowdown(nodes=nodes, racks=racks)
