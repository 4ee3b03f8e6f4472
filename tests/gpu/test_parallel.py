"""Two GPUs learn what one does, whichever way the work is divided, and say which way runs."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.conftest import Gpus
from tests.run_requests import a_run, events, losses, result

pytestmark = pytest.mark.gpu

REPOSITORY = Path(__file__).parents[2]
SETTINGS: dict[str, Any] = {
    "dataset": "sample:support-faq",
    "max_steps": 4,
    "lora_dropout": 0.0,
    "learning_rate": 1e-3,
}
FULL: dict[str, Any] = {"tuner_type": "full", "lora_dropout": None}
TENSOR: dict[str, Any] = FULL | {"tensor_model_parallel_size": 2}
PACKED: dict[str, Any] = {"packing": True, "packing_length": 250}
WAYS: dict[str, tuple[dict[str, Any], str]] = {
    "weights whole": ({}, ""),
    "weights split": ({"fsdp": "fsdp2"}, "fsdp2"),
    "weights kept between the passes": (
        {"fsdp": "fsdp2", "fsdp_reshard_after_forward": False},
        "fsdp2, weights kept between passes",
    ),
    "matrices split": (TENSOR, "tensor parallel 2, 16 weights split"),
    "experts split": (
        TENSOR | {"expert_model_parallel_size": 2, "model": "random:qwen3-moe-tiny"},
        "tensor parallel 2, by experts, 14 weights split",
    ),
    "layers split": (
        {"pipeline_model_parallel_size": 2, "accumulation": 2},
        "pipeline 1F1B, 1+1 layers",
    ),
    "rows shared by ulysses": ({"sequence_parallel_size": 2} | PACKED, ""),
    "rows shared by all_gather": (
        {"sequence_parallel_size": 2, "sequence_parallel_attention": "all_gather"} | PACKED,
        "",
    ),
}
ALONE = {"fsdp", "fsdp_reshard_after_forward", "sequence_parallel_attention"}
"""Keys, beside the sizes, that one process is not given."""


def launched(run_dir: Path) -> int:
    command = [sys.executable, "-m", "trainer.launch", str(run_dir)]
    return subprocess.run(command, cwd=REPOSITORY, check=False, timeout=300).returncode


@pytest.mark.parametrize("way", WAYS)
def test_two_gpus_have_the_losses_of_one(tmp_path: Path, gpus: Gpus, way: str) -> None:
    cards = gpus(2)
    keys, said = WAYS[way]
    given = SETTINGS | keys
    one = {
        key: value
        for key, value in given.items()
        if key not in ALONE and not key.endswith("_parallel_size")
    }
    # whoever does not share rows or layers reads rows of its own: one process takes two passes
    if len(one) == len(given) or "fsdp" in given:
        one["accumulation"] = 2
    alone = a_run(tmp_path / "alone", gpus=cards[:1], **one)
    together = a_run(tmp_path / "together", gpus=cards, world_size=2, **given)

    for run_dir in (alone, together):
        assert launched(run_dir) == 0, result(run_dir)["message"]

    assert losses(together) == pytest.approx(losses(alone), abs=1e-4)
    runs = [event["runs"] for event in events(together, "phase") if "runs" in event]
    assert any(said in each for each in runs), runs
