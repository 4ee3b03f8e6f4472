"""Which weights are projected, which decay, and what a model must have for either.

Projected are the matrices of linear layers; embeddings, output heads, norms and biases keep the
full states of AdamW.  ``galore_target_modules`` narrows that to layers whose name contains one
of the texts, as in ms-swift.
"""

from collections.abc import Collection, Mapping
from typing import Any

from torch import nn

from trainer.config import RequestError

HEADS = frozenset({"lm_head", "score", "classifier", "v_head", "embed_out"})
"""Last parts of the names of output layers, for models that do not tell theirs."""


def projected_layers(model: Any, targets: Collection[str] | None) -> dict[str, nn.Linear]:
    """Return the linear layers to project by name.

    Raises RequestError where there are none, or a target names none.
    """
    layers = dict(_inner_layers(model))
    if targets is not None:
        for target in targets:
            if not any(target in name for name in layers):
                raise RequestError(
                    f"train.galore_target_modules: no linear layer has {target!r} in its name; "
                    f"there are: {', '.join(_kinds(layers))}"
                )
        layers = {
            name: layer
            for name, layer in layers.items()
            if any(target in name for target in targets)
        }
    if not layers:
        raise RequestError("train.use_galore: this model has no linear layers to project")
    return layers


def _inner_layers(model: Any) -> Any:
    find_head = getattr(model, "get_output_embeddings", None)
    head = find_head() if find_head is not None else None
    for name, module in model.named_modules():
        is_head = module is head or name.rpartition(".")[2] in HEADS
        if isinstance(module, nn.Linear) and not is_head:
            yield name, module


def _kinds(layers: Collection[str]) -> list[str]:
    return sorted({name.rpartition(".")[2] for name in layers})


def check(model: Any, train: Mapping[str, Any]) -> None:
    """Raise RequestError where the rank exceeds a side of a matrix that would be projected.

    ``model`` may be on the meta device, so that nothing needs to be loaded for a refusal.
    """
    sides = {
        name: min(layer.weight.shape)
        for name, layer in projected_layers(model, train["galore_target_modules"]).items()
    }
    smallest = min(sides, key=lambda name: (sides[name], name))
    if train["galore_rank"] > sides[smallest]:
        raise RequestError(
            f"train.galore_rank: {train['galore_rank']} is above the smaller side of {smallest}, "
            f"{sides[smallest]}, where there is nothing left to project; nearest: "
            f"galore_rank: {max(sides[smallest] // 2, 1)}, or galore_target_modules without it"
        )


def parameter_groups(
    model: Any, train: Mapping[str, Any], *, decaying: Collection[str]
) -> list[dict[str, Any]]:
    """Return torch's parameter groups: projected matrices, other decaying weights, the rest.

    ``decaying`` are the names of parameters with weight decay.
    """
    layers = projected_layers(model, train["galore_target_modules"])
    matrices = {f"{name}.weight" for name in layers}
    groups: dict[tuple[bool, bool], list[Any]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            kind = (name in matrices, name in decaying)
            groups.setdefault(kind, []).append(parameter)
    return [
        {
            "params": parameters,
            "weight_decay": train["weight_decay"] if decays else 0.0,
            **(_projection(train) if projects else {}),
        }
        for (projects, decays), parameters in sorted(groups.items(), key=lambda item: item[0])
    ]


def _projection(train: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "rank": train["galore_rank"],
        "update_gap": train["galore_update_proj_gap"],
        "scale": train["galore_scale"],
        "overlap_threshold": train["galore_cos_threshold"],
        "gap_growth": train["galore_gamma_proj"],
        "overlaps_kept": train["galore_queue_size"],
    }
