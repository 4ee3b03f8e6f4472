"""Trainings inside the test process, or in a fork of it: no start-up of seconds for each.

Several ranks are in ``tests.e2e.ranks``; ``launch`` is what a person would run.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.run_requests import events
from trainer.run import run
from trainer.stop import StopFlag

REPOSITORY = Path(__file__).parents[2]


class StopAt(StopFlag):
    """Hears of a stop while ``step`` is running, so that it is the last one."""

    def __init__(self, run_dir: Path, step: int) -> None:
        self.cause = "the test"
        self._run_dir = run_dir
        self._step = step

    @property
    def is_set(self) -> bool:  # type: ignore[override]
        # a step reports itself after the ranks have agreed whether to go on
        return len(events(self._run_dir, "step")) >= self._step - 1


def train_here(run_dir: Path, *, stop_at: int | None = None) -> int:
    """Run one attempt of one process to its end and return its exit code."""
    stop = StopFlag() if stop_at is None else StopAt(run_dir, stop_at)
    return run(run_dir, stop=stop)


def train_in_fork(run_dir: Path) -> int:
    """Start one attempt in a child process and return its process id."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = run(run_dir, stop=StopFlag())
        finally:
            os._exit(code)
    return child


def launch(run_dir: Path) -> int:
    """Run one attempt by the command and return its exit code."""
    command = [sys.executable, "-m", "trainer.launch", str(run_dir)]
    return subprocess.run(command, cwd=REPOSITORY, check=False, timeout=300).returncode
