import os
from pathlib import Path

import pytest

from reconciler.domain.units import CommitId
from reconciler.errors import GitError, StaleRevisionError
from reconciler.store.git.fast_import import STAGING_REF, write_commit
from reconciler.store.git.remote import RefUpdate, fetch_ref, push, remote_ref, remote_refs
from reconciler.store.git.repository import open_mirror
from tests.git_worlds import Remote, run_git

A, B = "refs/headway/a", "refs/headway/b"


@pytest.fixture
def mirror(remote: Remote, tmp_path: Path) -> Path:
    return open_mirror(tmp_path / "mirror.git", remote.url)


def a_commit(mirror: Path, text: str, parent: CommitId | None = None) -> CommitId:
    return write_commit(
        mirror, parent=parent, files={"a": text.encode()}, message="x", identity="tester"
    ).commit


def test_a_ref_is_made_moved_and_deleted_only_from_where_it_was(
    remote: Remote, mirror: Path
) -> None:
    one, two = a_commit(mirror, "1"), a_commit(mirror, "2")

    push(mirror, "origin", [RefUpdate(ref=A, old=None, new=one)])
    with pytest.raises(StaleRevisionError, match=f"expected at nothing and is at {one}"):
        push(mirror, "origin", [RefUpdate(ref=A, old=None, new=two)])
    with pytest.raises(StaleRevisionError, match=f"expected at {two} and is at {one}"):
        push(mirror, "origin", [RefUpdate(ref=A, old=two, new=None)])
    push(mirror, "origin", [RefUpdate(ref=A, old=one, new=two)])
    assert remote_ref(mirror, "origin", A) == two
    push(mirror, "origin", [RefUpdate(ref=A, old=two, new=None)])
    assert remote_ref(mirror, "origin", A) is None
    with pytest.raises(StaleRevisionError, match="is at nothing"):
        push(mirror, "origin", [RefUpdate(ref=A, old=two, new=one)])


def test_refs_that_move_together_move_all_or_none(remote: Remote, mirror: Path) -> None:
    one, two = a_commit(mirror, "1"), a_commit(mirror, "2")
    push(mirror, "origin", [RefUpdate(ref=A, old=None, new=one)])

    with pytest.raises(StaleRevisionError):
        push(
            mirror, "origin",
            [RefUpdate(ref=B, old=None, new=two), RefUpdate(ref=A, old=two, new=two)],
        )  # fmt: skip
    assert remote_refs(mirror, "origin", "refs/headway/*") == {A: one}

    push(
        mirror, "origin", [RefUpdate(ref=B, old=None, new=two), RefUpdate(ref=A, old=one, new=two)]
    )
    assert remote_refs(mirror, "origin", "refs/headway/*") == {A: two, B: two}


def test_a_ref_locked_by_another_push_is_a_lost_race(remote: Remote, mirror: Path) -> None:
    one = a_commit(mirror, "1")
    lock = remote.path / "refs" / "headway" / "a.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()

    with pytest.raises(StaleRevisionError, match="lock"):
        push(mirror, "origin", [RefUpdate(ref=A, old=None, new=one)])

    lock.unlink()
    push(mirror, "origin", [RefUpdate(ref=A, old=None, new=one)])


def test_a_server_hook_that_refuses_one_ref_speaks_through(remote: Remote, mirror: Path) -> None:
    remote.hook("update", "echo \"$1 is protected\" >&2; printf 'red\\033[31m' >&2; exit 1")

    with pytest.raises(GitError, match="refs/headway/a is protected") as error:
        push(mirror, "origin", [RefUpdate(ref=A, old=None, new=a_commit(mirror, "1"))])

    assert not error.value.retryable
    assert "\x1b" not in str(error.value), "a server cannot write to the terminal"


def test_a_ref_that_is_not_there_is_none_and_forgotten(remote: Remote, mirror: Path) -> None:
    one = a_commit(mirror, "1")
    push(mirror, "origin", [RefUpdate(ref=A, old=None, new=one)])
    assert fetch_ref(mirror, "origin", A, "refs/headway/here") == one
    push(mirror, "origin", [RefUpdate(ref=A, old=one, new=None)])

    assert fetch_ref(mirror, "origin", A, "refs/headway/here") is None
    assert run_git(mirror, "for-each-ref", "refs/headway/here") == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository away")
def test_a_remote_of_another_user_is_named_and_not_waited_for(remote: Remote, mirror: Path) -> None:
    remote.commit({"a": "x"})
    for path in [remote.path, *remote.path.rglob("*")]:
        os.chown(path, 12345, 12345)

    with pytest.raises(GitError, match="belongs to another user") as error:
        fetch_ref(mirror, "origin", "refs/heads/main", "refs/headway/here")

    assert str(remote.path) in str(error.value)
    assert not error.value.retryable


def test_a_commit_is_written_over_its_parent_only(mirror: Path) -> None:
    first = write_commit(
        mirror, parent=None, files={"a/x": b"1", "a/y": b"2"}, message="First", identity="tester",
    )  # fmt: skip
    second = write_commit(
        mirror, parent=first.commit, files={"a/x": None, "b": b"3", "none": None}, message="Second",
        identity="tester",
    )  # fmt: skip
    orphan = write_commit(mirror, parent=None, files={"c": b"4"}, message="x", identity="tester")
    same = write_commit(
        mirror, parent=second.commit, files={"b": b"3"}, message="x", identity="tester"
    )

    def files(commit: CommitId) -> list[str]:
        return run_git(mirror, "ls-tree", "-r", "--name-only", commit).splitlines()

    assert files(first.commit) == ["a/x", "a/y"]
    assert files(second.commit) == ["a/y", "b"]
    assert files(orphan.commit) == ["c"]
    assert run_git(mirror, "rev-list", "--count", orphan.commit) == "1"
    assert (first.changes_tree, second.changes_tree, same.changes_tree) == (True, True, False)
    assert run_git(mirror, "rev-parse", STAGING_REF) == same.commit


def test_equal_commits_at_an_equal_time_have_one_id(mirror: Path) -> None:
    def write() -> CommitId:
        return write_commit(
            mirror, parent=None, files={"a": b"1"}, message="x", identity="tester", at=1000
        ).commit  # type: ignore[arg-type]

    assert write() == write()


@pytest.mark.parametrize("identity", ["", "a b", "a\nb", "<x>", "x" * 101])
def test_an_identity_that_could_forge_a_header_is_refused(mirror: Path, identity: str) -> None:
    with pytest.raises(GitError, match="cannot sign"):
        write_commit(mirror, parent=None, files={"a": b""}, message="x", identity=identity)
