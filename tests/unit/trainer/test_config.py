"""A request is understood whole or refused whole, with every mistake in one answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.run_requests import a_run
from trainer.config import RequestError, complete, load_request, train_problems

MINIMAL = {"task": "sft", "model": "random:qwen3-tiny", "dataset": "sample:support-faq"}


def change(run_dir: Path, **fields: Any) -> None:
    path = run_dir / "request.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_a_request_is_read_with_every_default_filled_in(tmp_path: Path) -> None:
    request = load_request(a_run(tmp_path, per_device=2, accumulation=3, every=5))

    assert request.global_batch == 6
    assert request.on_cpu
    assert request.final == tmp_path / "final"
    assert request.train["dataset"] == ["sample:support-chats"]
    assert request.train["lora_alpha"] == 32
    assert request.train["adam_beta2"] == 0.95


@pytest.mark.parametrize(("tuner", "rate"), [("lora", 1e-4), ("full", 1e-5)])
def test_the_learning_rate_defaults_to_the_tuners(tuner: str, rate: float) -> None:
    assert complete(MINIMAL | {"tuner_type": tuner})["learning_rate"] == rate


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"lora_r": 8}, "did you mean lora_rank?"),
        ({"lora_ranc": 8}, "did you mean lora_rank?"),
        ({"zzzz": 8}, "is not a key of this trainer"),
        ({"save_steps": 50}, "write checkpoint.every_steps"),
        ({"resume_from_checkpoint": "x"}, "write train.init_from"),
        ({"quant_bits": 4}, "loads no quantised weights"),
        ({"deepspeed": "zero2"}, "does not shard"),
        ({"task": "grpo"}, "'grpo' is not one of sft, dpo"),
        ({"attn_impl": "flash_attention_2"}, "not one of eager, sdpa"),
        ({"torch_dtype": "float16"}, "not one of float32, bfloat16"),
        ({"lora_rank": 0}, "0 must be at least 1"),
        ({"lora_rank": True}, "true is not of type integer"),
        ({"lora_rank": 8.0}, "8.0 is not of type integer"),
        ({"max_steps": -1}, "-1 must be at least 1"),
        ({"learning_rate": "2e-5"}, '"2e-5" is not of type number'),
        ({"learning_rate": 0}, "0 must be above 0"),
        ({"learning_rate": float("nan")}, "is not of type number"),
        ({"lora_dropout": 1}, "1 must be below 1"),
        ({"dataset": []}, "is not text or a list of texts"),
        ({"dataset": ["a.jsonl", 3]}, "is not text or a list of texts"),
        ({"model": ""}, "is not text"),
        ({"use_galore": True}, "GaLore projects the gradients of full weights"),
        ({"packing": True, "task": "dpo"}, "packing is read only with task: sft"),
        ({"galore_rank": 4, "tuner_type": "full"}, "is read only with use_galore: true"),
    ],
    ids=str,
)
def test_what_the_trainer_does_not_do_is_refused_by_name(
    changes: dict[str, Any], said: str
) -> None:
    (problem,) = train_problems(MINIMAL | changes)

    assert problem.startswith("train.")
    assert said in problem


def test_required_keys_are_asked_for() -> None:
    assert train_problems({}) == [
        "train.task: is required",
        "train.model: is required",
        "train.dataset: is required",
    ]


def test_all_mistakes_come_at_once(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, lora_r=8, lora_dropout=7)
    change(run_dir, grace_s=-1, surprise=1)

    with pytest.raises(RequestError) as raised:
        load_request(run_dir)

    lines = str(raised.value).splitlines()
    assert len(lines) == 4
    assert all(line.startswith(str(run_dir / "request.json")) for line in lines)


def test_batch_sizes_must_multiply_up(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, world_size=2, per_device=2, accumulation=2)
    change(run_dir, global_batch=9)

    with pytest.raises(RequestError, match="2 x per_device_batch 2 x accumulation 2 is 8, not"):
        load_request(run_dir)


def test_batch_sizes_left_open_come_from_the_train_section(tmp_path: Path) -> None:
    run_dir = a_run(
        tmp_path, world_size=2, per_device_train_batch_size=3, gradient_accumulation_steps=4
    )
    change(run_dir, global_batch=None, per_device_batch=None, accumulation=None)

    request = load_request(run_dir)

    assert (request.per_device_batch, request.accumulation, request.global_batch) == (3, 4, 24)


@pytest.mark.parametrize("content", [None, "", "[]", "{"])
def test_a_folder_without_a_request_is_named(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "request.json").write_text(content)

    with pytest.raises(RequestError, match=r"request\.json is missing or is not a JSON object"):
        load_request(tmp_path)
