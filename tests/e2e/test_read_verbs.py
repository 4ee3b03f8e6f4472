"""The read verbs over a fleet that really ran: three jobs, four CPU slots, one reconciler."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reconciler.cli.boundary import main
from reconciler.domain.status import JobPhase
from tests.live_fleets import Fleet, eventually
from tests.unit.cli.command_line import Headway, in_process

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Return a fleet whose first job runs and whose second waits for it."""
    patch = pytest.MonkeyPatch()
    patch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    fleet.commit(
        fleet.job("first", seconds=120, gpus=3, priority="P1")
        | fleet.job("second", gpus=2, estimate="2h"),
        "Add two jobs",
    )
    fleet.reconcile_once()
    eventually(lambda: fleet.started(), "the first job writes its ledger")
    fleet.reconcile_once()
    yield fleet
    fleet.finish_everything()
    eventually(lambda: _ends(fleet), "every run ended", patience_s=60)
    patch.undo()


def _ends(fleet: Fleet) -> bool:
    fleet.reconcile_once()
    tree = fleet.tree()
    return tree is not None and all(each.phase.is_finished for each in tree.statuses.values())


@pytest.fixture
def headway(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Headway:  # fmt: skip
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return in_process(capsys, fleet.remote.path, now=time.time())


def test_the_queue_shows_who_runs_and_who_waits(headway: Headway) -> None:
    items = json.loads(headway("queue", "-o", "json").out)["items"]
    assert [(item["job"], item["phase"]) for item in items] == [
        ("team/first", "running"), ("team/second", "pending"),
    ]  # fmt: skip
    assert items[1]["forecast"]["rests_on"] == ["team/first"]
    assert "3 of 4 CPU slots in use" in headway("queue").out


def test_why_asks_the_planner_for_each_condition(headway: Headway) -> None:
    said = headway("why", "team/second")
    assert said.err == ""
    assert "It starts when all of these hold:" in said.out
    marks = {line.split()[1]: line.split()[0] for line in said.lines if line.startswith("  ")
             and line.split()[0] in ("ok", "x")}  # fmt: skip
    assert marks["document"] == "ok"
    assert marks["quota"] == "ok"
    assert marks["gpus"] == "x"
    assert "next: team/first (running on node-1" in said.out
    assert "Rank 1 of 1, score 0." in said.out


def test_why_never_loads_torch(fleet: Fleet, tmp_path: Path) -> None:
    script = (
        "import sys; from reconciler.cli.boundary import main; "
        "code = main(sys.argv[1:]); sys.exit(code or 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "--repo", str(fleet.remote.path), "why", "team/second"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "It starts when all of these hold:" in done.stdout


def test_audit_knows_who_asked(headway: Headway) -> None:
    items = json.loads(headway("audit", "team/second", "-o", "json").out)["items"]
    assert {item["asked_by"]["author"] for item in items} == {"Ada"}
    assert {item["asked_by"]["subject"] for item in items} == {"Add two jobs"}


def test_describe_and_logs_find_the_run_on_this_machine(fleet: Fleet, headway: Headway) -> None:
    assert "running" in headway("describe", "team/first").out
    assert headway("logs", "team/first").code == 0
    assert fleet.phase("first") is JobPhase.RUNNING


def test_a_persons_clone_sees_the_same(
    fleet: Fleet, headway: Headway, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = fleet.remote.clone("Ada")
    capsys.readouterr()
    assert main(["--repo", str(clone.path), "queue", "-o", "name"]) == 0
    assert capsys.readouterr().out == headway("queue", "-o", "name").out
