"""Trainings with quiet defaults: a test names only what it is about."""

from dataclasses import replace
from typing import Any

from reconciler.estimating.constants import Constants
from reconciler.estimating.hardware import Gpu
from reconciler.estimating.model import Model
from reconciler.estimating.naming import gpu_named
from reconciler.estimating.training import Lengths, Task, Training
from reconciler.specs.model_catalogue import model_at, shipped_constants, shipped_gpus

TIGHT = 1e-9


def a_model(name: str = "Qwen3-8B", **changes: Any) -> Model:
    return replace(model_at(name), **changes)


def a_gpu(name: str = "A100-80GB") -> Gpu:
    return gpu_named(name, shipped_gpus())


def a_training(name: str = "Qwen3-8B", **changes: Any) -> Training:
    given: dict[str, Any] = {
        "model": a_model(name),
        "seq_len": 2048,
        "task": Task.SFT,
        "lengths": Lengths.FIXED,
    }
    return Training(**(given | changes))


def constants() -> Constants:
    return shipped_constants()
