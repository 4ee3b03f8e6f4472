"""Updates inside the backward pass: each gradient is used and freed before the next one exists.

All gradients at once cost as much memory as the weights; this way only the largest one counts
(Lv et al. 2023, "LOMO"; GaLore's per-layer updates).  The price: nothing may need two gradients
together.  Gradients can not be summed over passes or processes, nor scaled by their common norm,
so the requests that would need it are refused before anything is loaded.

Rule kept: the weights are those of the same optimizer stepped after the backward pass, bit for
bit, and a gradient that is not finite moves nothing.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from trainer.config import RequestError
from trainer.optimizers.galore import GaLoreAdamW


def check(train: Mapping[str, Any], *, accumulation: int, world_size: int) -> None:
    """Raise RequestError where gradients would have to be summed.

    The section may say 1 where the attempt, on fewer devices than asked for, accumulates.
    """
    if not train["galore_optim_per_parameter"]:
        return
    for count, words in (
        (accumulation, f"this attempt accumulates {accumulation} passes"),
        (world_size, f"this attempt has {world_size} processes"),
    ):
        if count > 1:
            raise RequestError(
                f"train.galore_optim_per_parameter: {words}, but gradients are used and freed in "
                "each backward pass and can not be summed; nearest: one device with "
                "gradient_accumulation_steps: 1, or galore_optim_per_parameter: false"
            )


class BackwardUpdates:
    """Makes an optimizer update each parameter as soon as its gradient is there.

    ``step`` of the optimizer does nothing more from then on, so that a training loop around it
    need not know.
    """

    def __init__(self, optimizer: GaLoreAdamW) -> None:
        self.optimizer = optimizer
        self._squares: list[torch.Tensor] = []
        optimizer.in_backward = self
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.requires_grad:
                    parameter.register_post_accumulate_grad_hook(partial(self._update, group))

    def _update(self, group: dict[str, Any], parameter: torch.Tensor) -> None:
        gradient = parameter.grad
        assert gradient is not None
        square = gradient.float().square().sum()
        self._squares.append(square)
        if bool(torch.isfinite(square)):
            self.optimizer.update(parameter, group)
        parameter.grad = None

    def take_norm(self) -> float:
        """Return the norm of all gradients since the last call, as clipping would report it."""
        total = torch.stack(self._squares).sum().sqrt() if self._squares else torch.zeros(())
        self._squares.clear()
        return float(total)
