"""Pairs of settings that elsewhere fail only after the model has loaded are refused by the request.

Each is refused with the reason and the nearest choice that works, and nothing but the standard
library is loaded for it.  What needs the model's shapes (a rank above a matrix, targets that name
no layer) is refused in ``tests/e2e`` before any weight is read.
"""

from typing import Any

import pytest

from trainer.config import train_problems

GALORE = {"use_galore": True, "tuner_type": "full"}


@pytest.mark.parametrize(
    ("train", "key", "why", "nearest"),
    [
        (GALORE | {"fsdp": "fsdp2"}, "fsdp", "whole matrices", "remove fsdp"),
        (GALORE | {"deepspeed": "zero2"}, "deepspeed", "ZeRO", "fsdp2"),
        (GALORE | {"tuner_type": "lora"}, "use_galore", "an adapter has none", "tuner_type: full"),
        (
            GALORE | {"quant_method": "bnb", "quant_bits": 4},
            "quant_method",
            "frozen",
            "galore_quantization: true",
        ),
        (GALORE | {"optim": "paged_adamw_8bit"}, "optim", "keeps its states small", "adamw_8bit"),
        (GALORE | {"load_in_4bit": True}, "load_in_4bit", "is not a key", "quant_method"),
        ({"tuner_type": "lora", "lora_rank": 0}, "lora_rank", "0 must be", "at least 1"),
        ({"tuner_type": "full", "lora_rank": 8}, "lora_rank", "ignored", "tuner_type: lora"),
    ],
    ids=str,
)
def test_a_pair_that_fails_after_loading_is_refused_before(
    train: dict[str, Any], key: str, why: str, nearest: str
) -> None:
    problems = train_problems(
        {"task": "sft", "model": "random:qwen3-tiny", "dataset": "sample:support-faq"} | train
    )

    told = [problem for problem in problems if problem.startswith(f"train.{key}")]
    assert told, problems
    assert any(why in problem and nearest in problem for problem in told), told
