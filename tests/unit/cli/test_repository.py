"""Finding the repository and its status branch, from a clone or a bare repository."""

import os
from pathlib import Path

import pytest

from reconciler.cli.boundary import main
from reconciler.cli.branch import open_branch
from reconciler.cli.repository import FETCHED_LEASE, Repository
from reconciler.errors import NotFoundError, UsageError
from reconciler.store.git.command import git
from tests.unit.cli.command_line import Headway, in_process
from tests.unit.cli.sample_fleet import CLUSTER, NOW, WRITTEN_AT, files, statuses, write_branch


@pytest.fixture
def clone(repo: Path, tmp_path: Path) -> Path:
    """Return a clone that was made when main was all there was."""
    write_branch(repo, {"README.md": b"a fleet\n"}, ref="refs/heads/main")
    folder = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--single-branch", str(repo), str(folder))
    return folder


def test_a_bare_repository_is_read_as_it_is(repo: Path) -> None:
    found = Repository.find(str(repo))
    assert found.git_dir == repo
    assert found.remote is None
    assert set(open_branch(found).jobs) == {status.job for status in statuses()}


def test_a_clone_is_brought_up_to_date_first(clone: Path) -> None:
    branch = open_branch(Repository.find(str(clone)))
    assert branch.ref.name == f"refs/remotes/origin/status/{CLUSTER}"
    assert len(branch.jobs) == len(statuses())


def test_a_clone_is_found_from_a_folder_inside(clone: Path) -> None:
    (clone / "deep").mkdir()
    assert Repository.find(str(clone / "deep")).git_dir == clone / ".git"


def test_no_fetch_reads_what_is_here(clone: Path) -> None:
    with pytest.raises(NotFoundError):
        open_branch(Repository.find(str(clone)), fetches=False)


def test_people_s_branches_are_fetched_only_for_history(repo: Path, clone: Path) -> None:
    newer = write_branch(repo, {"jobs/a/b.yaml": b"x"}, ref="refs/heads/main")
    open_branch(Repository.find(str(clone)))
    assert git(clone, "rev-parse", "refs/remotes/origin/main").text != newer
    open_branch(Repository.find(str(clone)), also_main=True)
    assert git(clone, "rev-parse", "refs/remotes/origin/main").text == newer


def test_a_remote_that_does_not_answer_is_a_warning_beside_what_is_here(
    clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    headway = in_process(capsys, clone)
    assert headway("queue").code == 0
    git(clone, "remote", "set-url", "origin", "/nowhere/fleet.git")
    said = headway("queue")
    assert said.code == 0
    assert "warning: origin could not be asked" in said.err
    assert "recsys/qwen3-dpo" in said.out
    assert "38s old" in said.out


def test_the_environment_names_the_repository(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADWAY_REPO", str(repo))
    assert in_process(capsys, None)("queue").code == 0


def test_where_there_is_no_repository_the_message_says_what_to_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (tmp_path / "missing", tmp_path):
        said = in_process(capsys, folder)("queue")
        assert said.code == 3
        assert "--repo PATH" in said.err
        assert "HEADWAY_REPO" in said.err


def test_a_url_is_to_be_cloned_first(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--repo", "https://ann:hunter2@git.example/fleet.git", "queue"])
    said = capsys.readouterr().err
    assert code == 3
    assert "clone it" in said
    assert "hunter2" not in said


def test_verbose_says_what_is_read_and_whence(repo: Path, headway: Headway) -> None:
    assert headway("-v", "queue").err == (
        f"headway: reading refs/heads/status/{CLUSTER} in {repo}\n"
    )


def test_where_there_is_no_status_branch_the_message_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git(tmp_path, "init", "--bare", "--quiet", "empty.git")
    said = in_process(capsys, tmp_path / "empty.git")("queue")
    assert said.code == 3
    assert "headway reconcile" in said.err


def test_several_clusters_must_be_told_apart(repo: Path, headway: Headway) -> None:
    write_branch(repo, files(), ref="refs/heads/status/gpu-b")
    said = headway("queue")
    assert said.code == 64
    assert "gpu-a, gpu-b" in said.err
    assert headway("queue", "--cluster", "gpu-b").code == 0
    missing = headway("queue", "--cluster", "gpu-c")
    assert missing.code == 3
    assert "there are: gpu-a, gpu-b" in missing.err
    with pytest.raises(UsageError):
        open_branch(Repository.find(str(repo)))


def test_the_copy_of_the_remote_s_branch_wins_over_a_local_one(clone: Path) -> None:
    write_branch(clone, {}, ref=f"refs/heads/status/{CLUSTER}")
    assert len(open_branch(Repository.find(str(clone))).jobs) == len(statuses())


def test_the_state_is_as_fresh_as_the_last_sign_of_the_reconciler(
    repo: Path, clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    headway = in_process(capsys, clone)
    assert "38s old" in headway("queue").out
    write_branch(repo, {}, ref=f"refs/headway/lease/{CLUSTER}", written_at=WRITTEN_AT + 30)
    assert "state of 14:22:37" in headway("queue").out
    assert "8s old" in headway("queue").out
    assert git(clone, "rev-parse", f"{FETCHED_LEASE}{CLUSTER}").text


def test_a_reconciler_unseen_for_long_is_warned_about(
    repo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late = in_process(capsys, repo, now=NOW + 3600)
    assert "no sign of a reconciler for 1h" in late("queue").err
    assert late("-q", "queue").err == ""


def test_a_file_of_a_newer_version_is_left_out_and_said(repo: Path, headway: Headway) -> None:
    write_branch(repo, {"status/new/job.json": b'{"api_version": "headway/v9", "kind": "X"}\n'})
    said = headway("queue")
    assert said.code == 0
    assert "left out: status of new/job" in said.err
    assert "recsys/qwen3-dpo" in said.out


def test_reading_leaves_no_file_behind(repo: Path, headway: Headway) -> None:
    before = sorted(os.walk(repo))
    headway("queue")
    headway("audit")
    assert sorted(os.walk(repo)) == before
