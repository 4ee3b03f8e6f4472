"""The table of ``docs/parallel.md`` is what validation and trainer accept and refuse."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.train_words import refused_here
from tests.run_requests import a_run
from trainer.config import RequestError, load_request
from trainer.parallel.keys import PARALLEL_KEYS
from trainer.parallel.layout import SPLITS
from trainer.rules import ABSENT

REPOSITORY = Path(__file__).parents[4]
PAGE = REPOSITORY / "docs" / "parallel.md"
SPREADING = {"deepspeed", "context_parallel_size", "virtual_pipeline_model_parallel_size"}
"""Keys of other trainers that the table must name as refused."""


@dataclass(frozen=True, slots=True)
class Row:
    """One way, how it is spread and what the page says of it."""

    train: dict[str, Any]
    devices: int
    here: str
    gpu: str

    @property
    def is_refused(self) -> bool:
        return self.here.startswith("refused")


def rows() -> Iterator[Row]:
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[1].isdigit():
            pairs = re.findall(r"`(\w+): (\w+)`", cells[0])
            yield Row({key: value_of(text) for key, text in pairs}, int(cells[1]), *cells[2:])


def value_of(text: str) -> Any:
    return json.loads(text) if re.fullmatch(r"\d+|true|false", text) else text


ROWS = list(rows())


def test_the_table_names_every_key_and_choice() -> None:
    said = {(key, value) for row in ROWS for key, value in row.train.items()}
    keys = {key for key, _ in said}

    assert PARALLEL_KEYS.keys() <= keys
    for name, key in PARALLEL_KEYS.items():
        assert {(name, choice) for choice in key.choices} <= said
    assert keys & ABSENT.keys() >= SPREADING


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.train} on {row.devices}")
def test_a_row_says_what_both_sides_say(row: Row, tmp_path: Path) -> None:
    assert row.here.startswith(("tested", "untested", "refused"))
    assert row.gpu.startswith(("tested", "untested", "refused"))
    assert row.gpu.startswith("refused") is row.is_refused
    steps = row.train.get("gradient_accumulation_steps", 1)
    minimal = {"task": "sft", "model": "random:qwen3-tiny", "dataset": "sample:support-faq"}
    run_dir = a_run(
        tmp_path, world_size=row.devices, accumulation=steps, **row.train | {"max_steps": 1}
    )
    try:
        load_request(run_dir)
        by_trainer = False
    except RequestError:
        by_trainer = True

    assert by_trainer is row.is_refused
    by_validation = refused_here(minimal, row.train, row.devices)
    assert bool(by_validation) is row.is_refused, by_validation


def test_every_way_that_splits_one_model_is_tested_on_two_processes() -> None:
    tested = {key for row in ROWS if row.here.startswith("tested") for key in row.train}

    assert SPLITS.keys() | {"expert_model_parallel_size"} <= tested
