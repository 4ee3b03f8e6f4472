"""The wrapper by itself: claims, signals, leftovers, the last word."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from reconciler.launchers import processes
from reconciler.launchers.wrapper import DUPLICATE, USAGE
from tests.contract.runs import a_request_document, wait_for_text, wait_until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run_dir(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "request.json").write_text(json.dumps(a_request_document(grace_s=1)))
    yield tmp_path
    membership = processes.Membership(str(a_request_document()["attempt"]), str(tmp_path))
    processes.send(processes.members([membership])[membership], signal.SIGKILL)


def start(run_dir: Path, *command: str, options: Sequence[str] = ()) -> subprocess.Popen[str]:
    wrapper = [sys.executable, "-m", "reconciler.launchers.wrapper", str(run_dir), *options]
    return subprocess.Popen(
        [*wrapper, "--", *command],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )


def last_word(run_dir: Path) -> dict[str, object]:
    word: dict[str, object] = json.loads((run_dir / "exit.json").read_text())
    return word


def test_of_many_wrappers_at_once_one_runs_the_command(run_dir: Path) -> None:
    wrappers = [start(run_dir, "bash", "-c", "echo once; sleep 0.3") for _ in range(12)]
    complaints = [wrapper.communicate()[1] for wrapper in wrappers]

    codes = sorted(wrapper.returncode for wrapper in wrappers)
    assert codes == [0] + [DUPLICATE] * 11
    assert (run_dir / "stdout.log").read_text() == "once\n"
    assert sum("is claimed already" in text for text in complaints) == 11


def test_a_duplicate_touches_nothing(run_dir: Path) -> None:
    start(run_dir, "true").communicate()
    before = {path: path.lstat().st_mtime_ns for path in run_dir.rglob("*")}
    duplicate = start(run_dir, "touch", "ran")
    duplicate.communicate()

    assert duplicate.returncode == DUPLICATE
    assert {path: path.lstat().st_mtime_ns for path in run_dir.rglob("*")} == before


@pytest.mark.parametrize("words", [["true"], ["--"], ["--tell-everyone", "--", "true"], []])
def test_a_wrong_call_says_how_to_call_it(run_dir: Path, words: list[str]) -> None:
    wrapper = [sys.executable, "-m", "reconciler.launchers.wrapper"]
    command = [*wrapper, str(run_dir), *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == USAGE
    assert "-- COMMAND" in done.stderr
    assert not (run_dir / "claim").exists()


def test_the_wrapper_loads_nothing_but_the_standard_library() -> None:
    program = (
        "import sys; before = set(sys.modules); import reconciler.launchers.wrapper\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout == "['reconciler']\n"


def test_the_command_has_a_process_group_of_its_own_in_the_wrappers_session(run_dir: Path) -> None:
    program = "import os; print(os.getpgrp() == os.getpid(), os.getsid(0) == os.getppid())"
    start(run_dir, sys.executable, "-c", program).communicate()

    assert (run_dir / "stdout.log").read_text() == "True True\n"


def test_files_a_command_makes_where_it_works_mean_nothing(run_dir: Path) -> None:
    script = "echo {} > result.json; touch stop exit.json; mkdir claim; sleep 0.5; exit 6"
    start(run_dir, "bash", "-c", script).communicate()

    assert last_word(run_dir)["exit_status"] == 6
    assert not (run_dir / "result.json").exists()


TELLING = """
import signal, subprocess, sys, time
child = subprocess.Popen(["sleep", "60"])
def leave(*_):
    time.sleep(0.5)
    sys.exit(83 if child.poll() is None else 1)
signal.signal(signal.SIGTERM, leave)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""


@pytest.mark.parametrize(("options", "exit_status"), [([], 1), (["--tell-leader-only"], 83)])
def test_a_stop_reaches_the_group_or_its_leader_only(
    run_dir: Path, options: list[str], exit_status: int
) -> None:
    (run_dir / "request.json").write_text(json.dumps(a_request_document(grace_s=60)))
    wrapper = start(run_dir, sys.executable, "-c", TELLING, options=options)
    wait_for_text(run_dir / "stdout.log", "ready")
    wrapper.terminate()
    wrapper.communicate()

    assert last_word(run_dir)["exit_status"] == exit_status


def test_a_signal_to_the_wrapper_is_a_stop_with_the_requests_grace(run_dir: Path) -> None:
    script = "trap 'echo told; sleep 30' TERM; echo ready; while :; do sleep 0.05; done"
    wrapper = start(run_dir, "bash", "-c", script)
    wait_for_text(run_dir / "stdout.log", "ready")
    wrapper.terminate()
    wrapper.communicate()

    assert (run_dir / "stdout.log").read_text() == "ready\ntold\n"
    assert last_word(run_dir)["exit_status"] == -9
    assert last_word(run_dir)["killed_after_grace"] is True


