"""What a task adds to the shared loop: how rows become samples, and which library trainer."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from trainer.config import Request
from trainer.tokens import Encoded

Kind = Literal["causal", "seeing", "classifier", "encoder"]
"""What a model ends in: a word (after texts, or images too), one number a text, or a vector a
token."""


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


def nothing_to_check(request: Request) -> None:
    """Find nothing wrong with a request that its rules have passed."""


def once(train: Mapping[str, Any]) -> int:  # noqa: ARG001
    """Return that a row of the dataset is one sample of the global batch."""
    return 1


def as_is(dataset: Any, train: Mapping[str, Any]) -> Any:  # noqa: ARG001
    """Return the dataset unchanged."""
    return dataset


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One row of the table of tasks."""

    encode: Callable[..., Encoded]
    """(rows, tokenizer=, train=) -> samples; each row by itself."""
    build: Callable[..., Any]
    """(materials, run=) -> the trainer, ready to train."""
    arrange: Callable[[Any, Mapping[str, Any]], Any] = as_is
    """(dataset, train) -> the dataset as the loop reads it, such as packed."""
    parse: Callable[[str, Any], Any] | None = None
    """(source, value) -> a row with its ``source``; None: conversations and pairs."""
    kind: Kind = "causal"
    converses: bool = True
    """The tokenizer must bring a chat template."""
    load: Callable[..., tuple[Any, Any]] | None = None
    """(location, train=, root=) -> model and new adapter; None: ``tuners.start`` of its kind."""
    repeats: Callable[[Mapping[str, Any]], int] = once
    """(train) -> samples of the global batch that one row of the dataset makes."""
    check: Callable[[Request], None] = nothing_to_check
    """Raises RequestError for what rules can not tell, before anything is loaded."""
    prove: Callable[..., Any] | None = None
    """(model, run) -> the isolation of packed samples; None: ``trainer.isolation`` on texts."""
    stamp: str = ""
    """Digest of what samples are made from beside data, tokenizer and settings."""


def keep_frozen_copy_out_of_files(model: Any) -> None:
    """Make ``save_pretrained`` write only the adapter that is trained.

    The library keeps a frozen copy of an adapter that training starts from, as the reference.  It
    is made again at each start; in a checkpoint it would be trained on.
    """
    if "ref" in getattr(model, "peft_config", {}):
        model.save_pretrained = partial(model.save_pretrained, selected_adapters=["default"])


def to_dataset(samples: Iterable[Mapping[str, Any]]) -> Any:
    """Return the samples as a ``datasets.Dataset``."""
    from datasets import Dataset

    return Dataset.from_list([dict(sample) for sample in samples])
