import os
import time
from pathlib import Path

import pytest

from reconciler.errors import GitError
from reconciler.store.git.command import (
    find_repository,
    full_id,
    git,
    resolve,
    without_secrets,
)
from tests.git_worlds import Remote, run_git


def test_the_callers_environment_and_settings_do_not_reach_git(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = remote.commit({"jobs/a/b.yaml": "x"})
    settings = tmp_path / "gitconfig"
    settings.write_text("[alias]\n\tcat-file = !touch pwned\n[core]\n\tabbrev = 4\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))

    assert resolve(remote.path, "main") == commit
    assert git(remote.path, "config", "--get", "core.abbrev", ok=(0, 1)).text == ""
    assert not (tmp_path / "trace").exists()


def test_hooks_of_the_repository_do_not_run(remote: Remote, tmp_path: Path) -> None:
    commit = remote.commit({"a": "x"})
    remote.hook("reference-transaction", f"touch {tmp_path}/ran")
    run_git(remote.path, "update-ref", "refs/heads/by-hand", commit)
    assert (tmp_path / "ran").exists(), "the hook works where nothing switches it off"
    (tmp_path / "ran").unlink()

    git(remote.path, "update-ref", "refs/heads/by-us", commit)

    assert not (tmp_path / "ran").exists()


def test_a_replaced_object_is_not_shown_in_place_of_the_real_one(remote: Remote) -> None:
    real = remote.commit({"a": "real"})
    other = remote.commit({"a": "other"})
    run_git(remote.path, "replace", real, other)

    assert git(remote.path, "cat-file", "blob", f"{real}:a").text == "real"


def test_credentials_in_a_url_never_reach_a_message(remote: Remote) -> None:
    url = "https://bot:s3cret@127.0.0.1:1/fleet.git?token=s3cret"

    with pytest.raises(GitError) as error:
        git(remote.path, "ls-remote", url)

    assert "s3cret" not in str(error.value)
    assert "127.0.0.1" in str(error.value)
    assert without_secrets("ssh://git@host/x") == "ssh://***@host/x"


def test_an_error_says_what_git_said_without_its_advice(remote: Remote) -> None:
    with pytest.raises(GitError) as error:
        git(remote.path, "log", "no-such-branch")

    assert str(error.value).startswith("git log: fatal: ambiguous argument 'no-such-branch'")
    assert not error.value.retryable


def test_a_hanging_remote_is_ended_with_everything_it_started(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "ssh"
    script.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    script.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(script))
    began = time.monotonic()

    with pytest.raises(GitError) as error:
        git(remote.path, "ls-remote", "ssh://host/fleet.git", timeout_s=1.0)

    assert error.value.retryable
    assert time.monotonic() - began < 30
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 30
    while _is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _is_alive(pid), "the child that hung is gone too"


def test_an_answer_larger_than_allowed_is_cut_off(remote: Remote) -> None:
    remote.commit({"big": "x" * 100_000})

    with pytest.raises(GitError, match="larger than allowed"):
        git(remote.path, "cat-file", "blob", "main:big", max_bytes=1000)


def test_much_input_and_much_output_at_once_do_not_block_each_other(remote: Remote) -> None:
    commit = remote.commit({"a": "x" * 1000})
    asked = f"{commit}:a\n".encode() * 4_000

    answer = git(remote.path, "cat-file", "--batch", stdin=asked, timeout_s=60)

    assert answer.stdout.count(b"blob 1000\n") == 4_000


def test_a_command_that_does_not_read_its_input_still_answers(remote: Remote) -> None:
    commit = remote.commit({"a": "x"})

    assert git(remote.path, "rev-parse", "main", stdin=b"y" * 5_000_000).text == commit


def test_a_remote_that_runs_a_command_is_refused(remote: Remote, tmp_path: Path) -> None:
    with pytest.raises(GitError, match="not allowed"):
        git(remote.path, "ls-remote", f"ext::sh -c touch% {tmp_path}/pwned")

    assert not (tmp_path / "pwned").exists()


def test_an_object_id_is_full_or_refused() -> None:
    assert full_id("a" * 40) == "a" * 40
    assert full_id("a" * 64) == "a" * 64
    for wrong in ("", "HEAD", "a" * 39, "A" * 40, "a" * 40 + "\n", "--" + "a" * 40):
        with pytest.raises(GitError):
            full_id(wrong)


def test_resolving_gives_a_commit_or_none_and_never_takes_an_option(remote: Remote) -> None:
    commit = remote.commit({"a": "x"})
    run_git(
        remote.path, "tag", "-a", "v1", "-m", "a tag", commit,
        GIT_COMMITTER_NAME="T", GIT_COMMITTER_EMAIL="t@example.org",
    )  # fmt: skip

    assert resolve(remote.path, "v1") == commit
    assert resolve(remote.path, "nowhere") is None
    assert resolve(remote.path, "f" * 40) is None
    for option in ("--all", "-h", "main\nHEAD", "a b"):
        with pytest.raises(GitError, match="not the name of a commit"):
            resolve(remote.path, option)


def test_a_folder_outside_of_any_repository_is_an_error(tmp_path: Path, remote: Remote) -> None:
    assert find_repository(remote.path / "refs") == remote.path
    with pytest.raises(GitError, match="not a git repository"):
        find_repository(tmp_path)


def test_a_lock_left_by_a_killed_git_heals_and_a_live_one_is_waited_for(remote: Remote) -> None:
    commit = remote.commit({"a": "x"})
    lock = remote.path / "refs" / "heads" / "status.lock"
    lock.touch()

    with pytest.raises(GitError, match="File exists") as error:
        git(remote.path, "update-ref", "refs/heads/status", commit)
    assert error.value.retryable
    assert lock.exists(), "a young lock may have an owner"

    os.utime(lock, (0, 0))
    with pytest.raises(GitError, match="File exists"):
        git(remote.path, "update-ref", "refs/heads/status", commit)
    git(remote.path, "update-ref", "refs/heads/status", commit)
    assert remote.tip("status") == commit


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository away")
def test_a_repository_of_another_user_is_refused_with_the_way_out(
    remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote.commit({"a": "x"})
    for path in [remote.path, *remote.path.rglob("*")]:
        os.chown(path, 12345, 12345)

    with pytest.raises(GitError, match="HEADWAY_SAFE_DIRECTORY=") as error:
        resolve(remote.path, "main")
    assert not error.value.retryable

    monkeypatch.setenv("HEADWAY_SAFE_DIRECTORY", str(remote.path))
    assert resolve(remote.path, "main") is not None


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
