"""The commit that records an attempt's end keeps what it measured, and replays with it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.domain.attempt import Observation, ObservedState, Outcome
from reconciler.domain.status import JobPhase
from reconciler.domain.units import CommitId, Instant
from reconciler.engine.launches import Launches
from reconciler.engine.replay import Replayer
from reconciler.engine.requests import Place, run_ref
from reconciler.engine.world import LiveWorld
from reconciler.snapshots.history import MeasuredRun, history_from_json
from reconciler.store.status_tree import read_status_tree
from tests.unit.engine.test_world import Desk

METRICS = {"steps": 20.0, "training_s": 50.0, "wall_s": 61.0, "raw_tokens_per_s": 400.0,
           "peak_memory_bytes": 9e9}  # fmt: skip


class Trainings(Desk):
    """A desk whose jobs train, with run directories that a test fills."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.runs = folder / "runs"
        parts = self._parts()
        launches = Launches(
            self.source.tree,
            known=parts.main.known,
            cache=None,
            place=Place(runs_dir=str(self.runs)),
        )
        self.world = LiveWorld(replace(parts, launches=launches, runs_dir=str(self.runs)))

    def train(self, name: str, **train: Any) -> CommitId:
        section = {
            "task": "sft",
            "model": "random:qwen3-tiny",
            "dataset": "sample:support-chats",
            "gradient_accumulation_steps": 4,
        }
        document = {
            "api_version": "headway/v1",
            "kind": "Job",
            "resources": {"gpus": 1},
            "train": section | train,
        }
        return self.live.commit({f"jobs/team/{name}.yaml": json.dumps(document)})

    def end_training(self, name: str, result: str | None = None, **metrics: float | None) -> None:
        """Let the attempt of ``name`` succeed with a result file (or with that text for one)."""
        status = self.live.status(name)
        assert status is not None
        attempt = status.attempts[-1]
        folder = self.runs / run_ref(status, attempt).path
        folder.mkdir(parents=True)
        document = {
            "version": "headway.run/v1", "attempt": attempt.id, "outcome": "succeeded",
            "reason": "completed", "message": "", "step": 20, "samples_seen": 80,
            "final_loss": 1.0, "artifacts": {}, "metrics": METRICS | metrics, "written_at": 1.0,
        }  # fmt: skip
        text = json.dumps(document) if result is None else result
        (folder / "result.json").write_text(text, encoding="utf-8")
        self.launcher.seen[attempt.id] = Observation(
            attempt=attempt.id,
            state=ObservedState.ENDED,
            exit_status=0,
            outcome=Outcome.SUCCEEDED,
            started_at=Instant(self.now - 60),
            ended_at=Instant(self.now),
        )

    def history(self) -> tuple[MeasuredRun, ...]:
        tip = self.live.remote.tip("status/lab")
        assert tip is not None
        return history_from_json(read_status_tree(self.repo, tip).history)


@pytest.fixture
def desk(tmp_path: Path) -> Trainings:
    made = Trainings(tmp_path)
    made.train("a")
    made.cycle()
    made.cycle()
    return made


def test_the_commit_of_an_end_holds_what_was_measured(desk: Trainings) -> None:
    assert desk.history() == ()
    desk.end_training("a")
    desk.cycle()

    (run,) = desk.history()
    assert desk.live.phase("a") is JobPhase.SUCCEEDED
    assert (run.steps, run.training_s, run.wall_s, run.last_step) == (20, 50.0, 61.0, 20)
    assert (run.gpu_type, run.is_cpu, run.processes) == ("cpu", True, 1)
    assert run.peak_bytes is None
    assert run.facts.model == "random:qwen3-tiny"
    assert run.train["gradient_accumulation_steps"] == 4
    assert "dataset" not in run.train


def test_a_job_like_it_is_expected_to_take_as_long_and_every_decision_replays(
    desk: Trainings,
) -> None:
    desk.end_training("a")
    desk.cycle()
    desk.train("b")
    snapshot = desk.cycle().snapshot
    desk.cycle()

    (size,) = snapshot.sizes[next(job for job in snapshot.sizes if job.endswith("/b"))]
    assert size.duration_p50_s == pytest.approx(60 + 50, abs=1)
    tip = desk.live.remote.tip("status/lab")
    assert tip is not None
    for each in Replayer(desk.repo).replay_all(tip):
        assert not each.is_decision or each.holds, each


@pytest.mark.parametrize(
    "metrics",
    [
        {"steps": 2.0},
        {"steps": None},
        {"training_s": 0.0},
        {"training_s": -1.0},
        {"training_s": 5e-324, "steps": 1e17},  # their quotient has no logarithm
    ],
)
def test_a_run_that_hardly_trained_teaches_nothing(
    desk: Trainings, metrics: dict[str, float | None]
) -> None:
    desk.end_training("a", None, **metrics)
    desk.cycle()

    assert desk.live.phase("a") is JobPhase.SUCCEEDED
    assert desk.history() == ()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": "headway.run/v1"}', "x" * 300_000])
def test_a_result_that_is_none_does_not_keep_the_end_from_being_recorded(
    desk: Trainings, text: str
) -> None:
    desk.end_training("a", text)
    desk.cycle()

    assert desk.live.phase("a") is JobPhase.SUCCEEDED
    assert desk.history() == ()
