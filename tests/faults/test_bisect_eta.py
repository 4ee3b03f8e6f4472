"""A start that slipped is traced to the commit, over a real repository and real cycles."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.domain.status import JobPhase
from reconciler.domain.units import CommitId, JobId
from reconciler.engine.bisect_eta import Part, find_move
from tests.live_fleets import ROOT, Fleet, eventually

pytestmark = [pytest.mark.slow]


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """One run holds the machine, ``late`` waits for it; then somebody urgent is committed."""
    fleet = Fleet(tmp_path, slots=2, order="score")
    fleet.commit(fleet.job("runs", seconds=600, gpus=2, estimate="1h"), "Run for an hour")
    fleet.reconcile_once()
    fleet.commit(fleet.job("late", gpus=2, priority="P3", estimate="1h"), "Wait for it")
    fleet.reconcile_once()
    fleet.commit(fleet.job("calm", gpus=1, priority="P4", estimate="1m"), "Change nothing for late")
    fleet.reconcile_once()
    fleet.commit(fleet.job("first", gpus=2, priority="P1", estimate="5h"), "Go before everybody")
    fleet.reconcile_once()
    return fleet


def ended(fleet: Fleet) -> bool:
    fleet.reconcile_once()
    return fleet.phase("late") is JobPhase.SUCCEEDED


def test_the_commit_that_moved_a_start_is_found_with_its_cause(fleet: Fleet) -> None:
    try:
        branch = fleet.remote.path
        commits = [each.commit for each in fleet.history()]
        move = find_move(branch, JobId("team/late"), commits[0], commits[-1])

        assert move is not None
        assert 4 * 3600 < move.moved_s < 6 * 3600
        assert move.causes == (Part.MAIN,)
        assert move.main is not None
        assert move.main[1] == fleet.remote.tip("main")

        said = subprocess.run(
            [sys.executable, "-m", "reconciler.cli.boundary", "bisect-eta", "team/late",
             "--repo", str(branch), "-o", "json"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert json.loads(said.stdout)["move"]["causes"] == ["main"]
        shown = subprocess.run(
            [sys.executable, "-m", "reconciler.cli.boundary", "bisect-eta", "team/late",
             "--repo", str(branch)],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert "(later)" in shown.stdout
        assert "what people committed" in shown.stdout
        assert "Go before everybody" in shown.stdout

        steady = find_move(branch, JobId("team/late"), commits[1], CommitId(commits[-2]))
        assert steady is None, "calm did not move it"
    finally:
        fleet.finish_everything()
        eventually(lambda: ended(fleet), "everything ends")
