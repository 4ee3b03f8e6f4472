"""The document an attempt runs is the one its intent was recorded with."""

from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.domain.attempt import Attempt, AttemptPhase, attempt_id
from reconciler.domain.cluster import Allocation, Cluster, Device, DeviceKind, Node, NodeShare
from reconciler.domain.launch import LaunchRequest
from reconciler.domain.reason import Reason
from reconciler.domain.status import JobPhase, JobStatus
from reconciler.domain.units import CommitId, DeviceId, Digest, Instant, JobId, NodeName
from reconciler.engine.launches import Launches, live_runs
from reconciler.engine.requests import Place
from reconciler.errors import LauncherError
from reconciler.specs.reading import read_specs
from reconciler.store.git.cat_file import GitTree
from tests.live_fleets import Fleet

JOB = JobId("team/a")
SLOT = Device(id=DeviceId("cpu-0"), kind=DeviceKind.CPU_SLOT, type="cpu", memory_gib=1)
CLUSTER = Cluster(id="lab", nodes=(Node(name=NodeName("node-1"), rack="r", devices=(SLOT,)),))


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def launches(fleet: Fleet) -> Launches:
    return Launches(
        lambda commit: GitTree(fleet.remote.path, commit),
        known=lambda _: None,
        cache=None,
        place=Place(runs_dir="/runs"),
    )


def status_of(fleet: Fleet, commit: CommitId, *, digest: str | None = None) -> JobStatus:
    """Return the status of a job with an attempt that is pinned to ``commit``."""
    entry = read_specs(GitTree(fleet.remote.path, commit)).entries[JOB]
    attempt = Attempt(
        id=attempt_id(cluster="lab", job=JOB, submission=commit, generation=1, number=1),
        number=1,
        phase=AttemptPhase.LAUNCHING,
        commit=commit,
        spec_digest=Digest(digest) if digest else (entry.digest or Digest("")),
        allocation=Allocation(
            shares=(NodeShare(node=NodeName("node-1"), devices=(DeviceId("cpu-0"),)),)
        ),
        decided_at=Instant(1),
    )
    return JobStatus(
        job=JOB, phase=JobPhase.RUNNING, reason=Reason.GPUS_FREE, submission=commit,
        attempts=(attempt,), attempts_made=1,
    )  # fmt: skip


def request(fleet: Fleet, status: JobStatus) -> LaunchRequest:
    return launches(fleet).request(status, status.attempts[-1], CLUSTER)


def test_a_newer_main_does_not_change_what_is_asked_for_again(fleet: Fleet) -> None:
    pinned = fleet.commit(fleet.job("a", seconds=1))
    status = status_of(fleet, pinned)
    first = request(fleet, status)
    fleet.commit(fleet.job("a", seconds=2))
    fleet.commit({"jobs/team/a.yaml": None})

    again = request(fleet, status)
    assert again == first
    assert again.command is not None
    assert again.command[-1] == "1"


def test_a_document_that_composes_to_something_else_is_not_run(fleet: Fleet) -> None:
    status = status_of(fleet, fleet.commit(fleet.job("a")), digest="sha256:of another headway")

    with pytest.raises(LauncherError, match="was headway updated") as caught:
        request(fleet, status)
    assert not caught.value.retryable


def test_a_document_that_is_not_there_is_said_by_path_and_commit(fleet: Fleet) -> None:
    status = status_of(fleet, fleet.commit(fleet.job("a")))
    gone = fleet.commit({"jobs/team/a.yaml": None})
    attempt = replace(status.attempts[0], commit=gone)

    with pytest.raises(LauncherError, match=f"jobs/team/a.yaml at {gone}"):
        launches(fleet).request(status, attempt, CLUSTER)


def test_devices_that_left_the_cluster_are_said(fleet: Fleet) -> None:
    status = status_of(fleet, fleet.commit(fleet.job("a")))

    with pytest.raises(LauncherError, match="none of its devices"):
        launches(fleet).request(status, status.attempts[0], replace(CLUSTER, nodes=()))


def test_live_runs_are_those_that_hold_devices(fleet: Fleet) -> None:
    status = status_of(fleet, fleet.commit(fleet.job("a")))
    over = replace(status.attempts[0], phase=AttemptPhase.LOST)

    (run,) = live_runs({JOB: status})
    assert run.path == f"team/a/{status.submission[:10]}-g1/a1"
    assert live_runs({JOB: replace(status, attempts=(over,))}) == ()
