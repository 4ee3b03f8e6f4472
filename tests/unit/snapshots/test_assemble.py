"""A snapshot from main, the status branch and recorded inputs, over real repositories."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.domain.cluster import Caches, Cluster, Device, DeviceKind, Node, NodeState
from reconciler.domain.job import PriorityClass
from reconciler.domain.reason import Reason
from reconciler.domain.reservation import ReservationPhase, ReservationStatus
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.spread import MeasuredSlowdown, SpreadMeasured
from reconciler.domain.status import JobPhase, JobStatus
from reconciler.domain.units import CommitId, DeviceId, Instant, JobId, NodeName
from reconciler.snapshots.assemble import Assembler
from reconciler.snapshots.inputs import Inputs
from reconciler.snapshots.joined import joined_cluster
from reconciler.snapshots.plain import plain, restore
from reconciler.snapshots.snapshot_digest import snapshot_digest
from reconciler.specs.reading import read_specs
from reconciler.store.git.cat_file import GitTree
from reconciler.store.spec_source import SpecSource
from reconciler.store.status_tree import StatusTree
from tests.builders import a_snapshot
from tests.git_worlds import GRACE
from tests.live_fleets import Fleet

JOB = JobId("team/a")
NODE = NodeName("node-1")
BEFORE_CACHES = "sha256:5d4edc3cb0037ba53ecb51cf8a7ec8880e4b637d6754413cf5e344e90b27a118"


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def inputs_of(desired: CommitId, **more: Any) -> Inputs:
    return Inputs(desired=desired, now=Instant(2_000_000_000), looked_at=Instant(1), **more)


def statuses_of(*statuses: JobStatus) -> StatusTree:
    return StatusTree(
        commit=CommitId("5" * 40), statuses={each.job: each for each in statuses}, files={}
    )


def assembled(
    fleet: Fleet, statuses: StatusTree | None = None, *, commit: CommitId | None = None, **more: Any
) -> Snapshot:
    desired = commit or fleet.remote.tip()
    assert desired is not None
    source = SpecSource(fleet.remote.path, remote="unused")
    reading = read_specs(GitTree(fleet.remote.path, desired))
    return Assembler(source).assemble(reading, statuses, inputs_of(desired, **more))


def a_status(observed: CommitId) -> JobStatus:
    return JobStatus(
        job=JOB, phase=JobPhase.PENDING, reason=Reason.GPUS_BUSY, observed_commit=observed
    )


def test_a_valid_job_is_of_the_commit_that_was_read_and_has_its_size(fleet: Fleet) -> None:
    commit = fleet.commit(fleet.job("a", gpus=2, estimate="1h"))
    snapshot = assembled(fleet)

    job = snapshot.desired.jobs[JOB]
    assert (job.commit, job.problems, job.author) == (commit, (), "")
    assert [(size.gpus, size.duration_p50_s) for size in snapshot.sizes[JOB]] == [(2, 3600)]
    assert snapshot.status_commit is None


def test_an_invalid_edit_leaves_the_last_valid_spec_and_names_who_brought_it(fleet: Fleet) -> None:
    good = fleet.commit(fleet.job("a", priority="P1"))
    text = fleet.job("a", priority="P4")["jobs/team/a.yaml"].replace("gpus: 1", "gpus: none")
    bad = fleet.commit({"jobs/team/a.yaml": text}, author=GRACE)
    fleet.commit({"docs/note": "x\n"})
    job = assembled(fleet, statuses_of(a_status(good))).desired.jobs[JOB]

    assert job.spec is not None
    assert (job.spec.priority, job.commit) == (PriorityClass.P1, good)
    assert job.problems
    assert (job.author, job.problems_commit) == (GRACE, bad)


def test_a_last_valid_commit_that_is_nowhere_any_more_leaves_no_spec(fleet: Fleet) -> None:
    fleet.commit({"jobs/team/a.yaml": "kind: Nonsense\n"})
    job = assembled(fleet, statuses_of(a_status(CommitId("f" * 40)))).desired.jobs[JOB]

    assert job.spec is None
    assert job.problems


def test_a_document_that_never_was_valid_has_problems_and_no_spec(fleet: Fleet) -> None:
    text = fleet.job("a")["jobs/team/a.yaml"].replace("gpus: 1", 'gpus: "*"')
    commit = fleet.commit({"jobs/team/a.yaml": text}, author=GRACE)
    snapshot = assembled(fleet)

    job = snapshot.desired.jobs[JOB]
    assert (job.spec, job.commit) == (None, commit)
    assert job.problems[0].is_security_event
    assert JOB not in snapshot.sizes


def test_the_submission_is_the_commit_that_brought_the_job_since_the_cursor(fleet: Fleet) -> None:
    cursor = fleet.remote.tip()
    brought = fleet.commit(fleet.job("a"))
    tip = fleet.commit(fleet.job("b"))
    found = assembled(fleet, cursor=cursor).desired.submissions

    assert {job: each.commit for job, each in found.items()} == {JOB: brought, "team/b": tip}
    assert assembled(fleet, cursor=tip).desired.submissions == {}


def test_a_rewritten_main_submits_nothing(fleet: Fleet) -> None:
    fleet.commit(fleet.job("a"))
    snapshot = assembled(fleet, cursor=CommitId("f" * 40), is_rewritten=True)

    assert snapshot.desired.is_rewritten
    assert snapshot.desired.submissions == {}


def test_another_assembler_meets_the_same_snapshot(fleet: Fleet) -> None:
    good = fleet.commit(fleet.job("a") | fleet.job("b"))
    fleet.commit({"jobs/team/a.yaml": "kind: Nonsense\n"})
    statuses = statuses_of(a_status(good))

    one, other = assembled(fleet, statuses), assembled(fleet, statuses)
    assert one == other
    assert snapshot_digest(one) == snapshot_digest(other)


def test_an_assembler_that_remembers_says_what_a_fresh_one_says(fleet: Fleet) -> None:
    source = SpecSource(fleet.remote.path, remote="unused")
    cursor = fleet.remote.tip()
    tip = fleet.commit(fleet.job("a"))
    reading = read_specs(GitTree(fleet.remote.path, tip))
    old = Assembler(source)
    old.assemble(reading, None, inputs_of(tip, cursor=cursor))
    for inputs in (inputs_of(tip, cursor=tip), inputs_of(tip, cursor=cursor)):
        fresh = Assembler(source).assemble(reading, None, inputs)
        assert old.assemble(reading, None, inputs) == fresh


@pytest.mark.parametrize(
    "other",
    [
        {"allowed_prune": 3},
        {"previous_look_at": Instant(7)},
        {"node_states": {NODE: NodeState.DOWN}},
        {"is_rewritten": True},
    ],
)
def test_any_other_fact_is_another_digest(fleet: Fleet, other: dict[str, Any]) -> None:
    fleet.commit(fleet.job("a"))

    assert snapshot_digest(assembled(fleet)) != snapshot_digest(assembled(fleet, **other))


def test_what_no_node_had_cached_has_the_digest_it_always_had() -> None:
    snapshot = a_snapshot(nodes={"n1": 8, "n2": {"gpus": 4, "rack": "r2"}}, pending={"a": {}})
    (one, *others) = snapshot.cluster.nodes
    with_caches = replace(one, caches=Caches(models=("Qwen/Qwen3-8B",)))
    cluster = replace(snapshot.cluster, nodes=(with_caches, *others))

    assert snapshot_digest(snapshot) == BEFORE_CACHES
    assert snapshot_digest(replace(snapshot, cluster=cluster)) != BEFORE_CACHES


def test_what_runs_measured_is_another_digest_and_nothing_measured_is_the_one_before() -> None:
    snapshot = a_snapshot(nodes={"n1": 8, "n2": {"gpus": 4, "rack": "r2"}}, pending={"a": {}})
    measured = SpreadMeasured(racks=MeasuredSlowdown(ratio=1.5, weight=2.0, runs=4))

    taught = replace(snapshot, measured_spread=measured)

    assert snapshot_digest(snapshot) == BEFORE_CACHES
    assert snapshot_digest(taught) != BEFORE_CACHES


def test_what_is_seen_of_a_node_leaves_its_caches() -> None:
    declared = replace(a_node(NodeState.READY), caches=Caches(models=("Qwen/Qwen3-8B",)))
    seen = inputs_of(CommitId("a" * 40), node_states={NODE: NodeState.DOWN}, devices={NODE: ()})
    (joined,) = joined_cluster(Cluster(id="lab", nodes=(declared,)), seen).nodes

    assert joined == replace(declared, state=NodeState.DOWN)
    assert restore(Node, plain(joined)) == joined
    assert restore(Node, {"name": "n", "rack": "r", "devices": []}).caches == Caches()


def test_an_edit_of_opaque_keys_is_another_digest(fleet: Fleet) -> None:
    first = fleet.commit(fleet.job("a"))
    second = fleet.commit(fleet.job("a", seconds=7))
    digests = {
        snapshot_digest(replace(each, desired=replace(each.desired, commit=first)))
        for each in (assembled(fleet, commit=first), assembled(fleet, commit=second))
    }
    assert len(digests) == 2


def a_node(state: NodeState, *devices: Device) -> Node:
    return Node(name=NODE, rack="r", devices=devices, state=state)


def test_the_graver_of_a_declared_and_a_seen_state_counts() -> None:
    for declared, seen, joined in (
        (NodeState.READY, NodeState.DOWN, NodeState.DOWN),
        (NodeState.DRAINING, NodeState.CORDONED, NodeState.DRAINING),
        (NodeState.DOWN, NodeState.READY, NodeState.DOWN),
    ):
        cluster = Cluster(id="c", nodes=(a_node(declared),))
        found = joined_cluster(cluster, inputs_of(CommitId("c" * 40), node_states={NODE: seen}))
        assert found.nodes[0].state is joined


def test_discovered_devices_take_the_place_of_declared_ones() -> None:
    slot = Device(id=DeviceId("cpu-0"), kind=DeviceKind.CPU_SLOT, type="cpu", memory_gib=1)
    gpu = Device(id=DeviceId("GPU-1"), kind=DeviceKind.GPU, type="H200", memory_gib=139)
    cluster = Cluster(id="c", nodes=(a_node(NodeState.READY, slot),))
    inputs = inputs_of(CommitId("c" * 40))

    assert joined_cluster(cluster, inputs).nodes[0].devices == (slot,)
    found = joined_cluster(cluster, replace(inputs, devices={NODE: (gpu,)}))
    assert found.nodes[0].devices == (gpu,)


RESERVATION = """\
api_version: headway/v1
kind: Reservation
start: "2033-05-18T05:00:00Z"
duration: 1h
gpus: {gpus}
every: weekly
"""
DEMO = JobId("team/demo")


def kept_as(observed: CommitId) -> StatusTree:
    kept = ReservationStatus(
        reservation=DEMO,
        phase=ReservationPhase.PLANNED,
        reason=Reason.WINDOW_FREE,
        observed_commit=observed,
    )
    return replace(statuses_of(), reservations={DEMO: kept})


def test_a_reservation_is_wanted_with_the_weeks_around_now(fleet: Fleet) -> None:
    commit = fleet.commit({"jobs/team/demo.yaml": RESERVATION.format(gpus=2)})
    snapshot = assembled(fleet)

    wanted = snapshot.desired.reservations[DEMO]
    assert (wanted.commit, wanted.held.gpus.count) == (commit, 2)
    assert len(wanted.held.occurrences) == 5
    assert DEMO not in snapshot.desired.jobs


def test_an_invalid_edit_leaves_the_last_valid_reservation(fleet: Fleet) -> None:
    good = fleet.commit({"jobs/team/demo.yaml": RESERVATION.format(gpus=2)})
    fleet.commit({"jobs/team/demo.yaml": RESERVATION.format(gpus="none")})
    snapshot = assembled(fleet, kept_as(good))

    wanted = snapshot.desired.reservations[DEMO]
    assert (wanted.commit, wanted.held.gpus.count) == (good, 2)
    assert wanted.problems
    assert DEMO not in snapshot.desired.jobs


def test_a_path_that_became_a_job_is_no_reservation_any_more(fleet: Fleet) -> None:
    good = fleet.commit({"jobs/team/demo.yaml": RESERVATION.format(gpus=2)})
    fleet.commit({"jobs/team/demo.yaml": fleet.job("demo")["jobs/team/demo.yaml"]})
    snapshot = assembled(fleet, kept_as(good))

    assert DEMO in snapshot.desired.jobs
    assert snapshot.reservations == {}


def test_a_job_keeps_its_path_until_it_is_over(fleet: Fleet) -> None:
    good = fleet.commit(fleet.job("demo"))
    fleet.commit({"jobs/team/demo.yaml": RESERVATION.format(gpus=2)})
    status = replace(a_status(good), job=DEMO)
    going_on = assembled(fleet, statuses_of(status))
    over = assembled(fleet, statuses_of(replace(status, phase=JobPhase.CANCELLED)))

    assert going_on.desired.reservations == {}
    assert DEMO in going_on.statuses
    assert DEMO in over.desired.reservations
    assert over.statuses == {}


def test_budgets_have_their_periods_at_now(fleet: Fleet) -> None:
    budget = "limit_gpu_hours: 2\nperiod: year\ntimezone: UTC\n"
    fleet.commit({"conf/budgets/q4.yaml": budget} | fleet.job("a"))
    snapshot = assembled(fleet)

    found = snapshot.budgets["q4"]
    assert found.limit_gpu_s == 7200
    assert found.periods[0].start <= snapshot.now < found.periods[0].end
    assert snapshot_digest(snapshot) != snapshot_digest(replace(snapshot, budgets={}))
