"""A frozen linear layer on GPTQ weights, in plain torch, on any device.

What the files hold for a layer of ``in`` x ``out`` (AutoGPTQ's format, which its successors
still write; b bits, 32 / b codes in each int32, lowest bits first):

    qweight  (in * b / 32, out)        codes, packed along the inputs
    qzeros   (groups, out * b / 32)    zero points, packed along the outputs; form ``gptq`` keeps
                                       them minus one, ``gptq_v2`` as they are
    scales   (groups, out)             float16
    g_idx    (in)                      group of each input; any order with act-order

The weight of input i and output o is scales[g, o] * (code[i, o] - zero[g, o]) with g = g_idx[i].

Rule kept: the decoded matrix lives for one product only, also in the backward pass, so that the
memory of a layer is that of its codes.
"""

from typing import Any

import torch
from torch import nn

BITS = (2, 4, 8)
"""Widths that fill an int32 evenly; 3 bits are packed across words, which is not read here."""
FORMS = ("gptq", "gptq_v2")


def unpack(packed: torch.Tensor, bits: int, *, axis: int) -> torch.Tensor:
    """Return the codes of int32 words, int32, ``axis`` being 32 / bits times as long."""
    shifts = torch.arange(0, 32, bits, dtype=torch.int32, device=packed.device)
    codes = (packed.unsqueeze(axis + 1) >> shifts.view(-1, *[1] * (1 - axis))) & (2**bits - 1)
    return codes.flatten(axis, axis + 1)


def pack(codes: torch.Tensor, bits: int, *, axis: int) -> torch.Tensor:
    """Return codes below 2^bits as int32 words; the inverse of ``unpack``."""
    words = codes.to(torch.int64).unflatten(axis, (-1, 32 // bits))
    shifts = torch.arange(0, 32, bits, device=codes.device).view(-1, *[1] * (1 - axis))
    whole = (words << shifts).sum(dim=axis + 1)
    return torch.where(whole >= 2**31, whole - 2**32, whole).to(torch.int32)


class _FrozenProduct(torch.autograd.Function):  # type: ignore[misc]
    """x W + b, with W decoded anew for each pass."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, bias: Any, layer: "GPTQLinear") -> torch.Tensor:
        ctx.layer, ctx.has_bias = layer, bias is not None
        product = values @ layer.decoded(values.dtype)
        return product if bias is None else product + bias.to(values.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        gradient = gradients[0]
        of_values = gradient @ ctx.layer.decoded(gradient.dtype).T
        needs_bias = ctx.has_bias and ctx.needs_input_grad[1]
        return of_values, gradient.flatten(0, -2).sum(dim=0) if needs_bias else None, None


class GPTQLinear(nn.Module):  # type: ignore[misc]
    """See the module.  Its tensors are named as in the files."""

    qweight: torch.Tensor
    qzeros: torch.Tensor
    scales: torch.Tensor
    g_idx: torch.Tensor

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        bits: int,
        group_size: int,
        form: str,
        bias: bool,
    ) -> None:
        super().__init__()
        if bits not in BITS or form not in FORMS:
            raise ValueError(f"{bits} bits in form {form} are not read: bits {BITS}, forms {FORMS}")
        per_word = 32 // bits
        if in_features % per_word or out_features % per_word:
            raise ValueError(
                f"a layer of {in_features} x {out_features} does not fill words of {per_word} codes"
            )
        self.in_features, self.out_features = in_features, out_features
        self.bits, self.form = bits, form
        size = in_features if group_size == -1 else group_size
        groups = -(-in_features // size)

        def words(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=torch.int32)

        self.register_buffer("qweight", words(in_features // per_word, out_features))
        self.register_buffer("qzeros", words(groups, out_features // per_word))
        self.register_buffer("scales", torch.zeros((groups, out_features), dtype=torch.float16))
        self.register_buffer("g_idx", torch.arange(in_features, dtype=torch.int32) // size)
        empty = torch.zeros(out_features, dtype=torch.float16)
        self.register_parameter("bias", nn.Parameter(empty, requires_grad=False) if bias else None)

    def decoded(self, dtype: torch.dtype) -> torch.Tensor:
        """Return the weights as (in, out) in ``dtype``."""
        group = self.g_idx.long()
        zeros = unpack(self.qzeros, self.bits, axis=1)
        if self.form == "gptq":
            # after the mask, as the format's first reader did: what was -1 becomes 0 again
            zeros = (zeros + 1) & (2**self.bits - 1)
        codes = unpack(self.qweight, self.bits, axis=0)
        return (codes - zeros[group]).to(dtype) * self.scales.to(dtype)[group]

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Return the layer's output."""
        result: torch.Tensor = _FrozenProduct.apply(values, self.bias, self)
        return result

    def extra_repr(self) -> str:
        """Return the sizes, as other linear layers print them."""
        sizes = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{sizes}, bits={self.bits}, form={self.form}"
