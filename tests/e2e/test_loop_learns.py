"""A real training teaches the fleet: what it measured is in a commit, and the next like it is
expected to take as long.  Every decision is derived again from commits alone."""

import json
from pathlib import Path

import pytest

from reconciler.domain.status import JobPhase
from reconciler.engine.replay import Replayer
from reconciler.snapshots.history import MeasuredRun, history_from_json
from reconciler.snapshots.learned import learned_from
from reconciler.store.status_tree import read_status_tree
from tests.live_fleets import Fleet, eventually

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

PATIENCE_S = 240.0
STEPS = 6


def a_training(name: str) -> dict[str, str]:
    document = {
        "api_version": "headway/v1",
        "kind": "Job",
        "resources": {"gpus": 1},
        "train": {
            "task": "sft",
            "model": "random:qwen3-tiny",
            "dataset": "sample:support-chats",
            "tuner_type": "full",
            "max_length": 256,
            "max_steps": STEPS,
            "learning_rate": 1e-3,
        },
    }
    return {f"jobs/team/{name}.yaml": json.dumps(document)}


def measured(fleet: Fleet) -> tuple[MeasuredRun, ...]:
    tip = fleet.remote.tip(f"status/{fleet.cluster}")
    if tip is None:
        return ()
    return history_from_json(read_status_tree(fleet.remote.path, tip).history)


def test_what_a_training_measured_is_recorded_used_and_replayed(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, slots=2)
    loop = fleet.start()
    try:
        for name in ("first", "second"):
            fleet.commit(a_training(name))
            eventually(
                lambda name=name: fleet.phase(name) is JobPhase.SUCCEEDED,  # type: ignore[misc]
                f"{name} succeeded",
                patience_s=PATIENCE_S,
                detail=fleet.said,
            )
    finally:
        fleet.finish_everything()
        loop.terminate()
        assert loop.wait(timeout=30) == 0

    runs = measured(fleet)
    assert [(run.steps, run.last_step, run.outcome) for run in runs] == [
        (STEPS, STEPS, "succeeded")
    ] * 2
    assert all(run.training_s > 0 and run.is_cpu and run.processes == 1 for run in runs)
    assert {run.likeness for run in runs} == {runs[0].likeness}

    tip = fleet.remote.tip(f"status/{fleet.cluster}")
    assert tip is not None
    replayed = list(Replayer(fleet.remote.path).replay_all(tip))
    assert sum(each.is_decision for each in replayed) >= 4
    assert all(each.holds for each in replayed if each.is_decision)
    text = read_status_tree(fleet.remote.path, tip).history
    assert set(learned_from(text).alike) == {runs[0].likeness}
