"""A request is understood whole or refused whole, with every mistake in one answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.run_requests import a_run
from trainer.config import RequestError, complete, load_request, train_problems

MINIMAL = {"task": "sft", "model": "random:qwen3-tiny", "dataset": "sample:support-faq"}
FULL: dict[str, Any] = {"tuner_type": "full", "use_galore": True}
PER_PARAMETER = FULL | {"galore_optim_per_parameter": True}


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
        ({"deepspeed": "zero2"}, "ZeRO is not part of this build"),
        ({"task": "kto"}, "'kto' is not one of pretrain, sft, dpo"),
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
        ({"use_galore": True, "tuner_type": "full", "optim": "adafactor"}, "nothing for GaLore"),
        (FULL | {"optim": "paged_adamw_8bit"}, "small instead of paging"),
        (FULL | {"galore_cos_threshold": 0.5}, "read only with galore_quantization: true"),
        (FULL | {"galore_rank": 0}, "0 must be at least 1"),
        (PER_PARAMETER | {"gradient_accumulation_steps": 2}, "can not be summed"),
        (PER_PARAMETER | {"max_grad_norm": 0.5}, "the norm of all of them is not known"),
        ({"lorap_lr_ratio": 16, "optim": "adafactor"}, "LoRA+ is built on optim: adamw_torch"),
        ({"lorap_lr_ratio": 0.5}, "0.5 must be at least 1"),
        ({"lorap_lr_ratio": 16, "tuner_type": "full"}, "only with tuner_type: lora"),
        ({"target_regex": ".*", "target_modules": ["q_proj"]}, "already says which layers"),
        ({"quant_method": "bnb", "tuner_type": "full"}, "quantised weights are frozen"),
        ({"quant_method": "bnb", "quant_bits": 8}, "the base is loaded in 4 bits"),
        ({"quant_method": "gptq", "quant_bits": 3}, "reads GPTQ weights of 2, 4 and 8 bits"),
        ({"quant_method": "gptq", "use_dora": True}, "DoRA needs the norm"),
        ({"quant_method": "gptq", "bnb_4bit_quant_type": "fp4"}, "only with quant_method: bnb"),
        ({"quant_method": "awq"}, "'awq' is not one of bnb, gptq"),
        ({"quant_bits": 4}, "read only with quant_method: bnb or gptq"),
        ({"load_in_4bit": True}, "did you mean quant_method?"),
        ({"packing": True, "task": "dpo"}, "packing is read only with task: pretrain or sft"),
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


@pytest.mark.parametrize("tuner", ["full", "lora"])
def test_galore_on_quantised_weights_is_refused_with_any_tuner(tuner: str) -> None:
    problems = train_problems(MINIMAL | FULL | {"quant_method": "bnb", "tuner_type": tuner})

    assert any("frozen 4-bit weights have none" in problem for problem in problems)
    assert all("nearest: " in problem for problem in problems)


@pytest.mark.parametrize(
    "section",
    [
        FULL | {"optim": "adamw_8bit", "galore_target_modules": ["mlp"]},
        FULL | {"galore_quantization": True, "galore_gamma_proj": 1.5},
        PER_PARAMETER,
        {"quant_method": "bnb", "quant_bits": 4, "bnb_4bit_use_double_quant": False},
        {"quant_method": "gptq", "quant_bits": 8},
        {"optim": "adamw_8bit"},
        {"tuner_type": "full", "optim": "paged_adamw_8bit"},
    ],
    ids=str,
)
def test_what_goes_together_is_taken(section: dict[str, Any]) -> None:
    assert train_problems(MINIMAL | section) == []


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
