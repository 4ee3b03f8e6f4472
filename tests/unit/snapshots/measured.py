"""Measured runs with quiet defaults."""

from typing import Any

from reconciler.domain.job import WorkloadFacts
from reconciler.domain.units import AttemptId, Instant
from reconciler.estimating.estimate import estimate
from reconciler.estimating.memory import GIB
from reconciler.estimating.train_section import Setting, training_from
from reconciler.snapshots.history import MeasuredRun
from reconciler.specs.model_catalogue import model_named_here, shipped_constants, shipped_gpus

MODEL = "Qwen/Qwen3-8B"
TRAIN = {"model": MODEL, "task": "sft", "tuner_type": "lora", "max_length": 2048}


def some_facts(**changes: Any) -> WorkloadFacts:
    values: dict[str, Any] = {
        "model": MODEL,
        "task": "sft",
        "tuner": "lora",
        "data": ("sample:support-chats",),
        "max_length": 2048,
        "global_batch": 4,
        "per_device_batch": 1,
    }
    return WorkloadFacts(**(values | changes))


def a_run(
    number: int = 1, *, memory: float = 1.0, slower: float = 1.0, **changes: Any
) -> MeasuredRun:
    """Return a run on four A100-80GB that measured these multiples of what is expected."""
    training = training_from(TRAIN, model_named_here(MODEL), Setting(gpus=4))
    one = estimate(training, shipped_gpus()["a100-80gb"], shipped_constants())
    values: dict[str, Any] = {
        "attempt": AttemptId(f"t.j-g1-a{number}-{number:010x}"),
        "ended_at": Instant(1000 + number),
        "outcome": "succeeded",
        "facts": some_facts(),
        "train": TRAIN,
        "asked_gpus": 4,
        "gpus": 4,
        "gpu_type": "A100-80GB",
        "processes": 4,
        "steps": 100,
        "training_s": 100 * one.speed.step_s * slower,
        "last_step": 100,
        "raw_tokens_per_s": 4 * one.speed.tokens_per_s_per_gpu / slower,
        "peak_bytes": int(memory * one.memory.allocated_gib * GIB),
    }
    return MeasuredRun(**(values | changes))
