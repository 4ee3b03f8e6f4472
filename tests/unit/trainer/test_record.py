"""What a trainer tells about itself fits the contract, whatever it was told to tell."""

import json
import time
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.run_requests import a_run, events, result
from trainer.config import load_request
from trainer.record import Record, refuse
from trainer.schema import CONTRACT


def problems(name: str, value: object) -> list[str]:
    schema = json.loads((CONTRACT / f"{name}.schema.json").read_bytes())
    return [error.message for error in Draft202012Validator(schema).iter_errors(value)]


def a_record(run_dir: Path, *, rank: int = 0) -> Record:
    return Record(load_request(run_dir), rank=rank, on_stop_file=lambda: None)


def heartbeat(run_dir: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((run_dir / "heartbeat.json").read_text())
    return found


def test_heartbeats_fit_the_contract_with_a_loss_that_is_no_number(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    record = a_record(run_dir)
    record.progress.loss = float("nan")
    record.progress.last_checkpoint = {"step": 3, "finished_at": 5.0}

    record.enter("training")

    beat = heartbeat(run_dir)
    assert problems("heartbeat", beat) == []
    assert beat["loss"] is None
    assert beat["phase"] == "training"


def test_events_fit_the_contract_and_are_strict_json(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    record = a_record(run_dir)

    record.event("step", step=1, loss=float("inf"), grad_norm=1.5)
    record.warn("a row is odd")

    found = events(run_dir)
    assert [problems("event", event) for event in found] == [[], []]
    assert "Infinity" not in (run_dir / "events.jsonl").read_text()
    assert found[0]["loss"] is None


def test_only_the_first_rank_writes_events_and_heartbeats(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)

    record = a_record(run_dir, rank=1)
    record.enter("training")

    assert sorted(path.name for path in run_dir.iterdir()) == ["request.json"]


def test_the_first_result_stays(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)

    a_record(run_dir, rank=1).finish(outcome="failed", reason="error", message="two\nlines")
    a_record(run_dir).finish(outcome="succeeded", reason="completed", message="done")

    assert problems("result", result(run_dir)) == []
    assert result(run_dir)["message"] == "two lines"


def test_a_refused_request_has_a_result_if_it_names_its_attempt(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)

    refuse(run_dir, message="no")
    refuse(tmp_path, message="no request here")

    assert problems("result", result(run_dir)) == []
    assert result(run_dir)["reason"] == "invalid_request"
    assert not (tmp_path / "result.json").exists()


@pytest.mark.parametrize("before", [True, False], ids=["already there", "created later"])
def test_the_stop_file_is_heard(tmp_path: Path, before: bool) -> None:
    run_dir = a_run(tmp_path)
    heard: list[str] = []
    record = Record(load_request(run_dir), rank=0, on_stop_file=lambda: heard.append("stop"))
    if before:
        (run_dir / "stop").touch()
    record.start()
    if not before:
        assert heard == []
        (run_dir / "stop").touch()
        deadline = time.monotonic() + 10
        while not heard and time.monotonic() < deadline:
            time.sleep(0.01)
    record.close()

    assert heard
