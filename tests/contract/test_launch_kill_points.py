"""A reconciler killed at any point of a launch: whoever asks again gets exactly one run."""

import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.domain.attempt import ObservedState
from tests.contract.launcher_worlds import LauncherWorld
from tests.contract.runs import a_launch, see, wait_for_end, wait_until

SCRIPT = 'echo "$HEADWAY_ATTEMPT_ID" >> ../ledger; sleep 0.3'
LAUNCH_AND_DIE = """
import os, signal, subprocess, sys
from pathlib import Path
from reconciler.launchers import run_files
from reconciler.launchers.local import LocalLauncher
from tests.contract.runs import a_launch

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def then_die(function):
    def run(*arguments, **named):
        function(*arguments, **named)
        die()
    return run

point = sys.argv[2]
if point == "before the request":
    run_files.create = die
elif point == "within the request":
    os.link = die
elif point == "after the request":
    run_files.create = then_die(run_files.create)
elif point == "before the wrapper":
    subprocess.Popen = die
elif point == "after the wrapper":
    subprocess.Popen = then_die(subprocess.Popen)
elif point == "after the marker":
    run_files.replace = then_die(run_files.replace)
LocalLauncher(Path(sys.argv[1])).launch(a_launch("bash", "-c", sys.argv[3]))
"""
POINTS = (
    "before the request",
    "within the request",
    "after the request",
    "before the wrapper",
    "after the wrapper",
    "after the marker",
)


@pytest.mark.parametrize("point", POINTS)
def test_a_launch_that_dies_anywhere_and_is_asked_again_is_one_run(
    tmp_path: Path, point: str
) -> None:
    world = LauncherWorld(kind="local", root=tmp_path / "runs")
    died = subprocess.run(
        [sys.executable, "-c", LAUNCH_AND_DIE, str(world.root), point, SCRIPT],
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert died.returncode == -9, "the kill point was reached"

    launcher, request = world.again(), a_launch("bash", "-c", SCRIPT)
    launcher.launch(request)
    launcher.launch(request)
    seen = wait_for_end(launcher, request.run)
    wait_until(lambda: not world.members(request.run), "nothing is left")

    assert (seen.state, seen.exit_status) == (ObservedState.ENDED, 0)
    assert (world.run_dir(request.run) / "ledger").read_text() == f"{request.run.attempt}\n"
    assert see(launcher, request.run) == seen
