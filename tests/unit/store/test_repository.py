from pathlib import Path

import pytest

from reconciler.domain.units import CommitId
from reconciler.errors import GitError
from reconciler.store.git.repository import (
    commit_info,
    maintain,
    open_mirror,
    refs,
    refuse_url,
)
from tests.git_worlds import ADA, Reconciler, Remote, a_status, run_git


def test_a_mirror_is_made_once_and_opened_again(remote: Remote, tmp_path: Path) -> None:
    path = tmp_path / "state" / "mirror.git"

    assert open_mirror(path, remote.url) == path
    tip = remote.commit({"a": "x"})
    run_git(path, "fetch", "--quiet", "origin", "+refs/heads/main:refs/heads/here")
    assert open_mirror(path, remote.url) == path

    assert refs(path) == {"refs/heads/here": tip}
    assert run_git(path, "rev-parse", "--is-bare-repository") == "true"
    assert run_git(path, "remote", "get-url", "origin") == remote.url


def test_a_moved_remote_replaces_the_old_address(remote: Remote, tmp_path: Path) -> None:
    open_mirror(tmp_path / "m.git", remote.url)
    open_mirror(tmp_path / "m.git", "https://example.org/fleet.git")

    assert run_git(tmp_path / "m.git", "remote", "get-url", "origin") == (
        "https://example.org/fleet.git"
    )


def test_a_folder_that_holds_something_else_is_left_alone(remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "precious").write_text("x")

    with pytest.raises(GitError, match="no git repository"):
        open_mirror(tmp_path / "data", remote.url)
    with pytest.raises(GitError):
        open_mirror(remote.clone("Ada").path, remote.url)
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["precious"]


@pytest.mark.parametrize(
    "url",
    ["", "ext::sh -c touch%20x", "--upload-pack=touch x", "git://host/x", "http://h/x", "fd::17",
     "ssh://h/x\n[core]\n\thooksPath=/tmp"],
)  # fmt: skip
def test_a_remote_that_would_run_something_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(GitError) as error:
        open_mirror(tmp_path / "m.git", url)
    assert not error.value.retryable
    assert not (tmp_path / "m.git").exists()


@pytest.mark.parametrize(
    "url", ["/srv/fleet.git", "file:///srv/x", "ssh://git@h/x", "git@host:a/b.git", "https://h/x"]
)
def test_ordinary_remotes_are_accepted(url: str) -> None:
    refuse_url(url)


def test_a_refusal_does_not_repeat_the_password() -> None:
    with pytest.raises(GitError) as error:
        refuse_url("ftp://bot:s3cret@host/x")
    assert "s3cret" not in str(error.value)


def test_a_commit_is_shown_with_its_people(remote: Remote) -> None:
    first = remote.commit({"a": "x"}, "First\n\nbody\n", at=1000)
    second = remote.commit({"a": "y"}, "Second", at=2000)

    info = commit_info(remote.path, second)

    assert (info.commit, info.parents, info.author) == (second, (first,), ADA)
    assert (info.committed_at, info.message) == (2000, "Second")
    assert commit_info(remote.path, first).message == "First\n\nbody\n"
    with pytest.raises(GitError, match="is not in"):
        commit_info(remote.path, CommitId("f" * 40))


def test_maintenance_packs_what_lies_loose_and_loses_nothing(remote: Remote) -> None:
    holder = Reconciler(remote)
    holder.acquire()
    for number in range(12):
        tip = holder.record(a_status(f"a/job-{number}"))
    loose = _loose(holder.mirror)
    assert loose > 40

    maintain(holder.mirror)

    assert _loose(holder.mirror) < loose / 10
    assert (holder.mirror / "objects" / "info" / "commit-graphs").exists() or (
        holder.mirror / "objects" / "info" / "commit-graph"
    ).exists()
    assert len(holder.store.read(tip).statuses) == 12
    assert holder.store.fetch() == tip
    holder.record(a_status("a/after"))


def _loose(repo: Path) -> int:
    return int(run_git(repo, "count-objects").split()[0])
