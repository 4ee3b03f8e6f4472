"""As many devices are in use as the racks have the power for, and it is said what waits for it."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.policy import Order
from reconciler.domain.reason import Reason
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import Instant
from reconciler.errors import InvariantError
from reconciler.planning.explain import explain
from reconciler.planning.invariants import check
from reconciler.planning.plan import plan
from reconciler.planning.topology import bits_of, layout, powered
from reconciler.simulate.runs import Behaviour
from reconciler.simulate.world import SimWorld
from tests.builders import a_snapshot
from tests.values import NOW, WATTS, a_cluster, a_job_id, a_policy, a_spec, devices_of, seconds

TWO_NODES: dict[str, Any] = {"n1": {"gpus": 8, "rack_gpus": 10}, "n2": 8}


def lit(in_use: dict[str, list[int]], *, rack_gpus: int = 10, booked: str = "") -> list[int]:
    """Return how many devices of each of three nodes may be in use."""
    cluster = a_cluster({"n1": {"gpus": 8, "rack_gpus": rack_gpus}, "n2": 8, "n3": 8})
    where = layout(cluster)
    held = bits_of(devices_of(cluster, in_use), where) if in_use else 0
    kept = bits_of(devices_of(cluster, {booked: list(range(8))}), where) if booked else 0
    found = powered(where.caps, where.nodes, where.up, held, kept)
    assert held & ~found == 0
    return [(found & node.all).bit_count() for node in where.nodes]


def test_whole_nodes_have_power_before_parts() -> None:
    assert lit({}) == [8, 2, 0]
    assert lit({"n2": [0, 1]}) == [8, 2, 0]


def test_what_runs_has_power_and_idle_devices_lie_together() -> None:
    assert lit({"n1": [0, 1, 2, 3, 4, 5], "n2": [3]}) == [8, 2, 0]
    assert lit({"n1": [0, 1, 2, 3, 4, 5, 6], "n2": [0]}) == [8, 2, 0]


def test_a_cap_below_what_runs_leaves_nothing_to_start_on() -> None:
    assert lit({"n1": [0, 1], "n3": [5]}, rack_gpus=2) == [2, 0, 1]


def test_what_is_booked_has_power_before_others() -> None:
    assert lit({"n1": [0]}, booked="n3") == [2, 0, 8]


def test_a_rack_without_a_cap_that_binds_is_left_alone() -> None:
    assert layout(a_cluster({"n1": {"gpus": 8, "rack_gpus": 8}})).caps == ()
    cluster = a_cluster(TWO_NODES)
    other_type = replace(cluster, device_watts={"L4": WATTS})
    assert layout(other_type).caps == ()


def waiting(order: Order, **given: Any) -> Snapshot:
    return a_snapshot(nodes=TWO_NODES, policy={"order": order}, **given)


@pytest.mark.parametrize("order", Order)
def test_two_gangs_start_only_as_far_as_there_is_power(order: Order) -> None:
    jobs = {"eight": {"gpus": 8, "submitted_ago": "1h"}, "four": {"gpus": 4}}
    snapshot = waiting(order, pending={n: j | {"estimate": "1h"} for n, j in jobs.items()})
    planned, _ = plan(snapshot)
    reasons = {planned.decisions[a_job_id(name)].reason for name in jobs}
    assert reasons == {Reason.GPUS_FREE, Reason.RACK_POWER}
    late = next(job for job in jobs if planned.decisions[a_job_id(job)].attempt is None)
    assert planned.forecast[a_job_id(late)].start_p50 >= NOW + 3600


@pytest.mark.parametrize("order", Order)
def test_why_says_how_many_devices_have_no_power(order: Order) -> None:
    busy = {"gpus": 6, "node": "n1", "preemptible": False}
    snapshot = waiting(order, running={"busy": busy}, pending={"big": {"gpus": 8}})
    told = explain(snapshot, plan(snapshot)[0], a_job_id("big"))
    gpus = next(each for each in told.checks if each.name == "gpus")
    assert not gpus.is_met and "the power of their racks keeps 6 GPUs idle" in gpus.words


def test_a_plan_that_draws_more_than_a_rack_may_is_caught() -> None:
    snapshot = a_snapshot(nodes={"n1": {"gpus": 8}}, pending={"a": {"gpus": 8}})
    planned, _ = plan(snapshot)
    capped = a_cluster({"n1": {"gpus": 8, "rack_gpus": 6}})
    with pytest.raises(InvariantError, match="r1 would draw 5600 W, its cap is 4200 W"):
        check(replace(snapshot, cluster=capped), planned)


def test_a_cap_lowered_below_what_runs_stops_nobody() -> None:
    runs = {"gpus": 8, "node": "n1", "estimate": "2h"}
    snapshot = a_snapshot(
        nodes={"n1": {"gpus": 8, "rack_gpus": 4}, "n2": 8},
        running={"runs": runs},
        pending={"small": {"gpus": 1}},
    )
    planned, _ = plan(snapshot)
    check(snapshot, planned)
    assert planned.decisions[a_job_id("runs")].reason is Reason.RUNS
    assert planned.decisions[a_job_id("small")].reason is Reason.RACK_POWER


def test_a_reservation_has_power_when_it_opens() -> None:
    """Eight of ten are booked: others who cannot leave get two, on the other node."""
    snapshot = a_snapshot(
        nodes=TWO_NODES,
        pending={f"labs/j{number}": {"gpus": 2, "preemptible": False} for number in range(4)},
        reservations={"demo": {"gpus": 8, "start_in": "10m", "duration": "2h"}},
    )
    planned, _ = plan(snapshot)
    check(snapshot, planned)
    (booked,) = planned.reservations
    assert booked.occurrence.devices is not None
    started = [d.attempt for d in planned.decisions.values() if d.attempt is not None]
    assert sum(attempt.gpus for attempt in started) <= 2


@pytest.mark.parametrize("order", Order)
def test_everybody_gets_a_turn_under_a_cap(order: Order) -> None:
    world = SimWorld(a_cluster(TWO_NODES), now=NOW, policy=a_policy(order=order))
    for number in range(12):
        name = f"j{number}"
        spec = a_spec(name, gpus=(1, 8, 2, 4)[number % 4], estimate="30m")
        world.main.write(spec, now=world.now)
        world.behaviours[spec.id] = Behaviour(work_s=seconds("30m"))
    most = 0
    for _ in world.cycles(24 * 3600):
        live = [s.live_attempt for s in world.statuses.values() if s.live_attempt is not None]
        most = max(most, sum(attempt.gpus for attempt in live))
    assert 8 <= most <= 10
    assert {s.phase.value for s in world.statuses.values()} == {"succeeded"}
    assert world.now <= Instant(NOW + 24 * 3600)


@pytest.mark.parametrize("order", Order)
def test_who_waits_for_power_on_one_node_is_told_when_it_comes(order: Order) -> None:
    """Three of four are in use on two nodes, so no node has three left; the gang starts when the
    one outside the node that a plan over time counts on has ended."""
    snapshot = a_snapshot(
        nodes={"n1": {"gpus": 4, "rack_gpus": 4}, "n2": 4},
        policy={"order": order},
        running={
            "one": {"gpus": 1, "on": {"n1": [0]}, "estimate": "9h", "preemptible": False},
            "two": {"gpus": 2, "on": {"n2": [0, 1]}, "estimate": "1h", "preemptible": False},
        },
        pending={"three": {"gpus": 3, "estimate": "1h"}},
    )
    planned, _ = plan(snapshot)
    told = planned.forecast[a_job_id("three")]
    assert told.start_p50 == planned.forecast[a_job_id("two")].end_p50
    assert told.allocation is not None
    assert [(share.node, len(share.devices)) for share in told.allocation.shares] == [("n1", 3)]
