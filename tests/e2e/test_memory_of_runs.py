"""What real trainings on a CPU hold in tensors is what the estimate says, within 15 %."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.estimating.memory import memory
from reconciler.estimating.train_section import Setting, training_from
from reconciler.specs.model_catalogue import model_named_here, shipped_constants
from tests.e2e.ranks import in_fork
from tests.run_requests import a_run

pytest.importorskip("torch")
from tests.e2e.tracked import counted
from trainer.recipes.table import recipe_for

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

CLOSE = 0.15
LONG = " ".join(f"word{number} and then" for number in range(600))
"""Longer than any length below: every sample is cut to exactly that many tokens."""


def counted_bytes(run_dir: Path) -> int:
    """Return the peak of live tensors of one training in a process of its own."""
    recipe_for("sft")  # its libraries, once for all of them
    peak, code = in_fork(counted, run_dir)
    assert code == 0
    return int(peak)


def estimated_bytes(train: dict[str, Any], **batch: int) -> float:
    """Return the estimate of tensors alone: no allocator, no workspace."""
    section = train | {
        "task": "sft",
        "per_device_train_batch_size": batch["per_device"],
        "gradient_accumulation_steps": batch["accumulation"],
    }
    training = training_from(
        section, model_named_here(train["model"]), Setting(gpus=1, is_cpu=True)
    )
    constants = replace(shipped_constants().memory, workspace_gib=0.0)
    return memory(training, constants).allocated_gib * 2**30


@pytest.mark.parametrize(
    ("train", "batch"),
    [
        ({"model": "random:qwen3-small", "tuner_type": "full"}, (2, 2)),
        ({"model": "random:qwen3-small", "tuner_type": "lora", "max_length": 512}, (1, 1)),
        (
            {
                "model": "random:llama-small",
                "tuner_type": "full",
                "gradient_checkpointing": True,
            },
            (1, 1),
        ),
        (
            {
                "model": "random:qwen3-tiny",
                "tuner_type": "full",
                "use_galore": True,
                "galore_rank": 16,
            },
            (2, 1),
        ),
    ],
    ids=["full", "lora", "checkpointing", "galore"],
)
def test_a_training_holds_what_was_estimated(
    tmp_path: Path, train: dict[str, Any], batch: tuple[int, int]
) -> None:
    messages = [
        {"role": "user", "content": "Tell me a story."},
        {"role": "assistant", "content": LONG},
    ]
    lines = [json.dumps({"messages": messages})] * 8
    (tmp_path / "long.jsonl").write_text("\n".join(lines), encoding="utf-8")
    per_device, accumulation = batch
    section = {"max_length": 256} | train
    run_dir = a_run(
        tmp_path, per_device=per_device, accumulation=accumulation, dataset="long.jsonl",
        max_steps=3, truncation_strategy="right", **section,
    )  # fmt: skip

    held = counted_bytes(run_dir)
    expected = estimated_bytes(section, per_device=per_device, accumulation=accumulation)

    assert expected == pytest.approx(held, rel=CLOSE)
