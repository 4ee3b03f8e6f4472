"""A reconciler dies inside one status commit: the branch holds all of it or nothing of it.

Real processes, killed for real.  After each death another process opens the same mirror, as after
a restart, and finds which of the two it was; nothing is lost and nothing is there twice.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.domain.status import JobPhase
from reconciler.domain.units import CommitId
from tests.git_worlds import Reconciler, Remote, a_status, run_git

PROGRAM = """
import os, signal, sys
from pathlib import Path
from reconciler.domain.status import JobPhase
from reconciler.store import status_store
from tests.git_worlds import Reconciler, Remote, a_status

where, root = sys.argv[1], Path(sys.argv[2])

class Here:
    path = root / "remote.git"
    url = f"file://{path}"

reconciler = Reconciler(Here, "r1")
reconciler.acquire()
(root / "pid").write_text(str(os.getpid()))

def die(*args, **more):
    os.kill(os.getpid(), signal.SIGKILL)

def die_after(function):
    def call(*args, **more):
        function(*args, **more)
        die()
    return call

if where == "before the commit is written":
    status_store.write_commit = die
elif where == "after the commit is written":
    status_store.write_commit = die_after(status_store.write_commit)
elif where == "after the push":
    status_store.push = die_after(status_store.push)
elif where == "after it is remembered":
    reconciler.store._remember = die_after(reconciler.store._remember)
reconciler.record(a_status("team/job", JobPhase.RUNNING))
(root / "done").write_text("")
"""
LANDS = {
    "before the commit is written": False,
    "after the commit is written": False,
    "after the push": True,
    "after it is remembered": True,
}


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    """A fleet in which one status was recorded and the reconciler left."""
    remote = Remote(tmp_path / "remote.git")
    first = Reconciler(remote, "r1")
    first.acquire()
    first.record(a_status("team/job"))
    return remote


def die(remote: Remote, where: str) -> None:
    """Run a reconciler on the same mirror until it is killed at ``where``."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, where, str(remote.path.parent)],
        capture_output=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert not (remote.path.parent / "done").exists()


def tip_of(remote: Remote) -> CommitId:
    tip = remote.tip("status/laptop")
    assert tip is not None
    return tip


@pytest.mark.parametrize("where", list(LANDS))
def test_a_death_inside_a_commit_leaves_all_of_it_or_nothing(remote: Remote, where: str) -> None:
    die(remote, where)

    again = Reconciler(remote, "r1")
    assert again.acquire() == 3
    recorded = again.store.read(tip_of(remote)).statuses["team/job"]
    assert recorded.phase is (JobPhase.RUNNING if LANDS[where] else JobPhase.PENDING)

    tip = again.record(a_status("team/job", JobPhase.RUNNING))
    assert tip == tip_of(remote) == again.store.fetch()
    assert running_commits(remote) == 1, "recorded once, whichever process did it"
    assert run_git(remote.path, "fsck", "--strict", "--no-dangling") == ""


@pytest.mark.parametrize("hook", ["pre-receive", "update", "post-receive"])
def test_a_death_while_the_remote_is_receiving_heals(remote: Remote, hook: str) -> None:
    """git goes on pushing after its reconciler is gone; the next one finds what came of it."""
    remote.hook(
        hook,
        f"test -f {remote.path.parent}/pid && kill -9 $(cat {remote.path.parent}/pid)\n"
        f"rm -f {remote.path.parent}/pid\nexit 0",
    )
    die(remote, "while the remote is receiving")
    (remote.path / "hooks" / hook).unlink()

    again = Reconciler(remote, "r1")
    again.acquire()
    again.record(a_status("team/job", JobPhase.RUNNING))

    assert again.store.read(tip_of(remote)).statuses["team/job"].phase is JobPhase.RUNNING
    assert running_commits(remote) == 1
    assert again.store.fetch() == tip_of(remote)


def test_locks_left_in_the_mirror_by_a_dead_machine_heal(remote: Remote) -> None:
    again = Reconciler(remote, "r1")
    lock = again.mirror / "refs" / "heads" / "status" / "laptop.lock"
    lock.touch()
    os.utime(lock, (0, 0))

    for _ in range(3):
        try:
            again.acquire()
            break
        except Exception as error:
            assert getattr(error, "retryable", False), error
    again.record(a_status("team/job", JobPhase.RUNNING))

    assert again.store.fetch() == tip_of(remote)


def running_commits(remote: Remote) -> int:
    """Count the commits that say the job runs."""
    log = run_git(
        remote.path, "log", "--format=%H", "-S", '"phase": "running"', "status/laptop", "--",
        "status/team/job.json",
    )  # fmt: skip
    return len(log.splitlines())