def test_a_stop_file_that_says_nothing_means_the_requests_grace(run_dir: Path) -> None:
    wrapper = start(run_dir, "bash", "-c", "trap 'exit 83' TERM; echo ready; sleep 60 & wait")
    wait_for_text(run_dir / "stdout.log", "ready")
    (run_dir / "stop").touch()
    wrapper.communicate()

    assert last_word(run_dir)["exit_status"] == 83


def test_torn_stop_files_do_not_stop_the_wrapper_itself(run_dir: Path) -> None:
    wrapper = start(run_dir, "bash", "-c", "trap 'exit 83' TERM; echo ready; sleep 60 & wait")
    wait_for_text(run_dir / "stdout.log", "ready")
    (run_dir / "stop").write_text('{"grace_s": ')
    wrapper.communicate()

    assert (wrapper.returncode, last_word(run_dir)["exit_status"]) == (0, 83)


def test_a_leftover_that_hides_its_environment_is_ended(run_dir: Path) -> None:
    script = "(setsid env -i sleep 600 & echo $! > left.pid); exit 4"
    start(run_dir, "bash", "-c", script).communicate()

    pid = int((run_dir / "work/left.pid").read_text())
    assert last_word(run_dir)["exit_status"] == 4
    assert not Path(f"/proc/{pid}").exists()


def test_a_leftover_gets_a_moment_to_leave_by_itself(run_dir: Path) -> None:
    leftover = "trap 'echo flushed > flushed; exit 0' TERM; touch ready; sleep 600 & wait"
    script = f'setsid bash -c "{leftover}" & until [ -e ready ]; do sleep 0.02; done'
    start(run_dir, "bash", "-c", script).communicate()

    assert (run_dir / "work/flushed").read_text() == "flushed\n"


def test_orphans_are_reaped_while_the_command_runs(run_dir: Path) -> None:
    script = "for i in 1 2 3; do (true &) ; done; sleep 0.5; echo ready; sleep 60"
    wrapper = start(run_dir, "bash", "-c", script)
    wait_for_text(run_dir / "stdout.log", "ready")

    wait_until(lambda: len(children(wrapper.pid)) == 1, "only the command is left")
    wrapper.terminate()
    wrapper.communicate()


def children(parent: int) -> list[str]:
    """Return the state letters of the children, zombies included."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(fields[0])
    return found


def test_the_last_word_waits_for_a_disk_that_refuses_it(run_dir: Path) -> None:
    (run_dir / "exit.json" / "in the way").mkdir(parents=True)
    wrapper = start(run_dir, "bash", "-c", "exit 5")
    assert wrapper.stderr is not None and "trying again" in wrapper.stderr.readline()
    (run_dir / "exit.json" / "in the way").rmdir()
    (run_dir / "exit.json").rmdir()
    wrapper.communicate()

    assert last_word(run_dir)["exit_status"] == 5


def test_the_last_word_needs_no_room_on_a_full_disk(run_dir: Path) -> None:
    wrapper = start(run_dir, "bash", "-c", "echo ready; until [ -e ../go ]; do sleep 0.02; done")
    wait_for_text(run_dir / "stdout.log", "ready")
    reserve = run_dir / "claim" / "exit.reserve"
    kept = reserve.stat()
    (run_dir / "go").touch()
    wrapper.communicate()

    assert (run_dir / "exit.json").stat().st_ino == kept.st_ino
    assert kept.st_size > (run_dir / "exit.json").stat().st_size
    assert not reserve.exists()


def test_a_command_may_outwrite_any_pipe(run_dir: Path) -> None:
    start(run_dir, "bash", "-c", "head -c 2000000 /dev/zero; echo >&2").communicate()

    assert (run_dir / "stdout.log").stat().st_size == 2_000_000


def test_it_starts_fast(run_dir: Path) -> None:
    used = min(_cpu_s(["-m", "reconciler.launchers.wrapper"]) for _ in range(5))
    bare = min(_cpu_s(["-c", "pass"]) for _ in range(5))

    assert used - bare < 0.15


def _cpu_s(arguments: list[str]) -> float:
    before = os.times()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, stderr=subprocess.DEVNULL, check=False)
    after = os.times()
    return (after.children_user - before.children_user) + (
        after.children_system - before.children_system
    )


def test_it_is_found_dead_at_once_when_nobody_reaped_it(run_dir: Path) -> None:
    wrapper = start(run_dir, "true")
    wait_until((run_dir / "exit.json").exists, "the last word")
    wait_until(lambda: processes.look(wrapper.pid) is None, "a zombie counts as gone")
    wrapper.communicate()
