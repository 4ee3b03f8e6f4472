"""The tuners and optimizers a job can pick by name go together, or are refused with a reason."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from trainer.config import complete, train_problems
from trainer.optimizers.table import OPTIMIZERS, name_of

CONF = Path(__file__).parents[4] / "conf"
JOB = {"task": "sft", "model": "random:qwen3-tiny", "dataset": "sample:support-faq"}
PAIRS = [
    (tuner, optimizer)
    for tuner in sorted(path.stem for path in (CONF / "tuner").glob("*.yaml"))
    for optimizer in sorted(path.stem for path in (CONF / "optimizer").glob("*.yaml"))
]


def _section(tuner: str, optimizer: str) -> dict[str, Any]:
    section: dict[str, Any] = dict(JOB)
    for path in (CONF / "tuner" / f"{tuner}.yaml", CONF / "optimizer" / f"{optimizer}.yaml"):
        section |= yaml.safe_load(path.read_text())
    return section


@pytest.mark.parametrize(("tuner", "optimizer"), PAIRS)
def test_a_pair_is_taken_or_refused_as_the_table_says(tuner: str, optimizer: str) -> None:
    section = _section(tuner, optimizer)

    problems = train_problems(section)

    row = OPTIMIZERS[name_of(complete(section))]
    assert (problems == []) is (section["tuner_type"] in row.tuners)
    assert all("; nearest: " in problem for problem in problems)


def test_every_optimizer_but_variants_of_galore_can_be_picked_by_name() -> None:
    picked = {name_of(complete(_section("full", optimizer))) for _, optimizer in PAIRS}

    assert picked == OPTIMIZERS.keys() - {"adafactor", "galore_8bit", "lora_plus"}
