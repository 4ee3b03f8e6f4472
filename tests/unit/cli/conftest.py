"""The sample fleet's repository, and the command line that reads it."""

from pathlib import Path

import pytest

from tests.unit.cli.command_line import Headway, in_process
from tests.unit.cli.sample_fleet import a_bare_repository


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return a_bare_repository(tmp_path)


@pytest.fixture
def headway(capsys: pytest.CaptureFixture[str], repo: Path) -> Headway:
    return in_process(capsys, repo)
