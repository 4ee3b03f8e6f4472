"""Tuners with tasks other than those they are mostly taken for: one cell of each row and column.

``make campaign`` fills the whole table (``tests.benchmarks.campaign_matrix``); a cell here is run
as it is there.
"""

import pytest

pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")
pytest.importorskip("bitsandbytes")

from tests.benchmarks.campaign_matrix import TUNERS, run
from tests.e2e.asker import Asker
from tests.e2e.tasks import TASKS

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

CELLS = (
    ("pretrain", "LoRA on GPTQ"),
    ("sft", "DoRA"),
    ("dpo", "full, AdamW 8 bit"),
    ("grpo", "LoRA"),
    ("embedding", "Q-GaLore"),
    ("reranker", "GaLore"),
    ("reward", "LoRA on NF4"),
)


def test_every_task_and_every_tuner_has_a_cell() -> None:
    assert {task for task, _ in CELLS} == TASKS.keys()
    # `full` is the column of test_training_tasks.py
    assert {tuner for _, tuner in CELLS} == TUNERS.keys() - {"full"}


@pytest.mark.parametrize(("task", "tuner"), CELLS, ids=lambda value: str(value))
def test_it_learns_and_a_fresh_process_predicts_with_the_result(
    asker: Asker, task: str, tuner: str
) -> None:
    cell = run(task, tuner, asker)

    assert cell["verdict"] == "works", cell


@pytest.mark.parametrize("task", ["embedding", "reranker", "reward"])
def test_gptq_weights_are_refused_where_the_model_ends_in_no_word(asker: Asker, task: str) -> None:
    cell = run(task, "LoRA on GPTQ", asker)

    assert cell["verdict"] == "refused"
    assert "quant_method: bnb" in cell["why"]
