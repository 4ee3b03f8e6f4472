"""One small training of each task: its ``train:`` keys, and how what it left is asked something."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
QUESTION = "When do you open?"
GOOD = "We open at nine and close at six, on Saturdays at four; on Sundays we are closed."
POOR = "See the website."


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a task is trained with in tests."""

    train: Mapping[str, Any]
    per_device: int = 4
    asks: tuple[str, ...] = field(default=())
    """Module and its arguments after the weights, that show what the weights say."""
    held_out: bool = True


ANSWER = ("trainer.answer", QUESTION, "--tokens", "8")
SCORE = ("trainer.score", QUESTION, GOOD, POOR)
SEARCH = (
    "trainer.score",
    "tent for one person that weighs little",
    "Tern tent. A tent for one person that weighs 1.2 kilograms.",
    "Felt rug. A rug of felted wool, 140 by 200 centimetres.",
)
TASKS: Mapping[str, Task] = {
    "pretrain": Task(
        train={"dataset": "sample:shop-catalogue", "truncation_strategy": "split"}, asks=ANSWER
    ),
    "sft": Task(train={"dataset": "sample:support-faq"}, asks=ANSWER),
    "dpo": Task(train={"dataset": "sample:support-pairs"}, asks=ANSWER),
    "grpo": Task(
        train={
            "dataset": "sample:support-faq",
            "reward_funcs": ["overlap", "variety"],
            "reward_weights": [1.0, 0.5],
            "num_generations": 4,
            "max_completion_length": 12,
        },
        asks=ANSWER,
        held_out=False,
    ),
    "embedding": Task(train={"dataset": "sample:shop-searches"}, per_device=8, asks=SEARCH),
    "reranker": Task(train={"dataset": "sample:support-answers"}, asks=SCORE),
    "reward": Task(train={"dataset": "sample:support-pairs"}, asks=SCORE),
}


def ask(task: str, weights: Path) -> "subprocess.CompletedProcess[str]":
    """Return what a fresh process says of the weights a training left."""
    module, *arguments = TASKS[task].asks
    return subprocess.run(
        [sys.executable, "-m", module, str(weights), *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
