"""One model split among processes, by matrices, experts or layers, learns what one process does.

Each is stopped short, goes on from its checkpoint, and its weights are those of one process and
answer in a fresh one.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.asker import Asker
from tests.e2e.ranks import train_ranks
from tests.e2e.training import launch, train_here
from tests.run_requests import a_run, events, losses, result

pytest.importorskip("torch")
pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SETTINGS: dict[str, Any] = {"dataset": "sample:support-faq", "max_steps": 4, "every": 2}
FULL: dict[str, Any] = {"tuner_type": "full"}
AGAIN: dict[str, Any] = {"gradient_checkpointing": True}
"""Layers computed twice, as is the default on GPUs."""
LORA: dict[str, Any] = {"lora_dropout": 0.0} | AGAIN
TENSOR: dict[str, Any] = {"tensor_model_parallel_size": 2}
EXPERTS: dict[str, Any] = TENSOR | {"expert_model_parallel_size": 2}
PIPELINE: dict[str, Any] = {"pipeline_model_parallel_size": 2}
MIXTURE: dict[str, Any] = FULL | AGAIN | {"model": "random:qwen3-moe-tiny"}
THREE: dict[str, Any] = {"accumulation": 3}
PACKED: dict[str, Any] = {"packing": True, "packing_length": 200}


def tensors(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    (path,) = folder.glob("*.safetensors")
    return load_file(path)


@pytest.mark.parametrize(
    ("settings", "split", "said"),
    [
        (FULL | PACKED, TENSOR, "tensor parallel 2, 16 weights split"),
        (LORA, TENSOR, "tensor parallel 2, 16 weights split"),
        (MIXTURE, EXPERTS, "tensor parallel 2, by experts, 14 weights split"),
        (FULL | THREE, PIPELINE, "pipeline 1F1B, 1+1 layers"),
        (LORA | THREE, PIPELINE, "pipeline 1F1B, 1+1 layers"),
    ],
    ids=["tensor, full, packed", "tensor, lora", "experts", "pipeline, full", "pipeline, lora"],
)
def test_a_split_model_learns_and_resumes_as_a_whole_one(
    tmp_path: Path, asker: Asker, settings: dict[str, Any], split: dict[str, Any], said: str
) -> None:
    whole = a_run(tmp_path / "whole", **SETTINGS | settings)
    assert train_here(whole) == 0, result(whole)["message"]
    given = SETTINGS | settings | split
    parts = a_run(tmp_path / "parts", world_size=2, **given)
    start = launch if split is EXPERTS else train_ranks
    assert start(parts) == 0, result(parts)["message"]

    assert losses(parts) == pytest.approx(losses(whole), abs=1e-5)
    assert [each["runs"] for each in events(parts, "phase") if "runs" in each] == [said]
    for one, other in zip(events(parts, "step"), events(whole, "step"), strict=True):
        assert one["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-4)
        assert one["samples_seen"] == other["samples_seen"]
        assert one["fill"] == other["fill"]
    final, alone = tensors(tmp_path / "parts" / "final"), tensors(tmp_path / "whole" / "final")
    assert final.keys() == alone.keys()
    assert max(float((final[name] - alone[name]).abs().max()) for name in alone) < 1e-4

    checkpoints = tmp_path / "parts" / "checkpoints"
    (checkpoints / "step-000004").rename(tmp_path / "gone")
    again = a_run(tmp_path / "parts", number=2, world_size=2, resumes=True, **given)
    assert train_ranks(again) == 0, result(again)["message"]

    assert losses(again) == {step: losses(parts)[step] for step in (3, 4)}
    resumed = tensors(tmp_path / "parts" / "final")
    assert all(bool((resumed[name] == final[name]).all()) for name in final)
    assert asker.ask("answer", str(tmp_path / "parts" / "final"), "How long is delivery?")


def test_a_model_that_can_not_be_split_as_asked_is_refused_before_step_0(tmp_path: Path) -> None:
    for name, wrong, words in (
        ("heads", {"tensor_model_parallel_size": 4, "world_size": 4}, "2 key-value heads"),
        ("none", EXPERTS | FULL | {"world_size": 2}, "has no experts"),
        ("short", PIPELINE | {"world_size": 2, "accumulation": 1}, "as many micro-batches"),
    ):
        run_dir = a_run(tmp_path / name, **SETTINGS | wrong)

        code = train_ranks(run_dir)

        assert code == 1
        assert words in result(run_dir)["message"]
        assert not events(run_dir, "step")
