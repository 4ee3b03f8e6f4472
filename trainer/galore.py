"""GaLore: what must hold before it trains, and what a resume needs.

GaLore keeps the optimizer states of a weight matrix in a projection of rank r; with r above the
matrix's smaller side there is nothing to project.
"""

from collections.abc import Mapping
from typing import Any

from trainer.config import RequestError

TARGETS = ("attn", "mlp")
"""Parts of module names whose matrices are projected; embeddings and head keep full states."""


def check(model: Any, train: Mapping[str, Any]) -> None:
    """Raise RequestError where the rank exceeds a side of a matrix that would be projected."""
    import torch

    sides = {
        name: min(module.weight.shape)
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and any(part in name for part in TARGETS)
    }
    if not sides:
        raise RequestError("train.use_galore: this model has no attention or MLP matrices")
    smallest = min(sides, key=lambda name: (sides[name], name))
    if train["galore_rank"] > sides[smallest]:
        raise RequestError(
            f"train.galore_rank: {train['galore_rank']} is above the smaller side of {smallest}, "
            f"{sides[smallest]}; nearest: galore_rank: {max(sides[smallest] // 2, 1)}"
        )


def allow_resume() -> None:
    """Let torch read the projectors in a saved optimizer, which it would refuse as unknown."""
    import torch
    from galore_torch.galore_projector import GaLoreProjector

    torch.serialization.add_safe_globals([GaLoreProjector])
