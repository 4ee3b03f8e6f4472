"""Weights split among processes: the training is that of whole copies, and resumes as exactly."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.ranks import train_ranks
from tests.e2e.test_training_resume import weights
from tests.e2e.training import launch, train_here
from tests.run_requests import a_run, events, losses, result

pytest.importorskip("torch")
pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SETTINGS: dict[str, Any] = {"dataset": "sample:support-faq", "max_steps": 6, "every": 3}
SHARDED = SETTINGS | {"fsdp": "fsdp2", "world_size": 2}


def runs(run_dir: Path) -> list[str]:
    return [event["runs"] for event in events(run_dir, "phase") if "runs" in event]


def test_split_weights_learn_what_whole_ones_learn_and_resume_exactly(tmp_path: Path) -> None:
    alone = a_run(tmp_path / "alone", accumulation=2, tuner_type="full", **SETTINGS)
    split = a_run(tmp_path / "split", tuner_type="full", **SHARDED)
    assert [train_here(alone), train_ranks(split)] == [0, 0]
    assert losses(split) == pytest.approx(losses(alone), abs=1e-6)
    assert (runs(alone), runs(split)) == (["one process"], ["fsdp2"])
    held, whole = result(split)["metrics"], result(alone)["metrics"]
    assert held["weights_bytes"] < 0.55 * whole["weights_bytes"]
    assert held["optimizer_bytes"] < 0.55 * whole["optimizer_bytes"]
    first = weights(tmp_path / "split")

    # the last three steps again, as if it had been killed before their checkpoint
    checkpoints = tmp_path / "split" / "checkpoints"
    (checkpoints / "step-000006").rename(tmp_path / "gone")
    again = a_run(tmp_path / "split", number=2, resumes=True, tuner_type="full", **SHARDED)
    assert train_ranks(again) == 0
    assert losses(again) == {step: losses(split)[step] for step in (4, 5, 6)}
    assert weights(tmp_path / "split") == first

    nothing_left = a_run(tmp_path / "split", number=3, resumes=True, tuner_type="full", **SHARDED)
    assert train_ranks(nothing_left) == 0
    assert result(nothing_left)["reason"] == "already_complete"
    assert weights(tmp_path / "split") == first


def test_weights_kept_between_the_passes_train_and_resume_alike(tmp_path: Path) -> None:
    settings = SHARDED | {"tuner_type": "full", "fsdp_reshard_after_forward": False}
    alone = a_run(tmp_path / "alone", accumulation=2, tuner_type="full", **SETTINGS)
    kept = a_run(tmp_path / "kept", **settings)
    assert [train_here(alone), train_ranks(kept)] == [0, 0]
    assert losses(kept) == pytest.approx(losses(alone), abs=1e-5)
    assert runs(kept) == ["fsdp2, weights kept between passes"]
    assert result(kept)["metrics"]["optimizer_bytes"] < (
        0.55 * result(alone)["metrics"]["optimizer_bytes"]
    )

    (tmp_path / "kept" / "checkpoints" / "step-000006").rename(tmp_path / "gone")
    again = a_run(tmp_path / "kept", number=2, resumes=True, **settings)
    assert train_ranks(again) == 0
    assert losses(again) == {step: losses(kept)[step] for step in (4, 5, 6)}


def test_an_adapter_on_split_weights_goes_on_with_twice_the_processes(tmp_path: Path) -> None:
    settings = SHARDED | {"lora_dropout": 0.0}
    two = a_run(tmp_path, accumulation=2, **settings)
    assert train_ranks(two) == 0
    (tmp_path / "checkpoints" / "step-000006").rename(tmp_path / "gone")

    four = a_run(tmp_path, number=2, resumes=True, **settings | {"world_size": 4})
    assert train_ranks(four) == 0

    later = {step: losses(two)[step] for step in (4, 5, 6)}
    assert losses(four) == pytest.approx(later, abs=1e-6)
    assert (tmp_path / "final" / "adapter_model.safetensors").is_file()


def test_split_weights_and_shared_rows_go_together(tmp_path: Path) -> None:
    packed = {"packing": True, "packing_length": 256, "max_length": 256, "tuner_type": "full"}
    alone = a_run(tmp_path / "alone", **SETTINGS | packed)
    both = a_run(tmp_path / "both", sequence_parallel_size=2, **SHARDED | packed)

    assert [train_here(alone), launch(both)] == [0, 0]

    assert losses(both) == pytest.approx(losses(alone), abs=1e-5)
    assert runs(both) == ["fsdp2"]
