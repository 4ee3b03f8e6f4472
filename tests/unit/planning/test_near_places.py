"""Places near what a job reads: among equal ones only, and never another start for it."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.attempt import Attempt
from reconciler.domain.plan import Plan, PlannerState
from reconciler.domain.units import Instant, NodeName
from reconciler.planning.explain import explain
from reconciler.planning.placement import place, shape_for
from reconciler.planning.plan import plan
from reconciler.planning.topology import allocation_of, bits_of, layout, shape
from tests.builders import a_job_id, a_snapshot
from tests.values import a_cluster, a_spec, devices_of

ORDERS = ("score", "value")
BIG = {"gpus": 8, "models": ["m"]}


def placed(
    nodes: dict[str, Any], busy: dict[str, list[int]] | None = None, **job: Any
) -> dict[str, int] | None:
    """Return how many GPUs of each node a job that trains ``m`` gets, or None."""
    cluster = a_cluster(nodes)
    where = layout(cluster)
    spec = a_spec(**{"model": "m", **job})
    free = where.ready & ~bits_of(devices_of(cluster, busy or {}), where)
    devices = place(shape_for(shape(spec.gpus, where), spec.facts, where), free, where)
    if devices is None:
        return None
    return {share.node: len(share.devices) for share in allocation_of(devices, where).shares}


def attempt_of(planned: Plan, job: str) -> Attempt:
    attempt = planned.decisions[a_job_id(job)].attempt
    assert attempt is not None
    return attempt


def nodes_of(planned: Plan, job: str) -> list[str]:
    return [share.node for share in attempt_of(planned, job).allocation.shares]


def test_of_nodes_that_fit_alike_the_one_with_the_model_is_taken() -> None:
    assert placed({"n1": 8, "n2": BIG, "n3": 8}, gpus=4) == {"n2": 4}
    assert placed({"n1": 8, "n2": BIG, "n3": 8}, gpus=4, model="other") == {"n1": 4}


def test_what_fits_better_is_taken_before_what_is_near() -> None:
    assert placed({"n1": 8, "n2": BIG}, {"n1": [0]}, gpus=4) == {"n1": 4}


def test_an_island_to_itself_is_not_as_good_as_a_node_to_itself() -> None:
    nodes = {"n1": {"gpus": 8, "islands": 2}, "n2": BIG | {"islands": 2}}

    assert placed(nodes, {"n1": [0, 1, 2, 3]}, gpus=4) == {"n1": 4}
    assert placed(nodes, gpus=4) == {"n2": 4}


def test_the_model_counts_for_more_than_all_of_the_data() -> None:
    nodes = {"n1": {"gpus": 8, "data": ["a", "b"]}, "n2": BIG}

    assert placed(nodes, gpus=4, data=["a", "b"]) == {"n2": 4}
    assert placed(nodes | {"n3": BIG | {"data": ["b"]}}, gpus=4, data=["a", "b"]) == {"n3": 4}


def test_a_type_that_is_near_goes_before_the_requests_order_of_types() -> None:
    nodes = {"n1": {"gpus": 8, "gpu_type": "A"}, "n2": BIG | {"gpu_type": "B"}}

    assert placed(nodes, gpus=4, types=["A", "B"]) == {"n2": 4}
    assert placed(nodes, gpus=4, types=["A", "B"], model="other") == {"n1": 4}


def test_a_rack_with_more_of_it_is_taken_before_its_name() -> None:
    nodes = {
        "n1": {"gpus": 8, "rack": "a"},
        "n2": BIG | {"rack": "a"},
        "n3": BIG | {"rack": "b"},
        "n4": BIG | {"rack": "b"},
    }

    assert placed(nodes, gpus=16, within="cluster") == {"n3": 8, "n4": 8}
    assert placed(nodes, {"n3": [0]}, gpus=16, within="cluster") == {"n1": 8, "n2": 8}


def test_a_gang_takes_the_nodes_of_its_rack_that_have_it() -> None:
    nodes = {"n1": 8, "n2": 8, "n3": BIG, "n4": BIG}

    assert placed(nodes, gpus=16, within="cluster") == {"n3": 8, "n4": 8}
    assert placed(nodes, gpus=12, within="rack") == {"n3": 6, "n4": 6}
    busy = {"n1": [0, 1], "n2": [0, 1]}
    assert placed(nodes, busy, gpus=12, within="rack") == {"n1": 6, "n2": 6}


def test_a_gang_over_racks_takes_no_other_racks_unless_they_are_alike() -> None:
    nodes = {f"a{i}": {"gpus": 8, "rack": "a"} for i in (1, 2)}
    nodes |= {f"b{i}": {"gpus": 8, "rack": "b"} for i in (1, 2)}
    nodes |= {f"c{i}": BIG | {"rack": "c"} for i in (1, 2)}

    assert placed(nodes, gpus=24, within="cluster") == {"a1": 8, "c1": 8, "c2": 8}
    assert placed(nodes, {"c1": [0]}, gpus=24, within="cluster") == {"a1": 8, "a2": 8, "b1": 8}


def test_nodes_that_leave_other_amounts_over_are_not_alike() -> None:
    nodes = {f"a{i}": {"gpus": 8, "rack": "a"} for i in (1, 2)}
    nodes |= {"b1": {"gpus": 8, "rack": "b"}, "b2": BIG | {"rack": "b"}}
    busy = {"b2": [0, 1]}

    assert placed(nodes, busy, gpus=18, within="cluster") == {"a1": 6, "a2": 6, "b1": 6}
    assert placed(nodes, gpus=18, within="cluster") == {"a1": 6, "b1": 6, "b2": 6}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("job", [{}, {"preemptible": False}, {"priority": "P0"}])
def test_both_orders_start_near(order: str, job: dict[str, Any]) -> None:
    wanted = {"gpus": 4, "model": "m", "data": ["d"], **job}
    nodes = {"n1": 8, "n2": BIG, "n3": BIG | {"data": ["d"]}}
    snapshot = a_snapshot(nodes=nodes, pending={"j": wanted}, policy={"order": order})
    planned, _ = plan(snapshot)

    assert nodes_of(planned, "j") == ["n3"]
    said = planned.decisions[a_job_id("j")].detail
    assert said == "4 GPUs on n3, with its model and data cached"


@pytest.mark.parametrize("order", ORDERS)
def test_a_wide_gang_starts_near(order: str) -> None:
    nodes = {
        "n1": {"gpus": 8, "rack": "a"},
        "n2": {"gpus": 8, "rack": "a"},
        "n3": BIG | {"rack": "b"},
        "n4": {"gpus": 8, "rack": "b"},
    }
    wide = {"gpus": 16, "within": "cluster", "model": "m"}
    planned, _ = plan(a_snapshot(nodes=nodes, pending={"j": wide}, policy={"order": order}))

    assert nodes_of(planned, "j") == ["n3", "n4"]
    assert planned.decisions[a_job_id("j")].detail.endswith("with its model cached on 1 of 2 nodes")


def test_work_that_cannot_be_stopped_goes_beside_other_such_work_first() -> None:
    snapshot = a_snapshot(
        nodes={"n1": 8, "n2": BIG, "n3": 8},
        running={
            "soft": {"gpus": 2, "node": "n2"},
            "fixed": {"gpus": 2, "node": "n3", "preemptible": False},
        },
        pending={"j": {"gpus": 2, "model": "m", "preemptible": False}},
        policy={"order": "value"},
    )

    assert nodes_of(plan(snapshot)[0], "j") == ["n3"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("preemptible", [True, False])
def test_a_node_that_lost_work_lately_is_used_last_however_near(
    order: str, preemptible: bool
) -> None:
    job = {"gpus": 4, "model": "m", "preemptible": preemptible}
    snapshot = a_snapshot(nodes={"n1": 8, "n2": BIG}, pending={"j": job}, policy={"order": order})
    lost = {a_job_id(name): Instant(snapshot.now - 60) for name in ("a", "b")}
    state = PlannerState(lost_on={NodeName("n2"): lost})

    assert nodes_of(plan(snapshot)[0], "j") == ["n2"]
    assert nodes_of(plan(replace(snapshot, planner_state=state))[0], "j") == ["n1"]


@pytest.mark.parametrize("order", ORDERS)
def test_a_node_that_gets_a_cache_is_seen_in_the_next_cycle(order: str) -> None:
    given: dict[str, Any] = {"pending": {"j": {"gpus": 4, "model": "m"}}}
    given["policy"] = {"order": order}
    before = a_snapshot(nodes={"n1": 8, "n2": 8}, **given)
    after = replace(before, cluster=a_cluster({"n1": 8, "n2": BIG}))
    first, memo = plan(before)
    second, _ = plan(after, memo)

    assert nodes_of(first, "j") == ["n1"]
    assert nodes_of(second, "j") == ["n2"]
    assert second == plan(after)[0]


def test_an_elastic_job_starts_smaller_near() -> None:
    others = {"gpus": 6, "estimate": "12h", "ran": "2h", "preemptible": False}
    wanted = {"gpus": 4, "model": "m", "elastic": [2, 4], "sizes": {4: "1h", 2: "2h"}}
    wanted["estimate"] = "1h"
    snapshot = a_snapshot(
        nodes={"n1": 8, "n2": BIG},
        running={"a": {**others, "node": "n1"}, "b": {**others, "node": "n2"}},
        pending={"j": wanted},
        policy={"order": "value"},
    )
    planned, _ = plan(snapshot)

    assert attempt_of(planned, "j").gpus == 2
    assert nodes_of(planned, "j") == ["n2"]


def test_who_waits_for_victims_starts_elsewhere_near() -> None:
    leaving = {
        "gpus": 8,
        "node": "n1",
        "cause": "preempt",
        "asked_ago": "5s",
        "reason": "freed_for_preemptor",
    }
    held = {"devices": {"n1": [0, 1, 2, 3, 4, 5, 6, 7]}, "victims": ["victim"]}
    snapshot = a_snapshot(
        nodes={"n1": 8, "n2": 8, "n3": BIG},
        running={"victim": leaving},
        pending={"j": {"gpus": 8, "model": "m", "holds": [held]}},
        policy={"order": "value"},
    )

    assert nodes_of(plan(snapshot)[0], "j") == ["n3"]


@pytest.mark.parametrize("order", ORDERS)
def test_inside_a_window_a_member_starts_near(order: str) -> None:
    snapshot = a_snapshot(
        policy={"order": order},
        nodes={"n1": 8, "n2": BIG},
        pending={"j": {"gpus": 2, "model": "m"}},
        reservations={
            "demo": {
                "gpus": 8,
                "within": "cluster",
                "started_ago": "1h",
                "booked": {"n1": [0, 1, 2, 3], "n2": [0, 1, 2, 3]},
                "phase": "active",
                "idle_gpus": 8,
                "idle_for": "1h",
            }
        },
    )
    planned, _ = plan(snapshot)
    given = set(attempt_of(planned, "j").allocation.devices())

    assert given <= set(devices_of(snapshot.cluster, {"n2": [0, 1, 2, 3]}).devices())


def test_why_says_what_a_running_job_has_on_its_nodes() -> None:
    snapshot = a_snapshot(
        nodes={"n1": BIG, "n2": 8},
        running={
            "near": {"gpus": 8, "node": "n1", "model": "m"},
            "far": {"gpus": 8, "node": "n2", "model": "m"},
        },
    )
    planned, _ = plan(snapshot)
    said = {
        name: explain(snapshot, planned, a_job_id(name)).checks[-1].words
        for name in ("near", "far")
    }

    assert said == {
        "near": "attempt 1 is running on n1, with its model cached",
        "far": "attempt 1 is running on n2",
    }
