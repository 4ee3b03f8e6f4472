"""Processes are known by pid, start and boot; members by their environment; never by name."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler.launchers import processes
from reconciler.launchers.processes import Membership, Process
from tests.contract.runs import wait_until

MINE = Membership(f"an-attempt-of-{os.getpid()}", f"/runs/of/{os.getpid()}")
"""Of this test process alone: another one may be ending its own attempts right now."""


@contextmanager
def a_process(attempt: str, run_dir: str, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    variables = {"HEADWAY_ATTEMPT_ID": attempt, "HEADWAY_RUN_DIR": run_dir, "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(command or ("sleep", "60"), env=variables) as child:
        wait_until(lambda: (Path("/proc") / str(child.pid) / "environ").read_bytes() != b"", "exec")
        try:
            yield child
        finally:
            child.kill()


def test_this_process_is_alive_and_another_start_or_boot_is_not() -> None:
    me = processes.look(os.getpid())

    assert me is not None and me.parent == os.getppid()
    assert processes.is_alive(me.pid, me.start_ticks, processes.boot_id())
    assert not processes.is_alive(me.pid, me.start_ticks + 1, processes.boot_id())
    assert not processes.is_alive(me.pid, me.start_ticks, "another boot")


def test_a_process_that_only_waits_to_be_reaped_is_gone() -> None:
    child = subprocess.Popen(["true"])
    wait_until(lambda: processes.look(child.pid) is None, "the zombie counts as gone")
    child.wait()


def test_a_command_name_with_parentheses_and_spaces_is_read(tmp_path: Path) -> None:
    program = tmp_path / "a) S 1 (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "60"]) as child:
        seen = processes.look(child.pid)
        child.kill()

    assert seen is not None and seen.parent == os.getpid()


def test_members_need_the_attempt_and_the_run_directory() -> None:
    with (
        a_process(MINE.attempt, MINE.run_dir) as mine,
        a_process(MINE.attempt, "/runs/of/another/fleet"),
        a_process("another-attempt", MINE.run_dir),
    ):
        found = processes.members([MINE])[MINE]

    assert [process.pid for process in found] == [mine.pid]


def test_children_that_hide_their_environment_are_members_too() -> None:
    script = "env -i sleep 60 & echo; wait"
    with a_process(*(MINE.attempt, MINE.run_dir), "bash", "-c", script) as mine:
        wait_until(lambda: len(processes.members([MINE])[MINE]) == 2, "the hidden child")
        found = processes.members([MINE])[MINE]
        processes.send(found, signal.SIGKILL)

    assert mine.pid in {process.pid for process in found}


def test_the_one_who_asks_is_never_a_member() -> None:
    program = (
        "from reconciler.launchers import processes as p\n"
        f"m = p.Membership({MINE.attempt!r}, {MINE.run_dir!r})\n"
        "print(p.members([m])[m])"
    )
    variables = os.environ | {
        "HEADWAY_ATTEMPT_ID": MINE.attempt,
        "HEADWAY_RUN_DIR": MINE.run_dir,
    }
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, env=variables, cwd=Path(__file__).parents[3], capture_output=True, check=True
    )

    assert done.stdout == b"()\n"


def test_a_signal_does_not_reach_a_pid_that_was_used_again() -> None:
    with a_process(MINE.attempt, MINE.run_dir) as mine:
        real = processes.look(mine.pid)
        assert real is not None
        stale = Process(pid=mine.pid, start_ticks=real.start_ticks - 1)

        assert processes.send([stale], signal.SIGKILL) == 0
        assert processes.look(mine.pid) == real
        assert processes.send([real], signal.SIGKILL) == 1


def test_a_signal_to_a_process_that_is_gone_reaches_nobody() -> None:
    child = subprocess.Popen(["true"])
    child.wait()

    assert processes.send([Process(pid=child.pid, start_ticks=1)], signal.SIGKILL) == 0


def test_descendants_are_found_through_their_parents() -> None:
    tree = {
        pid: Process(pid=pid, start_ticks=1, parent=parent)
        for pid, parent in ((2, 1), (3, 2), (4, 3), (5, 1))
    }

    assert processes.descendants({2}, tree) == {3, 4}
