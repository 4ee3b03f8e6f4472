"""Updates inside the backward pass: each gradient is used and freed before the next one exists.

All gradients at once cost as much memory as the weights; this way only the largest one counts
(Lv et al. 2023, "LOMO"; GaLore's per-layer updates).  The price: nothing may need two gradients
together.  Gradients can not be summed over passes or processes, nor scaled by their common norm,
so ``trainer.optimizers.table`` refuses the attempts that would need it.

Rule kept: the weights are those of the same optimizer stepped after the backward pass, bit for
bit, and a gradient that is not finite moves nothing.
"""

from functools import partial
from typing import Any

import torch

from trainer.optimizers.galore import GaLoreAdamW


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
