"""The launcher's exit code is the outcome of the training, never a guess and never its own."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.run_requests import a_run
from trainer.config import load_request
from trainer.launch import exit_code, main
from trainer.record import Record


@dataclass
class End:
    exitcode: int

    def signal_name(self) -> str:
        return "SIGKILL"


@pytest.mark.parametrize(
    ("outcome", "ends", "code"),
    [
        ("succeeded", {}, 0),
        ("stopped", {0: End(83), 1: End(-15)}, 83),
        ("diverged", {0: End(84), 1: End(84)}, 84),
        ("failed", {1: End(1)}, 1),
        ("succeeded", {1: End(3)}, 1),
        ("stopped", {0: End(83), 1: End(-9)}, 1),
        (None, {}, 1),
        (None, {1: End(-9)}, 1),
    ],
)
def test_the_code_is_that_of_the_result_unless_a_rank_contradicts_it(
    tmp_path: Path, outcome: str | None, ends: dict[int, End], code: int
) -> None:
    request = load_request(a_run(tmp_path, world_size=2))
    if outcome is not None:
        record = Record(request, rank=0, on_stop_file=lambda: None)
        record.finish(outcome=outcome, reason="some_reason", message="...")

    assert exit_code(request, ends, None) == code


def test_a_death_without_a_result_is_told_by_the_name_of_the_signal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = load_request(a_run(tmp_path, world_size=2))

    exit_code(request, {1: End(-9)}, None)

    assert "rank 1 ended with SIGKILL" in capsys.readouterr().err


def test_a_request_that_is_refused_starts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = a_run(tmp_path, lora_r=4)

    code = main([str(run_dir)])

    assert code == 1
    assert "did you mean lora_rank?" in capsys.readouterr().err
    assert (run_dir / "result.json").exists()
