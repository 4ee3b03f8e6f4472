"""What `headway advise` proposes is taken by both sides: validation here, and the trainer's own."""

from typing import Any

import pytest

from reconciler.cli.train_words import refused_here
from reconciler.specs.train_section import train_findings
from tests.unit.estimating.command_line import advised, run
from trainer.config import train_problems
from trainer.parallel.layout import layout_of, request_problems

QUESTIONS = (
    "Qwen2.5-14B tuner_type=full max_length=8192 --gpus 8 --type A800-80GB",
    "Qwen2.5-14B tuner_type=full max_length=32768 packing=true --gpus 16 --type H100-80GB",
    "Qwen3-30B-A3B tuner_type=full max_length=4096 --gpus 32 --type H100-80GB",
    "Llama-2-7B lora_rank=64 --gpus 2 --type RTX4090",
    "Qwen3-8B quant_method=bnb quant_bits=4 --gpus 4 --type RTX4090",
    "Qwen3-8B task=dpo --gpus 8 --type H100-80GB",
    "Qwen2.5-1.5B tuner_type=full optim=adafactor --gpus 8 --type A100-80GB",
)


def section(lines: list[str], question: str) -> dict[str, Any]:
    """Return a whole ``train:`` section: the question's words and the lines of the answer."""
    words = [word for word in question.split()[1:] if "=" in word]
    pairs = [word.split("=") for word in words] + [line.split(": ") for line in lines]
    found: dict[str, Any] = {"task": "sft", "model": "folder", "dataset": "rows.jsonl"}
    for key, text in pairs:
        found[key] = int(text) if text.isdigit() else {"true": True, "false": False}.get(text, text)
    return found


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_is_proposed_is_taken_by_validation_and_trainer(question: str) -> None:
    answer = advised(f"advise {question}")

    proposals = [one for one in (answer["runnable"], answer["smaller"]) if one]
    proposals += [one for one in answer["options"] if one["train"]]
    assert answer["runnable"] is not None and answer["runnable"]["train"]
    for one in proposals:
        train = section(one["train"], question)
        assert list(train_findings(train)) == []
        assert train_problems(train) == []
        assert list(request_problems(layout_of(train, one["gpus"]))) == []


@pytest.mark.parametrize("question", QUESTIONS[:3])
def test_what_is_refused_has_no_lines_and_a_reason(question: str) -> None:
    options = advised(f"advise {question}")["options"]

    assert any(one["refused"] for one in options)
    assert all(bool(one["refused"]) is not bool(one["train"]) for one in options)


def test_where_nothing_runs_that_fits_nothing_is_proposed() -> None:
    # ZeRO-like splitting does not go with this task, and whole copies do not fit
    result = run("advise Qwen2.5-14B task=dpo tuner_type=full --gpus 8 --type A100-80GB")

    assert "none of the fitting layouts runs with this build's trainer" in result.output
    assert "train:" not in result.output


def test_mistakes_of_the_question_are_not_held_against_the_answer() -> None:
    words = {"attn_impl": "flash"}

    assert refused_here(words, {"fsdp": "fsdp2"}, 2) == {}
    assert "fsdp" in refused_here(words | {"optim": "adafactor"}, {"fsdp": "fsdp2"}, 2)
    assert "tensor_model_parallel_size" in refused_here(words, {"tensor_model_parallel_size": 2}, 4)
