"""A ``train:`` key that a task accepts is read by that task: none is taken and then ignored."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.tasks import TASKS
from tests.e2e.test_training_tasks import settings
from tests.e2e.training import train_here
from tests.run_requests import a_run, result
from trainer import config, token_cache
from trainer.keys import KEYS, default_of

for package in ("torch", "sentence_transformers"):
    pytest.importorskip(package)
pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ELSEWHERE = {
    "per_device_train_batch_size": "config: its product is checked against the request's batch",
    "gradient_accumulation_steps": "config: likewise",
    "sequence_parallel_attention": "a rule refuses it without sequence_parallel_size",
}
REFUSED_OF_GRPO = {"eval_steps", "truncation_strategy"}
"""By rules that know no other value of the one, and nothing to evaluate on for the other."""


class Read(dict[str, Any]):
    """A section that notes which keys are asked for."""

    def __init__(self, section: dict[str, Any], seen: set[str]) -> None:
        super().__init__(section)
        self.seen = seen

    def __getitem__(self, key: str) -> Any:
        self.seen.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.add(key)
        return super().get(key, default)


def accepted(train: dict[str, Any]) -> set[str]:
    """Return the keys that could be added to a section without being refused by their ``only``."""
    return {
        name
        for name, key in KEYS.items()
        if all(train.get(other, default_of(other)) in values for other, values in key.only.items())
    }


@pytest.mark.parametrize("task", TASKS)
def test_every_key_a_task_accepts_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    seen: set[str] = set()
    real = config.complete
    monkeypatch.setattr(config, "complete", lambda train: Read(real(train), seen))
    monkeypatch.setattr(token_cache, "root", lambda: tmp_path / "samples")  # nothing made before
    held_out = {"split_dataset_ratio": 0.1, "eval_steps": 1} if TASKS[task].held_out else {}
    cut = {} if task == "grpo" else {"max_length": 32, "truncation_strategy": "right"}
    given = settings(task, max_steps=1, **held_out) | cut
    run_dir = a_run(tmp_path, **given)

    code = train_here(run_dir)

    assert code == 0, result(run_dir)["message"]
    refused = REFUSED_OF_GRPO if task == "grpo" else set()
    assert accepted(given) - seen - ELSEWHERE.keys() - refused == set()
