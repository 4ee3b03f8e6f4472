"""The run directory between the two packages: what the trainer writes, the reconciler reads.

The trainer's writers are used as they are; none of this needs torch.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.domain.attempt import Observation, ObservedState, Outcome
from reconciler.domain.units import AttemptId, Instant
from reconciler.launchers import run_dir
from reconciler.launchers.contract_check import first_problem
from tests.contract.runs import a_request_document
from trainer import checkpoints
from trainer.config import Request, load_request
from trainer.record import Record, refuse

ATTEMPT = AttemptId("t.j-g1-a1-0123456789")
TRAIN = {"task": "sft", "model": "random:qwen3-tiny", "dataset": ["sample:support"], "max_steps": 9}
NOW = Instant(4_000_000_000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a claimed run directory with the reconciler's request."""
    found = tmp_path / "t" / "j" / "aaaaaaaaaa-g1" / "a1"
    folder = {"every_steps": 2, "keep": 3, "dir": str(found.parent / "checkpoints")}
    request = a_request_document(ATTEMPT, train=TRAIN, checkpoint=folder)
    run_dir.write_request(found, ATTEMPT, request)
    (found / "claim").mkdir()
    return found


def record(path: Path) -> Record:
    return Record(load_request(path), rank=0, on_stop_file=lambda: None)


def running(path: Path) -> Observation:
    return run_dir.observe_run(ATTEMPT, path, now=NOW, is_alive=lambda _: True)


def ended(path: Path) -> Observation:
    exit_ = {
        "version": "headway.run/v1",
        "attempt": ATTEMPT,
        "exit_status": 0,
        "started_at": 1.0,
        "ended_at": 2.0,
        "killed_after_grace": False,
    }
    (path / "exit.json").write_text(json.dumps(exit_))
    return run_dir.observe_run(ATTEMPT, path, now=NOW, is_alive=lambda _: False)


def document(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(path.read_text())
    return read


def save(request: Request, step: int, content: bytes = b"weights") -> checkpoints.Checkpoint:
    root = request.checkpoint.folder
    temporary = checkpoints.temporary_path(root, step, request.attempt)
    (temporary / "inner").mkdir(parents=True)
    (temporary / "inner" / "model.safetensors").write_bytes(content)
    return checkpoints.finish(
        temporary,
        root=root,
        step=step,
        samples_seen=step * 8,
        global_batch=8,
        world_size=1,
        attempt=request.attempt,
    )


def test_the_trainer_accepts_the_request_the_reconciler_writes(path: Path) -> None:
    request = load_request(path)

    assert (request.attempt, request.global_batch) == (ATTEMPT, 8)
    assert request.checkpoint.folder == path.parent / "checkpoints"


def test_a_heartbeat_is_progress(path: Path) -> None:
    one = record(path)
    one.progress.step, one.progress.total_steps = 4, 9
    one.progress.last_checkpoint = {"step": 3, "finished_at": 1_700_000_000.5}
    one.beat()
    seen = running(path)

    assert first_problem("heartbeat", document(path / "heartbeat.json")) == ""
    assert (seen.state, seen.step, seen.total_steps) == (ObservedState.RUNNING, 4, 9)
    assert (seen.checkpoint_step, seen.checkpoint_at) == (3, 1_700_000_000)


def test_a_heartbeat_before_the_first_step_keeps_the_contract(path: Path) -> None:
    record(path).beat()

    assert first_problem("heartbeat", document(path / "heartbeat.json")) == ""
    assert running(path).step == 0


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_result_is_an_outcome(path: Path, outcome: Outcome) -> None:
    one = record(path)
    one.progress.step, one.progress.loss = 9, 0.5
    one.finish(outcome=outcome.value, reason="some_reason", message="two\nlines", metrics={"x": 1})
    seen = ended(path)

    assert first_problem("result", document(path / "result.json")) == ""
    assert (seen.outcome, seen.outcome_reason, seen.step) == (outcome, "some_reason", 9)
    assert seen.message == ("" if outcome is Outcome.SUCCEEDED else "two lines")


def test_a_refused_request_is_a_failure_with_its_message(path: Path) -> None:
    refuse(path, message="train.modle: did you mean model?")
    seen = ended(path)

    assert first_problem("result", document(path / "result.json")) == ""
    assert (seen.outcome, seen.message) == (Outcome.FAILED, "train.modle: did you mean model?")


def test_events_keep_the_contract(path: Path) -> None:
    one = record(path)
    one.enter("training")
    one.event("step", step=1, loss=float("nan"), tokens_per_s=12.5)
    one.warn("slow data", wait_s=1.5)
    one.finish(outcome="succeeded", reason="completed", message="")
    lines = (path / "events.jsonl").read_text().splitlines()

    assert [json.loads(line)["event"] for line in lines] == ["phase", "step", "warning", "end"]
    assert [first_problem("event", json.loads(line)) for line in lines] == [""] * 4


def test_a_run_that_died_is_credited_with_its_newest_whole_checkpoint(path: Path) -> None:
    request = load_request(path)
    save(request, 2)
    whole = save(request, 4)
    save(request, 6)
    (request.checkpoint.folder / "step-000006" / "inner" / "model.safetensors").write_bytes(b"cut")
    (request.checkpoint.folder / "step-000008").mkdir()
    seen = ended(path)

    manifest = document(request.checkpoint.folder / "step-000004" / "manifest.json")
    assert first_problem("manifest", manifest) == ""
    assert (seen.checkpoint_step, whole.step) == (4, 4)
    assert seen.checkpoint_at == int(manifest["finished_at"])


def test_both_sides_agree_which_checkpoint_is_the_newest(path: Path) -> None:
    request = load_request(path)
    for step in (2, 4, 6):
        save(request, step)
    (request.checkpoint.folder / "step-000006" / "manifest.json").unlink()

    chosen = checkpoints.choose(request.checkpoint.folder).checkpoint
    assert chosen is not None
    assert chosen.step == ended(path).checkpoint_step == 4
