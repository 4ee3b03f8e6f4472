"""Each task learns, measures itself, leaves what loads again, and resumes as if never stopped."""

import importlib
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from tests.e2e.asker import Asker
from tests.e2e.tasks import POLICY, TASKS, ask, taught
from tests.e2e.test_training_resume import weights
from tests.e2e.training import train_here
from tests.run_requests import a_run, events, losses, result

for package in ("torch", "sentence_transformers"):
    pytest.importorskip(package)
pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SAMPLES = Path(__file__).parents[2] / "trainer" / "sample_data"
FULL = {"tuner_type": "full"}
DROPOUT = {"lora_dropout": 0.1}
BERT = {"model": "random:bert-tiny", "tuner_type": "full"}
RESUMED: dict[str, tuple[str, dict[str, Any]]] = {
    "pretraining in packed rows": ("pretrain", FULL | {"packing": True, "packing_length": 512}),
    "a reward model": ("reward", FULL),
    "an adapter with a reward head": ("reward", DROPOUT),
    "an embedding adapter": ("embedding", DROPOUT),
    "an embedding encoder": ("embedding", BERT | {"accumulation": 2, "dataloader_num_workers": 2}),
    "a reranker adapter": ("reranker", DROPOUT),
    "a reranker encoder": ("reranker", BERT | {"accumulation": 2}),
    "a reranker of lists": ("reranker", FULL | {"loss_type": "listwise_reranker"}),
    "a policy": ("grpo", FULL | {"accumulation": 2}),
    "a policy in an adapter": ("grpo", DROPOUT),
}


def settings(task: str, **more: Any) -> dict[str, Any]:
    """Return what ``a_run`` needs for a task."""
    row = TASKS[task]
    return {"task": task, "per_device": row.per_device, "max_length": 256, **row.train} | more


@pytest.mark.parametrize("kind", RESUMED)
def test_six_steps_are_three_and_a_stop_and_three(tmp_path: Path, kind: str) -> None:
    task, more = RESUMED[kind]
    evaluates = {"split_dataset_ratio": 0.05, "eval_steps": 4} if TASKS[task].held_out else {}
    given = settings(task, max_steps=6, every=50, **evaluates) | more
    straight = a_run(tmp_path / "straight", **given)
    before = a_run(tmp_path / "broken", **given)
    after = a_run(tmp_path / "broken", number=2, resumes=True, **given)

    codes = [train_here(straight), train_here(before, stop_at=3), train_here(after)]

    assert codes == [0, 83, 0], [result(run)["message"] for run in (straight, before, after)]
    assert sorted(losses(before)) == [1, 2, 3]
    assert losses(before) | losses(after) == losses(straight)
    assert weights(tmp_path / "broken") == weights(tmp_path / "straight")


COLLATORS = {
    "pretrain": ("trl.trainer.sft_trainer", "DataCollatorForLanguageModeling", "torch_call"),
    "embedding": (
        "sentence_transformers.sentence_transformer.data_collator",
        "SentenceTransformerDataCollator",
        "__call__",
    ),
}


@pytest.mark.parametrize("task", COLLATORS)
def test_a_stop_in_the_second_epoch_repeats_and_skips_no_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    module, name, method = COLLATORS[task]
    collator = getattr(importlib.import_module(module), name)
    collate = getattr(collator, method)
    seen: list[str] = []

    def watched(self: Any, examples: list[dict[str, Any]]) -> Any:
        seen.extend(str(example) for example in examples)
        return collate(self, examples)

    monkeypatch.setattr(collator, method, watched)
    packed = {"packing": True, "packing_length": 64} if task == "pretrain" else {}
    given = settings(task, max_steps=None, num_train_epochs=3, every=500, per_device=2) | packed
    rows = (SAMPLES / f"{given['dataset'].removeprefix('sample:')}.jsonl").read_text().splitlines()
    (tmp_path / "few.jsonl").write_text("\n".join(rows[:36]))
    given |= {"dataset": str(tmp_path / "few.jsonl")}
    train_here(a_run(tmp_path / "straight", accumulation=2, **given))
    unbroken, seen[:] = list(seen), []
    steps = len(unbroken) // 4
    stop_at = round(steps * 1.4 / 3)  # two fifths into the second of three passes
    train_here(a_run(tmp_path / "broken", accumulation=2, **given), stop_at=stop_at)
    first = seen[: stop_at * 4]  # the loader reads ahead of the step it is stopped at
    seen[:] = []
    train_here(a_run(tmp_path / "broken", number=2, resumes=True, accumulation=2, **given))

    one_pass = len(set(unbroken))
    assert steps * 4 >= 3 * one_pass
    assert len(set(unbroken[:one_pass])) == one_pass
    assert unbroken[:one_pass] != unbroken[one_pass : 2 * one_pass]
    assert first + seen == unbroken


