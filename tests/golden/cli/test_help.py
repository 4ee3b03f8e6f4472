"""The help texts and the screens of the sample fleet, letter by letter.

``make golden`` rewrites them; look at the difference as at code.
"""

import os
from pathlib import Path

import pytest

from reconciler.cli.main import VERBS
from tests.unit.cli.command_line import Headway, in_process
from tests.unit.cli.sample_fleet import a_bare_repository

HERE = Path(__file__).parent
HELP = ([], *([verb] for verb in VERBS))
SCREENS = {
    "queue": ["queue"],
    "queue-all-wide": ["queue", "--all", "-o", "wide"],
    "queue-json": ["queue", "--team", "search", "-o", "json"],
    "get-jobs": ["get", "jobs"],
    "get-attempts": ["get", "attempts"],
    "get-teams": ["get", "teams"],
    "describe": ["describe", "recsys/qwen3-dpo"],
    "describe-pending": ["describe", "search/embed-v2"],
    "audit": ["audit"],
}


@pytest.fixture
def headway(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Headway:
    return in_process(capsys, a_bare_repository(tmp_path))


def hold(name: str, text: str) -> None:
    """Compare ``text`` with the golden file, or write it where that was asked for."""
    path = HERE / f"{name}.txt"
    if os.environ.get("HEADWAY_GOLDEN") == "rewrite":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path.name} differs; see `make golden`"


@pytest.mark.parametrize("verb", HELP, ids=lambda verb: "-".join(["help", *verb]))
def test_help(
    verb: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "96")
    said = in_process(capsys, None)(*verb, "--help")
    assert said.code == 0
    hold("-".join(["help", *verb]), said.out)


@pytest.mark.parametrize("name", SCREENS)
def test_screen(name: str, headway: Headway) -> None:
    said = headway(*SCREENS[name])
    assert said.code == 0
    hold(name, said.out)
