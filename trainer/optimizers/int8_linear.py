"""Linear layers that keep their weights in 8 bits and are trained all the same.

Q-GaLore (Zhang et al. 2024, sections 3.2 and 3.4) keeps no floating-point copy: a step decodes a
matrix, moves it and encodes it again, rounding up or down at random so that steps smaller than a
code are right on average.  Each block of 256 elements has one scale.  It is kept while the block
fits its 127 codes and uses more than half of them: a scale that follows the largest element
would round all others anew at each step.

Rule kept: a saved model holds ordinary weights under their ordinary names and loads anywhere;
the codes themselves, which an exact resume needs, are saved with the optimizer.
"""

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import nn

from trainer.optimizers.quantised_states import BLOCK

CODES = 127


def encode(
    values: torch.Tensor,
    scales: torch.Tensor | None = None,
    generator: torch.Generator | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return codes (int8, shaped like ``values``) and a scale per block, float32.

    ``scales`` are those in use until now.  With a ``generator`` values are rounded at random,
    without one to the nearest code.
    """
    flat = values.detach().float().flatten()
    blocks = nn.functional.pad(flat, (0, -flat.numel() % BLOCK)).view(-1, BLOCK)
    largest = blocks.abs().amax(dim=1)
    fresh = (largest / CODES).clamp(min=torch.finfo(torch.float32).tiny)
    if scales is not None:
        fits = (largest <= CODES * scales) & (2 * largest > CODES * scales)
        fresh = torch.where(fits, scales, fresh)
    scaled = blocks / fresh.unsqueeze(1)
    if generator is None:
        scaled = scaled.round_()
    else:
        noise = torch.rand(scaled.shape, generator=generator, device=scaled.device)
        scaled = scaled.add_(noise).floor_()
    codes = scaled.clamp_(-CODES, CODES).to(torch.int8)
    return codes.flatten()[: flat.numel()].view(values.shape), fresh


def decode(codes: torch.Tensor, scales: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the values of ``codes`` in ``dtype``."""
    flat = codes.flatten().float()
    blocks = nn.functional.pad(flat, (0, -flat.numel() % BLOCK)).view(-1, BLOCK)
    values = blocks.mul_(scales.unsqueeze(1)).flatten()[: flat.numel()]
    return values.view(codes.shape).to(dtype)


class _Product(torch.autograd.Function):  # type: ignore[misc]
    """x W^T + b with W decoded for the moment, in the forward and in the backward pass."""

    @staticmethod
    def forward(ctx: Any, *tensors: torch.Tensor) -> torch.Tensor:
        values, _, bias, codes, scales = tensors
        ctx.save_for_backward(values, codes, scales)
        ctx.has_bias = bias is not None
        return nn.functional.linear(values, decode(codes, scales, values.dtype), bias)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        values, codes, scales = ctx.saved_tensors
        gradient = gradients[0]
        of_values = of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            of_values = gradient @ decode(codes, scales, gradient.dtype)
        rows = gradient.flatten(0, -2)
        if ctx.needs_input_grad[1]:
            of_weight = rows.T @ values.flatten(0, -2)
        if ctx.has_bias and ctx.needs_input_grad[2]:
            of_bias = rows.sum(dim=0)
        return of_values, of_weight, of_bias, None, None


class Int8Linear(nn.Linear):  # type: ignore[misc]
    """A linear layer whose ``weight`` has a shape, a type and a gradient, but no memory.

    The parameter is one zero seen at every place; its values are in ``codes`` and ``scales``.
    """

    codes: torch.Tensor
    scales: torch.Tensor

    def __init__(self, linear: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        weight = nn.Parameter(_shape_only(linear.weight), linear.weight.requires_grad)
        self.register_parameter("weight", weight)
        self.register_parameter("bias", linear.bias)
        codes, scales = encode(linear.weight)
        self.register_buffer("codes", codes, persistent=False)
        self.register_buffer("scales", scales, persistent=False)

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002  (torch's name)
        """Return the layer's output."""
        result: torch.Tensor = _Product.apply(
            input, self.weight, self.bias, self.codes, self.scales
        )
        return result

    @property
    def values(self) -> torch.Tensor:
        """The weights, decoded."""
        return decode(self.codes, self.scales, self.weight.dtype)

    def change(
        self,
        by: Callable[[torch.Tensor], torch.Tensor],
        generator: torch.Generator | None,
    ) -> None:
        """Replace the weights by ``by`` of them, rounded at random where there is a generator."""
        with torch.no_grad():
            wanted = by(decode(self.codes, self.scales, torch.float32))
            codes, scales = encode(wanted, self.scales, generator)
            self.codes.copy_(codes)
            self.scales.copy_(scales)

    def _apply(self, fn: Any, recurse: bool = True) -> "Int8Linear":
        # torch's own would give the weight memory for each of its places, and scales another type
        weight, scales = self._parameters.pop("weight"), self._buffers.pop("scales")
        super()._apply(fn, recurse)
        weight.data = fn(weight.data[:1, :1].clone()).expand(weight.shape)
        # in their old order: an optimizer knows parameters by their place
        self._parameters["weight"], self._parameters["bias"] = weight, self._parameters.pop("bias")
        self._buffers["scales"] = scales.to(self.codes.device)
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}weight"] = self.values

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        weight = state_dict.get(f"{prefix}weight")
        if weight is not None:
            codes, scales = encode(weight)
            self.codes.copy_(codes)
            self.scales.copy_(scales)
            # torch's own part then finds the parameter as it is, and has nothing to write
            state_dict = {**state_dict, f"{prefix}weight": self.weight}
        super()._load_from_state_dict(state_dict, prefix, *args)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Int8Linear":
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        nn.Module.__init__(copied)
        copied.in_features, copied.out_features = self.in_features, self.out_features
        weight = nn.Parameter(_shape_only(self.weight), self.weight.requires_grad)
        copied.register_parameter("weight", weight)
        copied.register_parameter("bias", deepcopy(self.bias, memo))
        copied.register_buffer("codes", self.codes.clone(), persistent=False)
        copied.register_buffer("scales", self.scales.clone(), persistent=False)
        copied.train(self.training)
        return copied


def _shape_only(weight: torch.Tensor) -> torch.Tensor:
    return weight.data.new_zeros((1, 1)).expand(weight.shape)


def to_int8(model: nn.Module, names: Iterable[str]) -> Mapping[str, Int8Linear]:
    """Replace these linear layers of a model, and return the new ones by name."""
    made: dict[str, Int8Linear] = {}
    for name in names:
        parent, _, last = name.rpartition(".")
        layer = model.get_submodule(name)
        if not isinstance(layer, nn.Linear):
            raise TypeError(f"{name} is not a linear layer")
        made[name] = Int8Linear(layer)
        setattr(model.get_submodule(parent), last, made[name])
    return made
