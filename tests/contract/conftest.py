"""A launcher of each kind for the shared suite; nothing it started outlives a test."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.launchers import processes
from tests.contract.launcher_worlds import WORLDS, LauncherWorld


@pytest.fixture(params=sorted(WORLDS))
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LauncherWorld]:
    made = WORLDS[request.param](tmp_path)
    yield made
    for request_file in made.root.glob("*/*/*/*/request.json"):
        attempt = f"t.j-g1-{request_file.parent.name}-0123456789"
        membership = processes.Membership(attempt, str(request_file.parent))
        processes.send(processes.members([membership])[membership], signal.SIGKILL)
