"""What a task adds to the shared loop: how rows become samples, and which library trainer."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trainer.tokens import Encoded


@dataclass(frozen=True, slots=True, kw_only=True)
class Materials:
    """All that a recipe's trainer is built from."""

    model: Any
    tokenizer: Any
    dataset: Any
    eval_dataset: Any
    arguments: Mapping[str, Any]
    train: Mapping[str, Any]
    callbacks: list[Any]
    adapter: Any = None
    """Configuration of a new adapter; None: the model is trained as it is, or brings one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One row of the table of tasks."""

    encode: Callable[..., Encoded]
    """(rows, tokenizer=, train=) -> samples."""
    arrange: Callable[[Any, Mapping[str, Any]], Any]
    """(dataset, train) -> the dataset as the loop reads it, such as packed."""
    build: Callable[..., Any]
    """(materials, run=) -> the trainer, ready to train."""


def as_is(dataset: Any, train: Mapping[str, Any]) -> Any:  # noqa: ARG001
    """Return the dataset unchanged."""
    return dataset


def to_dataset(samples: Iterable[Mapping[str, list[int]]]) -> Any:
    """Return the samples as a ``datasets.Dataset``."""
    from datasets import Dataset

    return Dataset.from_list([dict(sample) for sample in samples])
