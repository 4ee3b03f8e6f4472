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
    """Raise RequestError where the rank exceeds a side of a matrix that would be projected, or
    where most weights are no matrices, as in a mixture of experts.

    ``model`` may be on the meta device, so that nothing needs to be loaded for a refusal.
    """
    layers = projected_layers(model, train["galore_target_modules"])
    projected = sum(layer.weight.numel() for layer in layers.values())
    stacked = sum(weight.numel() for weight in model.parameters() if weight.dim() > 2)
    if train["galore_target_modules"] is None and stacked > projected:
        share = 100 * stacked / (stacked + projected)
        raise RequestError(
            f"train.use_galore: {share:.0f} % of this model's inner weights are stacks of matrices "
            "(experts), which keep full states, so little would be saved; nearest: a dense model, "
            "optim: adamw_8bit, or galore_target_modules with the layers you mean"
        )
    sides = {name: min(layer.weight.shape) for name, layer in layers.items()}
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
