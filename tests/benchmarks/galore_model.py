"""What the GaLore measurements train: a model of 20 million parameters, and English text.

The text is Python's own language reference, as ``pydoc_data.topics`` ships it with every
interpreter: nothing has to be downloaded.  Its last part is kept for evaluation.
"""

import pydoc_data.topics
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from trainer.config import complete
from trainer.models import resolve

SHAPE = {
    "vocab_size": 2048,
    "hidden_size": 384,
    "intermediate_size": 1152,
    "num_hidden_layers": 11,
    "num_attention_heads": 6,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
}
LENGTH = 256
BATCH = 4
HELD_OUT_ROWS = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Rows of ``LENGTH`` tokens."""

    train: torch.Tensor
    held_out: torch.Tensor


@cache
def text() -> Text:
    """Return the rows to train on and those to evaluate on."""
    folder = resolve("random:qwen3-tiny")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    topics = pydoc_data.topics.topics
    tokens = tokenizer("\n\n".join(topics[name] for name in sorted(topics)))["input_ids"]
    rows = torch.tensor(tokens[: len(tokens) // LENGTH * LENGTH]).view(-1, LENGTH)
    return Text(train=rows[:-HELD_OUT_ROWS], held_out=rows[-HELD_OUT_ROWS:])


def model(seed: int, shape: dict[str, Any] = SHAPE) -> Any:
    """Return the model with random weights of this seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = AutoConfig.for_model("qwen3", **shape)
        return AutoModelForCausalLM.from_config(config, dtype=torch.float32)


def batch(step: int, seed: int) -> torch.Tensor:
    """Return the rows of a step: an endless stream of shuffles."""
    rows = text().train
    first = step * BATCH
    numbers = []
    for place in range(first, first + BATCH):
        epoch, within = divmod(place, len(rows))
        random = torch.Generator().manual_seed(seed * 1000 + epoch)
        numbers.append(int(torch.randperm(len(rows), generator=random)[within]))
    return rows[numbers]


def loss(of: Any, rows: torch.Tensor) -> torch.Tensor:
    """Return the mean loss per token."""
    result: torch.Tensor = of(input_ids=rows, labels=rows, use_cache=False).loss
    return result


@torch.no_grad()
def held_out_loss(of: Any) -> float:
    """Return the loss on rows that no step has seen."""
    parts = text().held_out.split(BATCH)
    return sum(loss(of, part).item() for part in parts) / len(parts)


def section(**keys: Any) -> dict[str, Any]:
    """Return a complete ``train:`` section of full tuning with the shipped defaults."""
    minimal = {"task": "sft", "model": "none", "dataset": "none", "tuner_type": "full"}
    return complete(minimal | keys)
