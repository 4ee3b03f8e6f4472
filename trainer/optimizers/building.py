"""From a ``train:`` section to an optimizer.

Rule kept: the optimizer is the one that was asked for or none; what can not work is refused before
weights are loaded, as far as the shapes of the model tell.
"""

from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Any

import torch

from trainer.config import Request
from trainer.optimizers import grouping, layerwise
from trainer.optimizers.galore import GaLoreAdamW
from trainer.optimizers.int8_linear import Int8Linear, to_int8
from trainer.optimizers.q_galore import QGaLoreAdamW
from trainer.optimizers.table import OPTIMIZERS, name_of


def check(location: str, request: Request) -> None:
    """Raise RequestError where the model does not suit, before any weights are loaded."""
    train = request.train
    if train["use_galore"]:
        model = _without_weights(location, train)
        if model is not None:
            grouping.check(model, train)


def _without_weights(location: str, train: Mapping[str, Any]) -> Any:
    """Return the model's layers on the meta device; None where its kind is built otherwise."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(
        location, revision=train["model_revision"], trust_remote_code=False
    )
    try:
        with torch.device("meta"):
            return AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    except ValueError:  # no language model; prepare_model checks the loaded one
        return None


def prepare_model(model: Any, train: Mapping[str, Any]) -> None:
    """Give the model the form its optimizer works on: 8-bit layers for Q-GaLore."""
    if train["use_galore"]:
        grouping.check(model, train)
    if train["galore_quantization"]:
        to_int8(model, grouping.projected_layers(model, train["galore_target_modules"]))


def build(
    model: Any, train: Mapping[str, Any], *, decaying: Collection[str], seed: int
) -> torch.optim.Optimizer | None:
    """Return the optimizer of a complete section; None where the library makes it."""
    row = OPTIMIZERS[name_of(train)]
    if row.builder is None:
        return None
    module, _, function = row.builder.partition(":")
    made: torch.optim.Optimizer = getattr(import_module(module), function)(
        model, train, decaying=decaying, seed=seed
    )
    if train["galore_optim_per_parameter"]:
        layerwise.BackwardUpdates(made)
    return made


def norm_in_backward(optimizer: Any) -> float | None:
    """Return the norm of this step's gradients where the backward pass has used them up."""
    inner = getattr(optimizer, "optimizer", optimizer)  # accelerate wraps it
    updates = getattr(inner, "in_backward", None)
    return None if updates is None else float(updates.take_norm())


def galore(
    model: Any, train: Mapping[str, Any], *, decaying: Collection[str], seed: int
) -> GaLoreAdamW:
    """Return GaLore, with 8-bit moments where ``optim`` says so."""
    return GaLoreAdamW(
        grouping.parameter_groups(model, train, decaying=decaying),
        bits=8 if train["optim"] == "adamw_8bit" else 32,
        **_adam(train, seed),
    )


def q_galore(
    model: Any, train: Mapping[str, Any], *, decaying: Collection[str], seed: int
) -> QGaLoreAdamW:
    """Return Q-GaLore on a model that ``prepare_model`` has seen."""
    layers = {
        name: module for name, module in model.named_modules() if isinstance(module, Int8Linear)
    }
    return QGaLoreAdamW(
        grouping.parameter_groups(model, train, decaying=decaying),
        layers=layers,
        **_adam(train, seed),
    )


def lora_plus(
    model: Any,
    train: Mapping[str, Any],
    *,
    decaying: Collection[str],
    seed: int,  # noqa: ARG001  (draws no random numbers)
) -> torch.optim.Optimizer:
    """Return AdamW whose rate for matrices that start at zero is higher (Hayou et al. 2024)."""
    groups: dict[tuple[bool, bool], list[Any]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            is_second = ".lora_B." in name or ".lora_embedding_B." in name
            groups.setdefault((is_second, name in decaying), []).append(parameter)
    rate = train["learning_rate"]
    return torch.optim.AdamW(
        [
            {
                "params": parameters,
                "lr": rate * train["lorap_lr_ratio"] if is_second else rate,
                "weight_decay": train["weight_decay"] if decays else 0.0,
            }
            for (is_second, decays), parameters in sorted(groups.items(), key=lambda item: item[0])
        ],
        betas=(train["adam_beta1"], train["adam_beta2"]),
        eps=train["adam_epsilon"],
    )


def _adam(train: Mapping[str, Any], seed: int) -> dict[str, Any]:
    return {
        "lr": train["learning_rate"],
        "betas": (train["adam_beta1"], train["adam_beta2"]),
        "eps": train["adam_epsilon"],
        "weight_decay": train["weight_decay"],
        "seed": seed,
    }
