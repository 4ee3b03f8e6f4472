"""Starting spread now against waiting for a better place: whichever is expected to end first."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.job import GpuRequest, TopologyDomain
from reconciler.domain.plan import Decision, Plan, PlannerState, Verb
from reconciler.domain.policy import SpreadSlowdown
from reconciler.domain.reason import Reason
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.spread import PlacementClass
from reconciler.domain.units import Instant
from reconciler.planning.explain import explain
from reconciler.planning.invariants import check
from reconciler.planning.plan import plan
from reconciler.planning.shapes import Shapes
from reconciler.planning.slowdown import slowdown_at
from reconciler.planning.spread import Spread, placement_class
from reconciler.planning.topology import layout
from tests.builders import NOW, a_cluster, a_job_id, a_snapshot, devices_of

ORDERS = ("score", "value")
RACKS = {f"n{number}": {"gpus": 8, "rack": f"r{number}"} for number in (1, 2, 3)}
WIDE = a_job_id("wide")
MEASURED = {"nodes": 1.05, "racks": 1.28}


def a_choice(
    order: str,
    *,
    work_min: int,
    box_in_min: int,
    slowdown: Any = None,
    measured: Any = None,
    **wide: Any,
) -> Snapshot:
    """Return a world in which ``wide`` fits on pieces of two racks now, or in a box soon."""
    return a_snapshot(
        nodes=RACKS,
        policy={"order": order, "spread_slowdown": slowdown or MEASURED},
        measured_spread=measured,
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
    assert (said.apart.slowdown, said.apart.runs) == (1.28, 0)


@pytest.mark.parametrize("order", ORDERS)
def test_why_has_the_factor_and_on_how_many_runs_it_rests(order: str) -> None:
    measured = {"racks": {"ratio": 2.0, "weight": 4.0, "runs": 9}}
    snapshot = a_choice(order, work_min=120, box_in_min=30, measured=measured)
    planned, _ = plan(snapshot)

    said = explain(snapshot, planned, WIDE).apart

    assert said is not None
    assert (said.slowdown, said.runs) == (1.6, 9)
    assert said.end_p50 - NOW == int(120 * 60 * 1.6)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("work_min", [10, 60, 300])
@pytest.mark.parametrize("ratio", [1.0, 1.1, 1.9, 4.0])
def test_what_runs_measured_decides_like_the_policys_own_word(
    order: str, work_min: int, ratio: float
) -> None:
    measured = {"racks": {"ratio": ratio, "weight": 8.0, "runs": 16}}
    learned = a_choice(order, work_min=work_min, box_in_min=30, measured=measured)
    factor = slowdown_at(learned)
    told = {"nodes": factor.nodes, "racks": factor.racks}

    one, _ = plan(learned)
    other, _ = plan(a_choice(order, work_min=work_min, box_in_min=30, slowdown=told))

    assert factor.racks != MEASURED["racks"]
    assert one.decisions[WIDE] == other.decisions[WIDE]
    assert one.forecast == other.forecast
    assert one.planner_state.patience == other.planner_state.patience


@pytest.mark.parametrize("order", ORDERS)
def test_what_a_memo_saved_does_not_outlive_what_runs_measured(order: str) -> None:
    measured = {"racks": {"ratio": 4.0, "weight": 8.0, "runs": 16}}
    before = a_choice(order, work_min=60, box_in_min=30)
    after = a_choice(order, work_min=60, box_in_min=30, measured=measured)

    starts, memo = plan(before)
    waits, _ = plan(after, memo)

    assert starts.decisions[WIDE].verb is Verb.START
    assert waits.decisions[WIDE].reason is Reason.BETTER_PLACE_SOON
    assert waits == plan(after)[0]
    assert waits.forecast == plan(after)[0].forecast


def running_spread(order: str, pending: dict[str, Any] | None = None, **said: Any) -> Plan:
    """Return the plan for a gang of eight on two half nodes of two racks; a third node is free."""
    half = {"n1": [0, 1, 2, 3], "n2": [0, 1, 2, 3]}
    wide = {"gpus": 8, "within": "cluster", "on": half, "ran": "30m", "estimate": "40h"}
    snapshot = a_snapshot(
        nodes=RACKS,
        policy={"order": order, "spread_slowdown": MEASURED},
        running={"wide": wide | {"since_checkpoint": "1m"} | said},
        pending=pending or {},
    )
    planned, _ = plan(snapshot)
    check(snapshot, planned)
    return planned


def test_a_gang_that_runs_spread_moves_where_it_gains_much_by_it() -> None:
    planned = running_spread("value")

    moves = planned.decisions[WIDE]
    assert (moves.verb, moves.detail) == (Verb.RESIZE, "moves to a place closer together")
    assert moves.hold is not None
    assert [len(share.devices) for share in moves.hold.shares] == [8]


@pytest.mark.parametrize(
    "said",
    [{"estimate": "32m"}, {"ran": "5m"}, {"preemptible": False}, {"gpus": 1, "on": {"n1": [0]}}],
)
def test_one_that_gains_little_or_may_not_be_stopped_stays(said: dict[str, Any]) -> None:
    planned = running_spread("value", **said)

    assert planned.decisions[WIDE].verb is Verb.KEEP
    assert not planned.actions


def test_nobody_moves_into_what_another_waits_for() -> None:
    other = {"gpus": 17, "within": "cluster", "estimate": "90h", "submitted_ago": "1m"}
    planned = running_spread("value", pending={"other": other})

    assert planned.decisions[a_job_id("other")].verb is Verb.WAIT
    assert planned.decisions[WIDE].verb is Verb.KEEP


def test_by_score_a_gang_that_runs_spread_stays_where_it_is() -> None:
    assert running_spread("score").decisions[WIDE].verb is Verb.KEEP


@pytest.mark.parametrize("order", ORDERS)
def test_how_far_an_elastic_gang_is_spread_goes_by_its_present_size(order: str) -> None:
    half = {"n1": [0, 1, 2, 3], "n2": [0, 1, 2, 3]}  # sixteen need two nodes, eight need one
    other = {"gpus": 4, "estimate": "90h", "preemptible": False}
    snapshot = a_snapshot(
        nodes=RACKS,
        policy={"order": order, "spread_slowdown": MEASURED},
        running={
            "wide": {"gpus": 16, "elastic": [8, 16], "within": "cluster", "on": half,
                     "sizes": {16: "10h", 8: "20h"}, "ran": "0s"},
            "left": other | {"on": {"n1": [4, 5, 6, 7]}},
            "right": other | {"on": {"n2": [4, 5, 6, 7]}},
        },
    )  # fmt: skip
    planned, _ = plan(snapshot)

    assert planned.decisions[WIDE].verb is Verb.KEEP
    assert planned.forecast[WIDE].end_p50 - NOW == int(20 * 3600 * 1.28)


@pytest.mark.parametrize("order", ORDERS)
def test_what_runs_on_racks_is_expected_to_last_as_long_as_measured(order: str) -> None:
    def end_s(measured: Any) -> int:
        snapshot = a_snapshot(
            nodes=RACKS,
            policy={"order": order, "spread_slowdown": MEASURED},
            measured_spread=measured,
            running={
                "wide": {"gpus": 8, "within": "cluster", "nodes": {"n1": 4, "n2": 4}, "ran": "0s",
                         "estimate": "10h"},
            },
        )  # fmt: skip
        return plan(snapshot)[0].forecast[WIDE].end_p50 - NOW

    assert end_s({}) == int(10 * 3600 * 1.28)
    assert end_s({"racks": {"ratio": 2.0, "weight": 4.0, "runs": 9}}) == int(10 * 3600 * 1.6)


@pytest.mark.parametrize("order", ORDERS)
def test_measured_runs_change_nothing_where_the_policy_weighs_no_places(order: str) -> None:
    nothing = {"nodes": 1.0, "racks": 1.0}
    measured = {"racks": {"ratio": 3.0, "weight": 90.0, "runs": 180}}

    with_runs, _ = plan(
        a_choice(order, work_min=300, box_in_min=30, slowdown=nothing, measured=measured)
    )
    without, _ = plan(a_choice(order, work_min=300, box_in_min=30, slowdown=nothing))

    assert with_runs.digest == without.digest
    assert with_runs.forecast == without.forecast


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


@pytest.mark.parametrize(
    ("on", "placed"),
    [
        ({"n1": 8}, PlacementClass.TOGETHER),
        ({"n1": 4, "n2": 4}, PlacementClass.NODES),
        ({"n1": 4, "n3": 4}, PlacementClass.RACKS),
        ({"n1": 8, "n2": 8}, PlacementClass.TOGETHER),
        ({"n1": 8, "n3": 8}, PlacementClass.RACKS),
        ({"n1": 6, "n2": 5, "n3": 5}, PlacementClass.RACKS),
        ({"n1": 8, "n2": 8, "n3": 8}, PlacementClass.TOGETHER),
        ({"n1": 1}, None),
        ({"gone": 4, "n1": 4}, None),
    ],
)
def test_a_run_is_told_by_how_far_its_gang_was_spread(
    on: dict[str, int], placed: PlacementClass | None
) -> None:
    racks = {"n1": "r1", "n2": "r1", "n3": "r2", "gone": "r2"}
    before = a_cluster({n: {"gpus": 8, "rack": r} for n, r in racks.items()})
    allocation = devices_of(before, {n: list(range(count)) for n, count in on.items()})
    now = replace(before, nodes=tuple(node for node in before.nodes if node.name != "gone"))
    asked = GpuRequest(count=4, within=TopologyDomain.CLUSTER)  # it may have run at another size

    assert placement_class(asked, allocation, layout(now)) == placed


def test_a_run_is_compared_with_places_of_its_own_type() -> None:
    nodes = {
        "a1": {"gpus": 4, "rack": "r1", "gpu_type": "A100-80GB"},
        "a2": {"gpus": 4, "rack": "r1", "gpu_type": "A100-80GB"},
        "h1": {"gpus": 8, "rack": "r1", "gpu_type": "H100-80GB"},
    }
    cluster = a_cluster(nodes)
    ran_on = devices_of(cluster, {"a1": [0, 1, 2, 3], "a2": [0, 1, 2, 3]})
    either = GpuRequest(count=8, within=TopologyDomain.CLUSTER, types=("A100-80GB", "H100-80GB"))

    assert placement_class(either, ran_on, layout(cluster)) is PlacementClass.TOGETHER


def test_a_gang_no_node_holds_is_not_spread_over_the_fewest() -> None:
    shapes = Shapes(a_cluster(RACKS), None)
    spread = Spread(shapes, SpreadSlowdown(**MEASURED))
    request = GpuRequest(count=16, within=TopologyDomain.CLUSTER)

    assert spread.fewest(request) == (2, 2)
    assert spread.narrower(request) == ()


def test_a_gang_is_not_spread_over_racks_where_one_has_no_power_for_it() -> None:
    capped = {name: node | {"rack_gpus": 5} for name, node in RACKS.items()}
    spread = Spread(Shapes(a_cluster(capped), None), SpreadSlowdown(**MEASURED))

    assert spread.fewest(GpuRequest(count=5, within=TopologyDomain.CLUSTER)) == (1, 1)
    assert spread.fewest(GpuRequest(count=8, within=TopologyDomain.CLUSTER)) == (2, 2)


@pytest.mark.parametrize(("nodes", "racks"), [(0.9, 1.0), (1.3, 1.2)])
def test_a_slowdown_that_speeds_up_is_refused(nodes: float, racks: float) -> None:
    with pytest.raises(ValueError, match="at least 1, and over racks no less"):
        SpreadSlowdown(nodes=nodes, racks=racks)
