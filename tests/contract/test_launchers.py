"""What every launcher must do.  The rows are in ``launcher_worlds.WORLDS``."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from reconciler.domain.attempt import ObservedState
from reconciler.domain.launch import RunRef
from reconciler.domain.units import AttemptId
from reconciler.errors import LauncherError
from reconciler.ports import Launcher
from tests.contract.launcher_worlds import LauncherWorld
from tests.contract.runs import a_launch, see, wait_for_end, wait_for_text, wait_until


def test_a_run_that_was_never_launched_is_absent(world: LauncherWorld) -> None:
    assert see(world.again(), a_launch("true").run).state is ObservedState.ABSENT


def test_a_command_runs_and_ends_with_its_exit_status(world: LauncherWorld) -> None:
    launcher, request = world.again(), a_launch("bash", "-c", "echo out; echo err >&2; exit 7")
    launcher.launch(request)
    seen = wait_for_end(launcher, request.run)

    assert (seen.state, seen.exit_status, seen.outcome) == (ObservedState.ENDED, 7, None)
    assert seen.started_at is not None and seen.ended_at is not None
    assert 0 <= seen.ended_at - seen.started_at < 60
    assert (world.run_dir(request.run) / "stdout.log").read_text() == "out\n"
    assert (world.run_dir(request.run) / "stderr.log").read_text() == "err\n"


def test_a_launched_run_is_never_absent_again(world: LauncherWorld) -> None:
    launcher, request = world.again(), a_launch("sleep", "60")
    launcher.launch(request)

    states = [see(launcher, request.run).state for _ in range(20)]
    launcher.kill(request.run)
    states += [see(launcher, request.run).state for _ in range(20)]

    assert ObservedState.ABSENT not in states
    assert states[0] is ObservedState.RUNNING


def test_launching_twice_is_one_run(world: LauncherWorld) -> None:
    launcher, request = world.again(), a_launch("bash", "-c", "echo once")
    launcher.launch(request)
    launcher.launch(request)
    wait_for_end(launcher, request.run)
    world.again().launch(request)

    assert see(launcher, request.run).state is ObservedState.ENDED
    assert (world.run_dir(request.run) / "stdout.log").read_text() == "once\n"


@pytest.mark.parametrize("number", range(1, 6))
def test_launching_from_many_at_once_is_one_run(world: LauncherWorld, number: int) -> None:
    request = a_launch("bash", "-c", "echo once; sleep 0.2", number=number)
    launchers = [world.again() for _ in range(6)]
    together = threading.Barrier(len(launchers))

    def launch(one: Launcher) -> None:
        together.wait()
        one.launch(request)

    threads = [threading.Thread(target=launch, args=(one,)) for one in launchers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = wait_for_end(launchers[0], request.run)
    wait_until(lambda: not world.members(request.run), "duplicates have left")

    assert seen.exit_status == 0
    assert (world.run_dir(request.run) / "stdout.log").read_text() == "once\n"


def test_another_request_under_the_same_attempt_is_refused(world: LauncherWorld) -> None:
    launcher, first, second = world.again(), a_launch("true"), a_launch("true", grace_s=99)
    launcher.launch(first)

    with pytest.raises(LauncherError, match="written before with other content") as refused:
        launcher.launch(second)
    assert not refused.value.retryable


def test_a_launch_that_died_before_its_claim_can_be_asked_again(world: LauncherWorld) -> None:
    launcher, request = world.again(), a_launch("bash", "-c", "echo once")
    path = world.run_dir(request.run)
    path.mkdir(parents=True)
    line = json.dumps(request.request, sort_keys=True, ensure_ascii=False) + "\n"
    (path / "request.json").write_text(line)

    assert see(launcher, request.run).state is ObservedState.ABSENT
    launcher.launch(request)
    assert wait_for_end(launcher, request.run).exit_status == 0


LAUNCH_AND_HANG = """
import signal, sys, time
from pathlib import Path
from reconciler.launchers.table import launcher
from tests.contract.runs import a_launch
# what a shell starts in the background, and all below it, is born deaf to this signal
signal.signal(signal.SIGINT, signal.default_int_handler)
mine = launcher(sys.argv[1], Path(sys.argv[2]))
script = "echo ready; while [ ! -e ../go ]; do sleep 0.05; done; echo end"
mine.launch(a_launch("bash", "-c", script))
print("launched", flush=True)
time.sleep(600)
"""


def another_reconciler(world: LauncherWorld) -> subprocess.Popen[str]:
    """Start a process that launched attempt 1, in a process group of its own."""
    child = subprocess.Popen(
        [sys.executable, "-c", LAUNCH_AND_HANG, world.kind, str(world.root)],
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
        cwd=Path(__file__).parents[2],
    )
    assert child.stdout is not None and child.stdout.readline() == "launched\n"
    return child


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_run_survives_the_reconciler_and_is_adopted(
    world: LauncherWorld, how: signal.Signals
) -> None:
    run = a_launch("true").run
    with another_reconciler(world) as reconciler:
        wait_for_text(world.run_dir(run) / "stdout.log", "ready")
        os.killpg(reconciler.pid, how)
        reconciler.wait()

    launcher = world.again()
    assert see(launcher, run).state is ObservedState.RUNNING
    (world.run_dir(run) / "go").touch()
    seen = wait_for_end(launcher, run)

    assert (seen.state, seen.exit_status) == (ObservedState.ENDED, 0)
    assert (world.run_dir(run) / "stdout.log").read_text() == "ready\nend\n"


def test_one_poll_tells_of_every_run_asked_for(world: LauncherWorld) -> None:
    launcher = world.again()
    launches = [a_launch("bash", "-c", f"exit {n}", number=n) for n in range(1, 4)]
    for request in launches:
        launcher.launch(request)
    runs = [request.run for request in launches] + [RunRef(attempt=AttemptId("x"), path="t/x/y/a1")]
    wait_until(
        lambda: all(o.state is not ObservedState.RUNNING for o in launcher.poll(runs).values()),
        "all are over",
    )
    seen = launcher.poll(runs)

    assert [seen[run.attempt].exit_status for run in runs] == [1, 2, 3, None]
    assert seen[AttemptId("x")].state is ObservedState.ABSENT


def test_a_job_sees_its_devices_and_none_of_our_secrets(
    world: LauncherWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_SINK_KEY", "hush")
    monkeypatch.setenv("GITHUB_TOKEN", "hush")
    launcher, request = world.again(), a_launch("env", devices=("cpu-0", "cpu-3"))
    launcher.launch(request)
    wait_for_end(launcher, request.run)
    shown = (world.run_dir(request.run) / "stdout.log").read_text()
    variables = dict(line.split("=", 1) for line in shown.splitlines())

    assert variables["HEADWAY_ATTEMPT_ID"] == request.run.attempt
    assert variables["HEADWAY_DEVICES"] == "cpu-0,cpu-3"
    assert (variables["CUDA_VISIBLE_DEVICES"], variables["OMP_NUM_THREADS"]) == ("", "1")
    assert "hush" not in shown
