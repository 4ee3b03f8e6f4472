"""A training that was interrupted is the training that was not: same samples, losses, weights."""

import hashlib
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.training import train_here
from tests.run_requests import a_run, events, losses, result
from trainer import checkpoints

pytest.importorskip("torch")
pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SFT: dict[str, Any] = {"lora_dropout": 0.1}
KINDS: dict[str, dict[str, Any]] = {
    "lora with dropout": SFT,
    "full": {"tuner_type": "full"},
    "accumulation": SFT | {"accumulation": 3},
    "packing": SFT | {"packing": True, "packing_length": 512},
    "grouped by length": SFT | {"group_by_length": True, "per_device": 2, "accumulation": 2},
    "data workers": SFT | {"dataloader_num_workers": 2},
    "evaluation between": SFT | {"split_dataset_ratio": 0.05, "eval_steps": 4},
    "adafactor": {"tuner_type": "full", "optim": "adafactor"},
    "galore": {
        "tuner_type": "full",
        "use_galore": True,
        "galore_rank": 8,
        "galore_update_proj_gap": 3,
    },
    # saved by other names than the model has
    "experts": {"model": "random:qwen3-moe-tiny", "tuner_type": "full"},
    "dpo lora": {"task": "dpo", "dataset": "sample:support-pairs"},
    "dpo full": {"task": "dpo", "dataset": "sample:support-pairs", "tuner_type": "full"},
}

LATER: dict[str, dict[str, Any]] = {
    "lora with dropout": SFT,
    "full": {"tuner_type": "full"},
    "galore": KINDS["galore"],
    "8-bit states": {"tuner_type": "full", "optim": "adamw_8bit"},
    "whole layers beside the adapter": SFT | {"modules_to_save": ["lm_head"]},
    "dpo lora": KINDS["dpo lora"],
    "reward": {"task": "reward", "dataset": "sample:support-pairs"},
}
"""Kinds whose checkpoints are also written while training goes on."""


def weights(root: Path) -> str:
    """Return the digest of the weights a generation ended with."""
    (file,) = (root / "final").glob("*model.safetensors")
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.mark.parametrize("kind", KINDS)
def test_twenty_steps_are_ten_and_a_stop_and_ten(tmp_path: Path, kind: str) -> None:
    settings = {"max_steps": 20, "every": 50} | KINDS[kind]
    straight = a_run(tmp_path / "straight", **settings)
    before = a_run(tmp_path / "broken", **settings)
    after = a_run(tmp_path / "broken", number=2, resumes=True, **settings)

    codes = [train_here(straight), train_here(before, stop_at=10), train_here(after)]

    assert codes == [0, 83, 0]
    assert result(before)["step"] == 10
    assert sorted(losses(before)) == list(range(1, 11))
    assert losses(before) | losses(after) == losses(straight)
    assert weights(tmp_path / "broken") == weights(tmp_path / "straight")


@pytest.mark.parametrize("kind", LATER)
def test_a_checkpoint_written_while_training_goes_on_is_the_one_it_waits_for(
    tmp_path: Path, kind: str
) -> None:
    settings = {"max_steps": 6, "every": 3} | LATER[kind]
    waiting = a_run(tmp_path / "waiting", **settings)
    going_on = a_run(tmp_path / "going on", async_save=True, **settings)

    codes = [train_here(waiting), train_here(going_on)]

    assert codes == [0, 0]
    assert losses(going_on) == losses(waiting)
    folders = [tmp_path / each / "checkpoints" / "step-000003" for each in ("waiting", "going on")]
    digests = [
        {name: file["sha256"] for name, file in checkpoints.verify(folder).files.items()}
        for folder in folders
    ]
    assert digests[0] == digests[1]


def test_a_stop_waits_for_the_checkpoint_that_is_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"max_steps": 8, "every": 2, "async_save": True, "tuner_type": "full"}
    straight = a_run(tmp_path / "straight", **settings)
    before = a_run(tmp_path / "broken", **settings)
    after = a_run(tmp_path / "broken", number=2, resumes=True, **settings)
    finish, order = checkpoints.finish, []

    def slow(temporary: Path, **facts: Any) -> Any:
        time.sleep(0.3)  # longer than a step
        order.append(facts["step"])
        return finish(temporary, **facts)

    monkeypatch.setattr(checkpoints, "finish", slow)

    codes = [train_here(before, stop_at=3), train_here(after), train_here(straight)]

    assert codes == [83, 0, 0]
    assert order == [2, 3, 4, 6, 8, 2, 4, 6, 8]
    assert losses(before) | losses(after) == losses(straight)
    saved = [(event["step"], event["stalled_s"]) for event in events(before, "checkpoint")]
    assert [step for step, _ in saved] == [2, 3]
    assert saved[0][1] < 0.3 <= saved[1][1]


