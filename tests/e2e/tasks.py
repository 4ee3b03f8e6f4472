"""One small training of each task: its ``train:`` keys, and how what it left is asked something."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.asker import Asker
from tests.run_requests import a_run

QUESTION = "When do you open?"
GOOD = "We open at nine and close at six, on Saturdays at four; on Sundays we are closed."
POOR = "See the website."


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a task is trained with in tests."""

    train: Mapping[str, Any]
    per_device: int = 4
    asks: tuple[str, ...] = field(default=())
    """A program of ``tests.e2e.asker``, and what it is given after the weights."""
    held_out: bool = True


ANSWER = ("answer", QUESTION, "--tokens", "8")
SCORE = ("score", QUESTION, GOOD, POOR)
SEARCH = (
    "score",
    "tent for one person that weighs little",
    "Tern tent. A tent for one person that weighs 1.2 kilograms.",
    "Felt rug. A rug of felted wool, 140 by 200 centimetres.",
)
TASKS: Mapping[str, Task] = {
    "pretrain": Task(
        train={"dataset": "sample:shop-catalogue", "truncation_strategy": "split"},
        asks=("loss", "shop-catalogue"),
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

POLICY: Mapping[str, Any] = {
    "reward_funcs": ["overlap"],
    "reward_weights": None,
    "num_generations": 8,
    "per_device": 32,
    "temperature": 1.0,
    "beta": 0.0,
}
"""What grpo needs more than its row, so that its reward rises within thirty steps."""


def taught(root: Path, *, name: str = "random:qwen3-tiny") -> str:
    """Return a model that imitates the shop: its answers are good enough to be told apart.

    A random model's answers are all worth nothing, which leaves grpo nothing to compare.
    """
    from tests.e2e.training import train_here

    run_dir = a_run(
        root,
        model=name,
        dataset="sample:support-faq",
        tuner_type="full",
        learning_rate=5e-3,
        per_device=4,
        max_steps=40,
    )
    assert train_here(run_dir) == 0
    return str(root / "final")


def ask(asker: Asker, task: str, weights: Path) -> str:
    """Return what a process that has trained nothing says of the weights a training left.

    Raises ``RuntimeError`` where they do not load.
    """
    program, *arguments = TASKS[task].asks
    return asker.ask(program, str(weights), *arguments)
