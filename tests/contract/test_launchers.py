"""What every launcher must do.  The rows are in ``launcher_worlds.WORLDS``."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from reconciler.domain.attempt import ObservedState, Outcome
from reconciler.domain.launch import RunRef
from reconciler.domain.units import AttemptId, Seconds
from reconciler.errors import LauncherError
from reconciler.ports import Launcher
from tests.contract.launcher_worlds import LauncherWorld
from tests.contract.runs import a_launch, see, wait_for_end, wait_for_text, wait_until

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
import sys, time
from pathlib import Path
from reconciler.launchers.table import launcher
from tests.contract.runs import a_launch
mine = launcher(sys.argv[1], Path(sys.argv[2]))
mine.launch(a_launch("bash", "-c", "echo ready; while [ ! -e go ]; do sleep 0.05; done; echo end"))
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

    pid = int((world.run_dir(request.run) / "daemon.pid").read_text())
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
    script = "printf '%s' \"$0\" > result.json"
    launcher, request = world.again(), a_launch("bash", "-c", script, json.dumps(RESULT))
    launcher.launch(request)
    seen = wait_for_end(launcher, request.run)

    assert (seen.outcome, seen.outcome_reason, seen.step) == (Outcome.SUCCEEDED, "completed", 7)


def test_a_torn_result_is_none_and_is_named(world: LauncherWorld) -> None:
    script = "printf '%s' \"$0\" > result.json"
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
