"""Optimizer states in few bits: 8-bit moments and 4-bit projections, as plain tensors.

Moments use the dynamic codebook of Dettmers et al. 2022 ("8-bit Optimizers via Block-wise
Quantization", section 2): seven decades below the largest value of each block, with more codes
in the higher ones.  Of the second moment the square root is kept, and its lowest code reads as
half the next one, never as zero: a rounded-away second moment below a first moment that was not
would make the quotient of the two explode.

Projections use 16 even steps between the least and the greatest value of each block.  Every
state is a tensor or a number, so that ``torch.load(weights_only=True)`` reads it.
"""

import functools
from collections.abc import MutableMapping
from typing import Any

import torch

BLOCK = 256
"""Elements that share one scale."""
LEAST_ELEMENTS = 4096
"""Smaller tensors stay in floating point: their bytes do not matter, their precision may."""
DECADES = 7


@functools.cache
def codebook(*, signed: bool) -> torch.Tensor:
    """Return the 256 values in [-1, 1] or [0, 1] that codes stand for, ascending, float32.

    The decade from 10^(i-7) to 10^(i-6) has 2^i values of each sign (2^(i+1) without signs),
    halfway between even boundaries; 0 and 1 are added.
    """
    values = [0.0, 1.0]
    for decade in range(DECADES):
        count = 2**decade if signed else 2 ** (decade + 1)
        edges = torch.linspace(0.1, 1.0, count + 1, dtype=torch.float64)
        middles = (edges[:-1] + edges[1:]) / 2 * 10.0 ** (decade - DECADES + 1)
        values += middles.tolist()
        if signed:
            values += (-middles).tolist()
    return torch.tensor(sorted(values), dtype=torch.float32)


@functools.cache
def _tables(signed: bool, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    values = codebook(signed=signed)
    return values.to(device), ((values[1:] + values[:-1]) / 2).to(device)


def encode_8bit(values: torch.Tensor, *, signed: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return codes (uint8, flat, a whole number of blocks) and the largest magnitude per block."""
    blocks = _blocks(values)
    largest = blocks.abs().amax(dim=1)
    _, boundaries = _tables(signed, values.device)
    scaled = blocks / largest.clamp(min=torch.finfo(torch.float32).tiny).unsqueeze(1)
    return torch.bucketize(scaled, boundaries, out_int32=True).to(torch.uint8).flatten(), largest


def decode_8bit(
    codes: torch.Tensor, largest: torch.Tensor, shape: torch.Size, *, signed: bool
) -> torch.Tensor:
    """Return the values, float32 of ``shape``."""
    values, _ = _tables(signed, codes.device)
    blocks = values[codes.int()].view(-1, BLOCK) * largest.unsqueeze(1)
    return _cut(blocks, shape)


def encode_4bit(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return codes, two to a byte, and per block its least value and its step, (blocks, 2)."""
    blocks = _blocks(values)
    least, greatest = blocks.amin(dim=1), blocks.amax(dim=1)
    step = ((greatest - least) / 15).clamp(min=torch.finfo(torch.float32).tiny)
    codes = ((blocks - least.unsqueeze(1)) / step.unsqueeze(1)).round().to(torch.uint8).flatten()
    return codes[0::2] | (codes[1::2] << 4), torch.stack((least, step), dim=1)


def decode_4bit(packed: torch.Tensor, ranges: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Return the values, float32 of ``shape``."""
    codes = torch.stack((packed & 15, packed >> 4), dim=1).view(-1, BLOCK)
    return _cut(codes.float() * ranges[:, 1:] + ranges[:, :1], shape)


def _blocks(values: torch.Tensor) -> torch.Tensor:
    flat = values.detach().float().flatten()
    missing = -flat.numel() % BLOCK
    return torch.nn.functional.pad(flat, (0, missing)).view(-1, BLOCK)


def _cut(blocks: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    return blocks.flatten()[: shape.numel()].view(shape)


class PlainMoments:
    """Both moments of Adam as they are, in the type of the weights."""

    def read(
        self, state: MutableMapping[str, Any], like: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return first and second moment, shaped like ``like``; zeros before the first step."""
        if "exp_avg" not in state:
            return torch.zeros_like(like), torch.zeros_like(like)
        return state["exp_avg"], state["exp_avg_sq"]

    def write(
        self, state: MutableMapping[str, Any], first: torch.Tensor, second: torch.Tensor
    ) -> None:
        """Keep both moments in ``state``."""
        state["exp_avg"], state["exp_avg_sq"] = first, second


class EightBitMoments(PlainMoments):
    """Both moments in 8 bits and a scale per block; small ones in floating point."""

    def read(
        self, state: MutableMapping[str, Any], like: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return both moments decoded to float32."""
        if "exp_avg_codes" not in state:
            return super().read(state, like.float())
        first = decode_8bit(
            state["exp_avg_codes"], state["exp_avg_largest"], like.shape, signed=True
        )
        root = decode_8bit(state["root_codes"], state["root_largest"], like.shape, signed=False)
        floor = codebook(signed=False)[1] / 2
        largest = state["root_largest"].repeat_interleave(BLOCK)
        root = torch.maximum(root, _cut(largest * floor, like.shape))
        return first, root.square_()

    def write(
        self, state: MutableMapping[str, Any], first: torch.Tensor, second: torch.Tensor
    ) -> None:
        """Keep both moments in ``state``, encoded where they are large enough."""
        if first.numel() < LEAST_ELEMENTS:
            super().write(state, first, second)
            return
        state["exp_avg_codes"], state["exp_avg_largest"] = encode_8bit(first, signed=True)
        state["root_codes"], state["root_largest"] = encode_8bit(second.sqrt(), signed=False)
