"""The local launcher where its storage or its request is not what it should be."""

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.domain.attempt import ObservedState
from reconciler.domain.cluster import Allocation, NodeShare
from reconciler.domain.launch import RunRef
from reconciler.domain.units import AttemptId, DeviceId, NodeName, Seconds
from reconciler.errors import LauncherError, UsageError
from reconciler.launchers import run_files
from reconciler.launchers.local import LocalLauncher
from reconciler.launchers.table import launcher
from tests.contract.runs import a_launch

RUN = a_launch("true").run


def test_an_empty_runs_folder_is_made_and_knows_nothing(tmp_path: Path) -> None:
    mine = LocalLauncher(tmp_path / "deep" / "runs")

    assert mine.poll([RUN])[RUN.attempt].state is ObservedState.ABSENT
    assert (tmp_path / "deep" / "runs").is_dir()


def test_a_runs_folder_that_vanishes_makes_every_run_unknown(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    mine = LocalLauncher(root)
    root.rename(tmp_path / "unmounted")
    other = RunRef(attempt=AttemptId("other"), path="t/k/x/a1")
    seen = mine.poll([RUN, other])

    assert {one.state for one in seen.values()} == {ObservedState.UNKNOWN}
    assert not root.exists()


def test_another_folder_in_the_place_of_the_runs_folder_is_not_believed(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    mine = LocalLauncher(root)
    root.rename(tmp_path / "unmounted")
    root.mkdir()

    assert mine.poll([RUN])[RUN.attempt].state is ObservedState.UNKNOWN
    root.rmdir()
    (tmp_path / "unmounted").rename(root)
    assert mine.poll([RUN])[RUN.attempt].state is ObservedState.ABSENT


def test_a_runs_folder_that_cannot_be_made_makes_every_run_unknown(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    mine = LocalLauncher(tmp_path / "file" / "runs")

    assert mine.poll([RUN])[RUN.attempt].state is ObservedState.UNKNOWN
    with pytest.raises(LauncherError, match="cannot launch"):
        mine.launch(a_launch("true"))
    with pytest.raises(LauncherError, match="cannot ask to stop"):
        mine.stop(RUN, Seconds(1))
    with pytest.raises(LauncherError, match="cannot kill"):
        mine.kill(RUN)


@pytest.mark.parametrize("path", ["/etc", "../outside", "t/../../x"])
def test_a_path_that_leads_out_of_the_runs_folder_is_refused(tmp_path: Path, path: str) -> None:
    mine, request = LocalLauncher(tmp_path / "runs"), a_launch("true")
    with pytest.raises(LauncherError, match="not a plain path") as refused:
        mine.launch(replace(request, run=replace(request.run, path=path)))

    assert not refused.value.retryable


def test_a_run_directory_that_became_a_link_is_unknown_and_others_are_still_seen(
    tmp_path: Path,
) -> None:
    mine = LocalLauncher(tmp_path / "runs")
    (tmp_path / "outside" / "claim").mkdir(parents=True)
    linked = tmp_path / "runs" / RUN.path
    linked.parent.mkdir(parents=True)
    linked.symlink_to(tmp_path / "outside")
    other = RunRef(attempt=AttemptId("other"), path="t/k/x/a1")
    seen = mine.poll([RUN, other])

    assert seen[RUN.attempt].state is ObservedState.UNKNOWN
    assert "not a plain path" in seen[RUN.attempt].message
    assert seen[other.attempt].state is ObservedState.ABSENT


def test_a_gang_over_two_nodes_is_refused(tmp_path: Path) -> None:
    shares = tuple(
        NodeShare(node=NodeName(name), devices=(DeviceId("cpu-0"),)) for name in ("a", "b")
    )
    request = replace(a_launch("true"), allocation=Allocation(shares=shares))
    with pytest.raises(LauncherError, match="one machine, got 2 nodes") as refused:
        LocalLauncher(tmp_path).launch(request)

    assert not refused.value.retryable


def test_a_run_directory_that_cannot_be_read_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = LocalLauncher(tmp_path / "runs")

    def stale(*_: object) -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(run_files, "read_bytes", stale)
    (tmp_path / "runs" / RUN.path / "claim").mkdir(parents=True)
    seen = mine.poll([RUN])[RUN.attempt]

    assert seen.state is ObservedState.UNKNOWN
    assert seen.message.endswith("does not answer: Stale file handle")


def test_a_launcher_that_is_not_in_the_table_is_refused_with_those_that_are(
    tmp_path: Path,
) -> None:
    with pytest.raises(UsageError, match=r"no launcher 'ray'; write one of: local"):
        launcher("ray", tmp_path)