def test_a_save_that_fails_while_training_goes_on_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = a_run(tmp_path, max_steps=6, every=2, async_save=True)
    finish = checkpoints.finish

    def full_disk(temporary: Path, **facts: Any) -> Any:
        if facts["step"] == 4:
            raise OSError(28, "No space left on device")
        return finish(temporary, **facts)

    monkeypatch.setattr(checkpoints, "finish", full_disk)

    code = train_here(run_dir)

    assert code == 0
    (warning,) = events(run_dir, "warning")
    assert warning["step"] == 4
    assert "the checkpoint of step 4 could not be saved: OSError" in warning["message"]
    assert [event["step"] for event in events(run_dir, "checkpoint")] == [2, 6]
    left = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert left == ["step-000002", "step-000006"]


def test_a_stop_in_the_second_epoch_repeats_and_skips_no_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trl.trainer import sft_trainer

    seen: list[tuple[int, ...]] = []
    collate = sft_trainer.DataCollatorForLanguageModeling.torch_call

    def watched(self: Any, examples: list[dict[str, Any]]) -> Any:
        seen.extend(tuple(example["input_ids"]) for example in examples)
        return collate(self, examples)

    monkeypatch.setattr(sft_trainer.DataCollatorForLanguageModeling, "torch_call", watched)
    # 40 samples, 3 to a step: 3 epochs are 40 steps, and step 19 is in the middle of the second
    settings = {
        "dataset": "sample:support-faq",
        "accumulation": 3,
        "max_steps": None,
        "num_train_epochs": 3,
        "every": 100,
    }
    straight = a_run(tmp_path / "straight", **settings)
    train_here(straight)
    unbroken, seen[:] = list(seen), []
    before = a_run(tmp_path / "broken", **settings)
    after = a_run(tmp_path / "broken", number=2, resumes=True, **settings)
    train_here(before, stop_at=19)
    first = seen[: 19 * 3]  # the loader reads ahead of the step it is stopped at
    seen[:] = []
    train_here(after)

    assert len(unbroken) == 120
    assert len(set(unbroken[:40])) == 40
    assert unbroken[:40] != unbroken[40:80]
    assert first + seen == unbroken
    counts = [event["samples_seen"] for run in (before, after) for event in events(run, "step")]
    assert counts == [3 * step for step in range(1, 41)]


def test_nothing_left_to_do_is_success_with_the_same_weights(tmp_path: Path) -> None:
    done = a_run(tmp_path, max_steps=6, every=3)
    again = a_run(tmp_path, number=2, resumes=True, max_steps=6, every=3)
    train_here(done)
    first = weights(tmp_path)

    code = train_here(again)

    assert code == 0
    assert result(again)["reason"] == "already_complete"
    assert losses(again) == {}
    assert weights(tmp_path) == first


def test_another_global_batch_is_refused_on_resume(tmp_path: Path) -> None:
    train_here(a_run(tmp_path, max_steps=6, every=3), stop_at=3)
    changed = a_run(tmp_path, number=2, resumes=True, max_steps=6, every=3, accumulation=2)

    code = train_here(changed)

    assert code == 1
    assert result(changed)["reason"] == "invalid_request"
    assert "global batch" in result(changed)["message"]


def test_a_stop_before_the_first_step_loses_nothing_and_says_so(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    (run_dir / "stop").touch()

    code = train_here(run_dir)

    assert code == 83
    assert result(run_dir)["outcome"] == "stopped"
    assert result(run_dir)["step"] == 0


def test_weights_of_another_training_start_at_step_zero(tmp_path: Path) -> None:
    train_here(a_run(tmp_path / "first", dataset="sample:support-faq", max_steps=30))
    follower = a_run(
        tmp_path / "second",
        dataset="sample:support-faq",
        init_from=str(tmp_path / "first" / "final"),
        max_steps=3,
    )
    fresh = a_run(tmp_path / "third", dataset="sample:support-faq", max_steps=3)

    codes = [train_here(follower), train_here(fresh)]

    assert codes == [0, 0]
    assert losses(follower)[1] < losses(fresh)[1] - 0.2


def test_an_evaluation_gives_way_to_a_stop(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, max_steps=8, split_dataset_ratio=0.5, eval_steps=4)

    # step 4 has reported itself when its evaluation begins, which then hears of the stop for 5
    code = train_here(run_dir, stop_at=5)

    assert code == 83
    assert result(run_dir)["step"] == 4
    assert events(run_dir, "eval") == []
    assert (tmp_path / "checkpoints" / "step-000004" / "manifest.json").exists()


def test_a_stop_while_a_resumed_attempt_loads_does_not_go_back(tmp_path: Path) -> None:
    train_here(a_run(tmp_path, max_steps=8), stop_at=5)
    resumed = a_run(tmp_path, number=2, resumes=True, max_steps=8)
    (resumed / "stop").touch()

    code = train_here(resumed)

    assert code == 83
    assert (result(resumed)["step"], result(resumed)["samples_seen"]) == (5, 5)