@pytest.mark.parametrize("task", ["pretrain", "dpo", "embedding", "reranker", "reward"])
def test_the_loss_falls_and_a_fresh_process_uses_the_result(
    tmp_path: Path, asker: Asker, task: str
) -> None:
    given = settings(task, max_steps=30, tuner_type="full", learning_rate=2e-3)
    run_dir = a_run(tmp_path, **given)

    code = train_here(run_dir)
    said = ask(asker, task, tmp_path / "final")

    assert code == 0, result(run_dir)["message"]
    found = list(losses(run_dir).values())
    assert mean(found[-5:]) < mean(found[:3]) * 0.9
    match task:
        case "pretrain":
            assert float(said) < found[0] * 0.9
        case "dpo":
            assert said
        case _:
            best = said.splitlines()[0]
            assert ("We open at nine" if "Tern" not in said else "Tern tent") in best
    counts = [event["samples_seen"] for event in events(run_dir, "step")]
    assert counts == [given["per_device"] * step for step in range(1, 31)]
    assert all(event["tokens_per_s"] > 0 for event in events(run_dir, "step"))


def test_the_reward_of_grpo_rises_and_a_fresh_process_answers(tmp_path: Path, asker: Asker) -> None:
    given = settings("grpo", max_steps=20, tuner_type="full", learning_rate=1e-3) | POLICY
    run_dir = a_run(tmp_path, model=taught(tmp_path / "taught"), **given)

    code = train_here(run_dir)

    assert code == 0, result(run_dir)["message"]
    steps = events(run_dir, "step")
    rewards = [event["reward"] for event in steps]
    assert len(rewards) == 20
    assert mean(rewards[-5:]) > mean(rewards[:3]) + 0.03
    assert [event["rewards_overlap_mean"] for event in steps] == pytest.approx(rewards)
    assert ask(asker, "grpo", tmp_path / "final")


@pytest.mark.parametrize(
    ("task", "more", "measured"),
    [
        ("embedding", {}, ("mrr_at_10", "ndcg_at_10", "recall_at_10", "accuracy_at_1")),
        ("reranker", {}, ("mrr_at_10", "ndcg_at_10", "map")),
        ("reward", {}, ("accuracy", "margin")),
    ],
)
def test_held_out_rows_are_measured_in_the_tasks_own_terms(
    tmp_path: Path, task: str, more: dict[str, Any], measured: tuple[str, ...]
) -> None:
    given = settings(task, max_steps=16, tuner_type="full", learning_rate=2e-3, **more)
    run_dir = a_run(tmp_path, split_dataset_ratio=0.15, per_device_eval_batch_size=8, **given)

    assert train_here(run_dir) == 0

    (found,) = events(run_dir, "eval")
    assert {f"eval_{name}" for name in measured} <= found.keys()
    assert 0 < found[f"eval_{measured[0]}"] <= 1


def test_pairs_with_a_score_are_measured_by_correlation(tmp_path: Path) -> None:
    lines = [
        '{"sentence1": "a tent", "sentence2": "a tent", "score": 1}',
        '{"sentence1": "a tent", "sentence2": "a kettle", "score": 0}',
        '{"sentence1": "a tent", "sentence2": "two tents", "score": 0.8}',
        '{"sentence1": "rugs", "sentence2": "a kettle", "score": 0.1}',
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines * 3))
    given = settings("embedding", max_steps=8, loss_type="cosine_similarity", tuner_type="full")
    given |= {"dataset": "pairs.jsonl", "val_dataset": "pairs.jsonl"}
    run_dir = a_run(tmp_path, **given)

    assert train_here(run_dir) == 0, result(run_dir)["message"]

    assert -1 <= events(run_dir, "eval")[-1]["eval_spearman"] <= 1


def test_a_reward_model_scores_the_answers_of_grpo(tmp_path: Path) -> None:
    judge = settings("reward", max_steps=4)
    assert train_here(a_run(tmp_path / "judge", **judge)) == 0
    given = settings("grpo", max_steps=2, reward_funcs=None, reward_weights=None)
    policy = a_run(tmp_path / "policy", reward_model=str(tmp_path / "judge" / "final"), **given)

    assert train_here(policy) == 0, result(policy)["message"]

    assert all(isinstance(event["reward"], float) for event in events(policy, "step"))


@pytest.mark.parametrize(
    ("task", "more", "said"),
    [
        ("grpo", {"num_generations": 3}, "3 does not divide the global batch of 4 answers"),
        ("grpo", {"reward_weights": [1.0]}, "1 weights for 2 rewards (overlap, variety)"),
        ("grpo", {"reward_funcs": None, "reward_weights": None}, "something that scores"),
        ("embedding", {"loss_type": "cosine_similarity"}, "sentence1, sentence2 and score"),
        ("embedding", {"dataset": "sample:support-faq"}, "not query and positive"),
        ("reranker", {"max_length": 8, "truncation_strategy": "delete"}, "no sample is left"),
        ("embedding", {"target_modules": ["nowhere"]}, "train.target_modules: Target modules"),
        ("pretrain", {"dataset": "sample:support-faq"}, "reads rows of text alone"),
        ("reward", {"dataset": "sample:support-faq"}, "needs chosen and rejected"),
    ],
    ids=str,
)
def test_what_a_task_can_not_use_is_refused_before_a_step(
    tmp_path: Path, task: str, more: dict[str, Any], said: str
) -> None:
    run_dir = a_run(tmp_path, **(settings(task) | more))

    code = train_here(run_dir)

    assert code == 1
    assert result(run_dir)["reason"] == "invalid_request"
    assert said in result(run_dir)["message"]
    assert events(run_dir, "step") == []
