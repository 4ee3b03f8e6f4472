"""Small matrices and models for optimizer tests, with known gradients."""

from typing import Any

import torch
from torch import nn

from trainer.keys import KEYS, default_of


def falling(rows: int, columns: int, *, power: float = 1.0, seed: int = 0) -> torch.Tensor:
    """Return a matrix whose singular values are 1, 2^-power, 3^-power, ..."""
    random = torch.Generator().manual_seed(seed)
    side = min(rows, columns)
    left = torch.linalg.qr(torch.randn((rows, side), generator=random)).Q
    right = torch.linalg.qr(torch.randn((columns, side), generator=random)).Q
    values = torch.arange(1, side + 1, dtype=torch.float32) ** -power
    return (left * values) @ right.T


class TinyModel(nn.Module):
    """An embedding, two inner layers, a norm and a head."""

    def __init__(self, width: int = 32, *, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embed_tokens = nn.Embedding(40, width)
            self.attn = nn.Linear(width, width, bias=False)
            self.mlp = nn.Linear(width, 3 * width)
            self.norm = nn.LayerNorm(3 * width)
            self.lm_head = nn.Linear(3 * width, 40, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embed_tokens(tokens)
        hidden = hidden + self.attn(hidden)
        logits: torch.Tensor = self.lm_head(self.norm(torch.relu(self.mlp(hidden))))
        return logits


def loss_of(model: nn.Module, step: int) -> torch.Tensor:
    """Return the loss of predicting from each of 64 tokens the one after it."""
    random = torch.Generator().manual_seed(step)
    tokens = torch.randint(0, 40, (64,), generator=random)
    return nn.functional.cross_entropy(model(tokens), (tokens * 7 + 3) % 40)


def train(model: nn.Module, optimizer: Any, steps: range) -> list[float]:
    """Train on the steps' batches and return the losses."""
    losses = []
    for step in steps:
        loss = loss_of(model, step)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def section(**keys: Any) -> dict[str, Any]:
    """Return a complete ``train:`` section with GaLore on ``TinyModel``'s scale."""
    filled = {name: default_of(name) for name in KEYS}
    return (
        filled
        | {
            "tuner_type": "full",
            "learning_rate": 1e-2,
            "use_galore": True,
            "galore_rank": 8,
            "galore_update_proj_gap": 3,
            "galore_queue_size": 2,
        }
        | keys
    )


def decaying(model: nn.Module) -> set[str]:
    """Return the names of the parameters with weight decay."""
    return {name for name, parameter in model.named_parameters() if parameter.dim() == 2}
