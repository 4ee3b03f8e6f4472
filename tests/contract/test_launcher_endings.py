"""How runs end under every launcher: stops, kills, leftovers, lost wrappers, exit statuses."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from reconciler.domain.attempt import ObservedState, Outcome
from reconciler.domain.launch import RunRef
from reconciler.domain.units import Seconds
from reconciler.ports import Launcher
from tests.contract.launcher_worlds import LauncherWorld
from tests.contract.runs import a_launch, see, wait_for_end, wait_for_text

RESULT = {
    "version": "headway.run/v1",
    "attempt": "t.j-g1-a1-0123456789",
    "outcome": "succeeded",
    "reason": "completed",
    "message": "",
    "step": 7,
    "samples_seen": 56,
    "final_loss": 1.5,
    "artifacts": {},
    "metrics": {},
    "written_at": 1.0,
}
HEEDLESS = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
POLITE = "trap 'echo leaving; exit 83' TERM; echo ready; while :; do sleep 0.05; done"


def running_command(launcher: Launcher, world: LauncherWorld, script: str, **named: int) -> RunRef:
    """Launch a script that prints ``ready``, and return once it has."""
    request = a_launch("bash", "-c", script, **named)  # type: ignore[arg-type]
    launcher.launch(request)
    wait_for_text(world.run_dir(request.run) / "stdout.log", "ready")
    return request.run


def test_a_stop_lets_the_command_leave_by_itself(world: LauncherWorld) -> None:
    launcher = world.again()
    run = running_command(launcher, world, POLITE)
    launcher.stop(run, Seconds(20))
    launcher.stop(run, Seconds(20))
    seen = wait_for_end(launcher, run)

    assert seen.exit_status == 83
    assert seen.message != "killed when its grace was over"
    assert (world.run_dir(run) / "stdout.log").read_text() == "ready\nleaving\n"


def test_a_stop_kills_what_outlives_the_grace(world: LauncherWorld) -> None:
    launcher = world.again()
    run = running_command(launcher, world, HEEDLESS)
    begun = time.monotonic()
    launcher.stop(run, Seconds(1))
    seen = wait_for_end(launcher, run)

    assert (seen.exit_status, seen.message) == (-9, "killed when its grace was over")
    assert time.monotonic() - begun >= 1
    assert not world.members(run)


def test_a_shorter_grace_holds_over_a_longer_one(world: LauncherWorld) -> None:
    launcher = world.again()
    run = running_command(launcher, world, HEEDLESS)
    launcher.stop(run, Seconds(3600))
    launcher.stop(run, Seconds(1))
    launcher.stop(run, Seconds(7200))

    assert wait_for_end(launcher, run).exit_status == -9


@pytest.mark.parametrize(("how", "exit_status"), [("stop", -15), ("kill", -9)])
def test_what_is_ended_before_it_starts_never_starts(
    world: LauncherWorld, how: str, exit_status: int
) -> None:
    launcher, request = world.again(), a_launch("bash", "-c", "echo ran")
    if how == "stop":
        launcher.stop(request.run, Seconds(5))
    else:
        launcher.kill(request.run)
    seen = see(launcher, request.run)
    launcher.launch(request)

    assert (seen.state, seen.exit_status) == (ObservedState.ENDED, exit_status)
    assert see(launcher, request.run) == seen
    assert not (world.run_dir(request.run) / "stdout.log").exists()


@pytest.mark.parametrize("wait_s", [0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1])
def test_a_stop_while_it_starts_ends_it_whatever_comes_first(
    world: LauncherWorld, wait_s: float
) -> None:
    launcher, request = world.again(), a_launch("sleep", "60")
    launcher.launch(request)
    time.sleep(wait_s)  # where in the start the stop falls is what is tried here
    launcher.stop(request.run, Seconds(60))

    assert wait_for_end(launcher, request.run).exit_status == -15


def test_a_kill_ends_it_now_with_everything_it_started(world: LauncherWorld) -> None:
    launcher = world.again()
    run = running_command(launcher, world, f'(setsid bash -c "{HEEDLESS}" &) ; {HEEDLESS}')
    launcher.kill(run)

    assert not world.members(run)
    assert see(launcher, run).state is ObservedState.ENDED
    launcher.kill(run)
    assert see(launcher, run).exit_status == -9


DAEMON = (
    "import os, time\n"
    "if os.fork(): os._exit(0)\n"
    "os.setsid()\n"
    "if os.fork(): os._exit(0)\n"
    "open('daemon.pid', 'w').write(str(os.getpid()))\n"
    "time.sleep(600)\n"
)


def test_what_a_command_leaves_behind_is_ended_before_it_counts_as_over(
    world: LauncherWorld,
) -> None:
    script = f'{sys.executable} -c "$0"; until [ -s daemon.pid ]; do sleep 0.02; done'
    launcher, request = world.again(), a_launch("bash", "-c", script, DAEMON)
    launcher.launch(request)
    seen = wait_for_end(launcher, request.run)

    pid = int((world.run_dir(request.run) / "work/daemon.pid").read_text())
    assert seen.exit_status == 0
    assert not Path(f"/proc/{pid}").exists()


def test_a_killed_launcher_process_means_lost_and_its_ranks_are_ended(
    world: LauncherWorld,
) -> None:
    launcher = world.again()
    ranks = "for r in 0 1; do setsid sleep 600 & done; sleep 0.1; echo ready; wait"
    run = running_command(launcher, world, ranks)
    owner = json.loads((world.run_dir(run) / "claim/owner.json").read_text())
    assert len(world.members(run)) == 4
    os.kill(owner["pid"], signal.SIGKILL)
    seen = wait_for_end(launcher, run)

    assert (seen.state, seen.exit_status) == (ObservedState.LOST, None)
    assert "without a last word" in seen.message
    assert not world.members(run)


def test_an_attempt_of_an_earlier_boot_is_lost(world: LauncherWorld) -> None:
    launcher = world.again()
    run = running_command(launcher, world, POLITE)
    owner = world.run_dir(run) / "claim/owner.json"
    owner.write_text(json.dumps(json.loads(owner.read_text()) | {"boot_id": "another"}))

    assert see(launcher, run).state is ObservedState.LOST


def test_a_pid_used_again_is_not_taken_for_the_run(world: LauncherWorld) -> None:
    launcher = world.again()
    run = a_launch("true").run
    (world.run_dir(run) / "claim").mkdir(parents=True)
    owner = {
        "attempt": run.attempt,
        "pid": os.getpid(),
        "start_ticks": 1,
        "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "started_at": 5.0,
    }
    (world.run_dir(run) / "claim/owner.json").write_text(json.dumps(owner))

    assert see(launcher, run).state is ObservedState.LOST


def test_other_attempts_are_left_alone(world: LauncherWorld) -> None:
    launcher = world.again()
    mine = running_command(launcher, world, POLITE, number=1)
    other = running_command(launcher, world, POLITE, number=2)
    launcher.kill(mine)

    assert see(launcher, other).state is ObservedState.RUNNING
    launcher.kill(other)


@pytest.mark.parametrize(
    ("script", "exit_status"),
    [
        ("echo loss; false | cat", 1),
        ("(exit 3) | tee log", 3),
        ("kill -KILL $$", -9),
        ("kill -SEGV $$", -11),
        ("exit 0", 0),
    ],
)
def test_exit_statuses_are_told_as_they_are(
    world: LauncherWorld, script: str, exit_status: int
) -> None:
    launcher, request = world.again(), a_launch("bash", "-c", script)
    launcher.launch(request)

    assert wait_for_end(launcher, request.run).exit_status == exit_status


def test_an_exception_is_told_by_its_last_line(world: LauncherWorld) -> None:
    program = "import sys\nfor step in range(3): print(step)\nraise RuntimeError('loss is nan')"
    launcher, request = world.again(), a_launch(sys.executable, "-c", program)
    launcher.launch(request)
    seen = wait_for_end(launcher, request.run)

    assert (seen.exit_status, seen.message) == (1, "RuntimeError: loss is nan")


def test_a_signal_is_told_by_its_name(world: LauncherWorld) -> None:
    launcher, request = world.again(), a_launch("bash", "-c", "kill -KILL $$")
    launcher.launch(request)

    assert wait_for_end(launcher, request.run).message == "killed by SIGKILL"


def test_exit_zero_without_a_result_has_no_outcome(world: LauncherWorld) -> None:
    launcher = world.again()
    request = a_launch(sys.executable, "-c", "import sys; print('done'); sys.exit(None)")
    launcher.launch(request)
    seen = wait_for_end(launcher, request.run)

    assert (seen.exit_status, seen.outcome) == (0, None)


def test_a_result_is_the_outcome(world: LauncherWorld) -> None:
    script = "printf '%s' \"$0\" > $HEADWAY_RUN_DIR/result.json"
    launcher, request = world.again(), a_launch("bash", "-c", script, json.dumps(RESULT))
    launcher.launch(request)
    seen = wait_for_end(launcher, request.run)

    assert (seen.outcome, seen.outcome_reason, seen.step) == (Outcome.SUCCEEDED, "completed", 7)


def test_a_torn_result_is_none_and_is_named(world: LauncherWorld) -> None:
    script = "printf '%s' \"$0\" > $HEADWAY_RUN_DIR/result.json"
    launcher, request = world.again(), a_launch("bash", "-c", script, json.dumps(RESULT)[:-9])
    launcher.launch(request)
    seen = wait_for_end(launcher, request.run)

    assert (seen.exit_status, seen.outcome) == (0, None)
    assert "result.json is not JSON" in seen.message


def test_a_command_that_cannot_start_fails_with_127(world: LauncherWorld) -> None:
    launcher, request = world.again(), a_launch("/no/such/program")
    launcher.launch(request)
    seen = wait_for_end(launcher, request.run)

    assert seen.exit_status == 127
    assert seen.message == "cannot start '/no/such/program': No such file or directory"
