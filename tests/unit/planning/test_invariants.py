"""Each rule is broken once, by hand, and must be named."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.plan import Decision, Kill, Launch, Plan, Stop, Verb
from reconciler.domain.reason import Reason
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import AttemptId, Instant, JobId
from reconciler.errors import InvariantError
from reconciler.planning.invariants import check
from reconciler.planning.plan import plan
from tests.builders import a_snapshot
from tests.values import a_cluster, a_job_id, devices_of

JOB, RUNS, HOTFIX, SWEEP = (a_job_id(name) for name in ("job", "runs", "hotfix", "sweep"))

STARTING: dict[str, Any] = {
    "nodes": {
        "n1": {"gpus": 8, "islands": 2},
        "n2": {"gpus": 8, "gpu_type": "H100-80GB", "rack": "r2", "memory_gib": 10.0},
        "n3": {"gpus": 8, "rack": "r2"},
        "n4": {"gpus": 8, "state": "cordoned"},
    },
    "running": {"runs": {"gpus": 2}},
    "pending": {"job": {"gpus": 2, "types": ["A100-80GB", "H100-80GB"], "min_memory_gib": 20}},
}
PREEMPTING: dict[str, Any] = {
    "nodes": {"n1": 8},
    "running": {"sweep": {"gpus": 8, "since_checkpoint": "1m"}},
    "pending": {"hotfix": {"gpus": 8, "priority": "P0"}},
}


def broken(given: dict[str, Any], breaks: Callable[[Snapshot, Plan], Plan]) -> str:
    """Return the rule that a plan, once broken, is said to break."""
    snapshot = a_snapshot(**given)
    planned, _ = plan(snapshot)
    check(snapshot, planned)
    with pytest.raises(InvariantError) as error:
        check(snapshot, breaks(snapshot, planned))
    return str(error.value).split("'")[1]


def with_decision(planned: Plan, about: JobId, /, **changed: Any) -> Plan:
    decision = replace(planned.decisions[about], **changed)
    return replace(planned, decisions={**planned.decisions, about: decision})


def starting_on(planned: Plan, where: dict[str, list[int]]) -> Plan:
    cluster = a_cluster(STARTING["nodes"])
    attempt = planned.decisions[JOB].attempt
    assert attempt is not None
    there = replace(attempt, allocation=devices_of(cluster, where))
    return with_decision(planned, JOB, attempt=there)


def test_a_missing_decision() -> None:
    assert broken(STARTING, lambda s, p: replace(p, decisions={})) == "one decision a job"


def test_a_decision_about_nobody() -> None:
    ghost = Decision(job=JobId("x/y"), verb=Verb.KEEP, reason=Reason.RUNS)

    assert (
        broken(STARTING, lambda s, p: replace(p, decisions={**p.decisions, ghost.job: ghost}))
        == "one decision a job"
    )


def test_a_decision_filed_under_another_job() -> None:
    assert broken(STARTING, lambda s, p: with_decision(p, JOB, job=RUNS)) == "one decision a job"


@pytest.mark.parametrize(
    ("where", "rule"),
    [
        ({"n1": [0, 7]}, "no device twice"),
        ({"n1": [5]}, "gangs are whole"),
        ({"n1": [5, 6, 7]}, "gangs are whole"),
        ({"n1": [5], "n3": [0]}, "gangs keep their domain"),
        ({"n2": [0, 1]}, "gangs have the memory they asked for"),
        ({"n4": [0, 1]}, "starts go to ready nodes"),
        ({"n1": [5], "n2": [0]}, "gangs are of one wanted type"),
    ],
)
def test_a_start_in_the_wrong_place(where: dict[str, list[int]], rule: str) -> None:
    assert broken(STARTING, lambda s, p: starting_on(p, where)) == rule


def test_a_gang_that_leaves_its_island_or_rack() -> None:
    island = STARTING | {"pending": {"job": {"gpus": 2, "within": "nvlink"}}}
    rack = STARTING | {"pending": {"job": {"gpus": 2, "within": "rack"}}}

    assert broken(island, lambda s, p: starting_on(p, {"n1": [3, 4]})) == "gangs keep their domain"
    assert (
        broken(rack, lambda s, p: starting_on(p, {"n1": [5], "n3": [1]}))
        == "gangs keep their domain"
    )


def test_a_gang_over_nodes_that_rdma_does_not_join() -> None:
    given: dict[str, Any] = {
        "nodes": {"n1": 8, "n2": 8, "n3": {"gpus": 8, "rack": "r2", "rdma": True}},
        "pending": {"job": {"gpus": 8, "within": "rack", "interconnect": "rdma"}},
    }
    cluster = a_cluster(given["nodes"])

    def breaks(_: Snapshot, planned: Plan) -> Plan:
        attempt = planned.decisions[JOB].attempt
        assert attempt is not None
        there = devices_of(cluster, {"n1": [0, 1, 2, 3], "n2": [0, 1, 2, 3]})
        return with_decision(planned, JOB, attempt=replace(attempt, allocation=there))

    assert broken(given, breaks) == "gangs keep their domain"


def test_a_device_the_cluster_does_not_have() -> None:
    other = devices_of(a_cluster({"n9": 2}), {"n9": [0, 1]})

    def breaks(_: Snapshot, planned: Plan) -> Plan:
        attempt = planned.decisions[JOB].attempt
        assert attempt is not None
        return with_decision(planned, JOB, attempt=replace(attempt, allocation=other))

    assert broken(STARTING, breaks) == "devices exist"


def test_a_start_over_quota() -> None:
    given = STARTING | {"teams": {"research": {"quota": {"*": 4}}}}
    cluster = a_cluster(STARTING["nodes"])

    def breaks(snapshot: Snapshot, planned: Plan) -> Plan:
        held = replace(
            planned.decisions[RUNS], hold=devices_of(cluster, {"n3": [2, 3]}), reason=Reason.RUNS
        )
        return replace(planned, decisions={**planned.decisions, RUNS: held})

    assert broken(given, breaks) == "quota is kept"


def test_a_victim_for_nobody() -> None:
    assert broken(PREEMPTING, lambda s, p: with_decision(p, SWEEP, for_job=None)) == (
        "no futile victim"
    )


def test_a_victim_whose_preemptor_has_no_hold() -> None:
    assert broken(PREEMPTING, lambda s, p: with_decision(p, HOTFIX, hold=None)) == (
        "no futile victim"
    )


def test_a_hold_that_is_less_than_the_gang() -> None:
    part = devices_of(a_cluster({"n1": 8}), {"n1": [0, 1]})

    assert broken(PREEMPTING, lambda s, p: with_decision(p, HOTFIX, hold=part)) == (
        "gangs are whole"
    )


def test_a_hold_on_devices_of_somebody_who_stays() -> None:
    def breaks(_: Snapshot, planned: Plan) -> Plan:
        stays = with_decision(planned, SWEEP, verb=Verb.KEEP, reason=Reason.RUNS, for_job=None)
        return with_decision(stays, HOTFIX, victims=())

    assert broken(PREEMPTING, breaks) == "no device twice"


def test_a_victim_of_the_same_class() -> None:
    def breaks(snapshot: Snapshot, planned: Plan) -> Plan:
        wanted = snapshot.desired.jobs[SWEEP]
        assert wanted.spec is not None
        same = replace(wanted.spec, priority=wanted.spec.priority.__class__(0))
        snapshot.desired.jobs[SWEEP] = replace(wanted, spec=same)  # type: ignore[index]
        return planned

    assert broken(PREEMPTING, breaks) == "victims are of a strictly lower class"


def test_a_victim_of_a_more_urgent_class_that_nobody_waited_too_long_for() -> None:
    given = PREEMPTING | {"policy": {"order": "value"}}

    def breaks(snapshot: Snapshot, planned: Plan) -> Plan:
        for job, level in ((SWEEP, 1), (HOTFIX, 2)):
            wanted = snapshot.desired.jobs[job]
            assert wanted.spec is not None
            spec = replace(wanted.spec, priority=wanted.spec.priority.__class__(level))
            snapshot.desired.jobs[job] = replace(wanted, spec=spec)  # type: ignore[index]
        return planned

    assert broken(given, breaks) == "victims are of no more urgent class"


def test_a_start_that_is_not_launched() -> None:
    assert broken(STARTING, lambda s, p: replace(p, actions=())) == "every start is launched"


def test_a_request_about_an_attempt_that_is_not_live() -> None:
    for action in (
        Kill(job=JOB, attempt=AttemptId("other")),
        Stop(
            job=JOB,
            attempt=AttemptId("other"),
            grace_s=Instant(1),  # type: ignore[arg-type]
            cause="cancel",  # type: ignore[arg-type]
        ),
        Launch(job=JOB, attempt=AttemptId("other")),
    ):
        assert broken(STARTING, lambda s, p, a=action: replace(p, actions=(*p.actions, a))) == (
            "requests are about live attempts"
        )


def test_two_requests_about_one_attempt() -> None:
    assert broken(STARTING, lambda s, p: replace(p, actions=p.actions * 2)) == (
        "one request an attempt"
    )


def test_a_forecast_in_the_past() -> None:
    def breaks(_: Snapshot, planned: Plan) -> Plan:
        past = replace(planned.forecast[JOB], start_p50=Instant(planned.now - 1))
        return replace(planned, forecast={**planned.forecast, JOB: past})

    assert broken(STARTING, breaks) == "forecasts lie ahead"


def test_a_p90_before_its_p50() -> None:
    def breaks(_: Snapshot, planned: Plan) -> Plan:
        odd = planned.forecast[JOB]
        odd = replace(odd, end_p90=Instant(odd.end_p50 - 1))
        return replace(planned, forecast={**planned.forecast, JOB: odd})

    assert broken(STARTING, breaks) == "p90 is never before p50"
