"""A checkpoint written while training goes on: from a copy made at the end of a step.

What is large, weights and optimizer states, is copied to host memory; the library's own writers
then write the copy.  What is small (random numbers, position, scheduler) is written at once.  So
the files are those of a save that training waits for, byte for byte.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import Trainer

WEIGHTS, OPTIMIZER, SCHEDULER = "model.safetensors", "optimizer.pt", "scheduler.pt"
"""The names that the library reads them by."""


class Deferring(Trainer):  # type: ignore[misc]
    """The library's writers, which can put off what is large until later, and its reader."""

    deferred: list[Callable[[], None]] | None = None
    """What is left to write, while a save that puts it off runs; None: nothing is put off."""

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        if self.deferred is None or output_dir is None:
            self._save_now(output_dir, state_dict)
        elif self.args.should_save:
            Path(output_dir).mkdir(parents=True, exist_ok=True)
            weights = copied(trained(self.model))
            self.deferred.append(lambda: self._save_now(output_dir, weights))

    def _save_now(self, output_dir: str | None, state_dict: Any) -> None:
        super()._save(output_dir, state_dict)
        if output_dir is not None and self.args.should_save:
            # a pickle that nothing here reads
            (Path(output_dir) / "training_args.bin").unlink(missing_ok=True)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        folder = Path(resume_from_checkpoint)
        if model is None and _is_renamed(folder / WEIGHTS, self.model):
            # the library would load by name, and skip in silence what the model calls otherwise
            saved = type(self.model).from_pretrained(folder, dtype=self.model.dtype)
            self.model.load_state_dict(saved.state_dict())
        else:
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if self.deferred is None:
            super()._save_optimizer_and_scheduler(output_dir)
        elif self.args.should_save:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that it should be saved with the optimizer: it is
                torch.save(self.lr_scheduler.state_dict(), Path(output_dir) / SCHEDULER)
            states = copied(self.optimizer.state_dict())
            self.deferred.append(lambda: torch.save(states, Path(output_dir) / OPTIMIZER))


def _is_renamed(file: Path, model: Any) -> bool:
    """Return whether a checkpoint has weights by other names than ``model``, as first published."""
    if not file.is_file() or hasattr(model, "peft_config"):
        return False
    with safe_open(file, framework="pt") as held:
        return not set(held.keys()) <= model.state_dict().keys()


def trained(model: Any) -> dict[str, torch.Tensor]:
    """Return what a checkpoint of ``model`` holds by name: all of it, or what is beside its base.

    Weights of an adapter's base are frozen and not saved, so they need no copy.
    """
    if hasattr(model, "peft_config"):
        return {
            name: weight.detach()
            for name, weight in model.named_parameters()
            if weight.requires_grad
        }
    weights: dict[str, torch.Tensor] = model.state_dict()
    return weights


def copied(value: Any) -> Any:
    """Return ``value`` with every tensor copied to host memory; tensors that were one stay one."""
    return _copied(value, {})


def _copied(value: Any, copies: dict[Any, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        place = (value.device, value.data_ptr(), value.shape, value.stride(), value.dtype)
        if value.numel() == 0:
            return value.detach().to("cpu", copy=True)
        if place not in copies:
            copies[place] = value.detach().to("cpu", copy=True)
        return copies[place]
    if isinstance(value, dict):
        return type(value)((name, _copied(each, copies)) for name, each in value.items())
    if type(value) in (list, tuple):
        return type(value)(_copied(each, copies) for each in value)
    if hasattr(value, "__dict__"):  # such as a projector, which holds tensors of its own
        twin = object.__new__(type(value))
        twin.__dict__.update(_copied(vars(value), copies))
        return twin
    return value
