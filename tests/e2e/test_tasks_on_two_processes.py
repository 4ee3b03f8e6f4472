"""The tasks on two processes: stopped and resumed as if never stopped, and equal to one process."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.ranks import train_ranks
from tests.e2e.test_training_resume import weights
from tests.e2e.test_training_tasks import settings
from tests.e2e.training import train_here
from tests.run_requests import a_run, losses, result

for package in ("torch", "sentence_transformers"):
    pytest.importorskip(package)
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.mark.parametrize(
    ("task", "more"),
    [
        ("embedding", {"model": "random:bert-tiny", "tuner_type": "full", "per_device": 4}),
        ("reranker", {"lora_dropout": 0.1, "split_dataset_ratio": 0.1, "eval_steps": 20}),
    ],
)
def test_two_ranks_go_on_bit_for_bit(tmp_path: Path, task: str, more: dict[str, Any]) -> None:
    given = settings(task, world_size=2, max_steps=16, every=100) | more
    straight = a_run(tmp_path / "straight", **given)
    before = a_run(tmp_path / "broken", **given)
    after = a_run(tmp_path / "broken", number=2, resumes=True, **given)

    codes = [train_ranks(straight), train_ranks(before, stop_after=4), train_ranks(after)]

    assert codes == [0, 83, 0]
    assert result(before)["step"] == 4
    assert losses(before) | losses(after) == losses(straight)
    assert weights(tmp_path / "broken") == weights(tmp_path / "straight")


@pytest.mark.parametrize("task", ["embedding", "reranker", "reward", "pretrain"])
def test_two_ranks_learn_what_one_learns_with_two_passes(tmp_path: Path, task: str) -> None:
    given = settings(task, max_steps=4, tuner_type="full", per_device=4)
    alone = a_run(tmp_path / "alone", accumulation=2, **given)
    together = a_run(tmp_path / "together", world_size=2, **given)

    codes = [train_here(alone), train_ranks(together)]

    assert codes == [0, 0]
    assert losses(together) == pytest.approx(losses(alone), abs=1e-6)
