"""A read verb starts in a fraction of a second, so it loads nothing that is slow to load."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.sample_fleet import a_bare_repository

HEAVY = {
    "torch", "transformers", "hydra", "omegaconf", "pydantic", "git", "numpy", "yaml", "rich",
    "jsonschema", "asyncio", "typing_extensions",
}  # fmt: skip
"""``git`` is GitPython; the last four are merely slow, and nothing needs them there."""

SCRIPT = """
import contextlib, io, json, sys
from reconciler.cli.boundary import main
with contextlib.redirect_stdout(io.StringIO()):
    code = main(sys.argv[1:])
print(json.dumps([code, sorted(sys.modules)]))
"""

VERBS = {
    "help": ["--help"],
    "queue": ["queue"],
    "queue json": ["queue", "-o", "json"],
    "get": ["get", "attempts"],
    "describe": ["describe", "recsys/qwen3-dpo"],
    "why of a running job": ["why", "recsys/qwen3-dpo"],
    "why, quickly": ["why", "--quick", "search/embed-v2"],
    "logs": ["logs", "vision/ocr"],
    "audit": ["audit"],
    "eta-report": ["eta-report"],
    "version": ["version"],
    "completion": ["completion", "bash"],
}
NOT_FOUND = 3
"""``logs``: the sample's run directories are on no machine."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_bare_repository(tmp_path_factory.mktemp("fleet"))


@pytest.mark.parametrize("words", VERBS.values(), ids=VERBS)
def test_a_read_verb_loads_nothing_heavy(words: list[str], fleet: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "--repo", str(fleet), "-q", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    code, modules = json.loads(done.stdout)
    assert code == (NOT_FOUND if words[0] == "logs" else 0), done.stderr
    assert "reconciler.cli.main" in modules
    assert not HEAVY & set(modules)


def test_help_loads_no_verb(fleet: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "--help"], capture_output=True, text=True, check=True
    )
    _, modules = json.loads(done.stdout)
    assert not [name for name in modules if name.startswith("reconciler.cli.commands.")]
