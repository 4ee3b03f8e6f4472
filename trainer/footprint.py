"""What a training holds in memory, part by part, and how much arithmetic its tokens are.

Memory is counted for this process: tensors by their size, the peak by the device's allocator, or
on a CPU by the operating system.  Arithmetic is the model's own (Chowdhery et al. 2022, appendix
B): what the forward and backward passes need, without recomputation, so that a share of the
device's peak (MFU) can be compared between settings.
"""

import resource
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

PEAK_FLOPS: Mapping[str, float] = MappingProxyType(
    {
        "V100": 125e12,
        "T4": 65e12,
        "A10": 125e12,
        "A100": 312e12,
        "A800": 312e12,
        "L4": 121e12,
        "L40": 181e12,
        "L40S": 362e12,
        "H100": 989e12,
        "H800": 989e12,
        "H20": 148e12,
        "H200": 989e12,
        "B200": 2250e12,
    }
)
"""Part of a device's name: dense 16-bit operations a second, from the makers' data sheets."""


def parts(model: Any, optimizer: Any) -> dict[str, int]:
    """Return the bytes of weights, gradients and optimizer states that this process holds."""
    weights = list(model.parameters()) + list(model.buffers())
    inner = getattr(optimizer, "optimizer", optimizer)
    states = [value for state in inner.state.values() for value in _tensors(state)]
    return {
        "weights_bytes": _held(weights),
        # freed between two steps, so they are counted by what they will be
        "gradients_bytes": _held(each for each in model.parameters() if each.requires_grad),
        "optimizer_bytes": _held(states),
    }


def _tensors(value: Any) -> Iterable[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _tensors(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)


def _held(tensors: Iterable[torch.Tensor]) -> int:
    total = 0
    seen: set[int] = set()
    for tensor in tensors:
        local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        if id(tensor) not in seen:
            seen.add(id(tensor))
            total += local.numel() * local.element_size()
    return total


def peak_bytes() -> int:
    """Return the most memory this process has held: on its GPU, else of the whole process."""
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """The model's own operations, counted once."""

    weights: float
    """Weights that each token is multiplied with."""
    attention_width: float
    """Layers x heads x their size."""
    passes: int
    """3: forward, backward for the inputs, backward for the weights; 2 where these are frozen."""

    def per_token(self, length: float) -> float:
        """Return operations per token of samples of ``length``; each sees half of its sample."""
        return (2 * self.weights + 2 * self.attention_width * length) * self.passes


def arithmetic(model: Any, *, trains_all: bool) -> Arithmetic:
    """Return what a forward and backward pass of this model take."""
    config = model.config.get_text_config()
    routed = getattr(config, "num_experts_per_tok", None) or 1
    experts = getattr(config, "num_experts", None) or getattr(config, "num_local_experts", 0) or 1
    weights = 0.0
    for name, parameter in model.named_parameters():
        if parameter.dim() < 2 or _is_lookup(name, model) or ".lora_" in name:
            continue
        count = float(_whole_size(parameter))
        is_expert = parameter.dim() == 3 or ".experts." in name
        weights += count * routed / experts if is_expert else count
    heads = getattr(config, "num_attention_heads", 0)
    size = getattr(config, "head_dim", None) or getattr(config, "hidden_size", 0) // max(heads, 1)
    return Arithmetic(
        weights=weights,
        attention_width=float(getattr(config, "num_hidden_layers", 0) * heads * size),
        passes=3 if trains_all else 2,
    )


def _is_lookup(name: str, model: Any) -> bool:
    tied = bool(getattr(model.config.get_text_config(), "tie_word_embeddings", False))
    return "embed" in name and not tied


def _whole_size(parameter: Any) -> int:
    packed = getattr(parameter, "quant_state", None)  # two 4-bit weights share a byte
    return int(torch.Size(packed.shape).numel()) if packed is not None else int(parameter.numel())


def peak_flops() -> float | None:
    """Return the device's peak in 16-bit operations a second; None where it is not known."""
    if not torch.cuda.is_available():
        return None
    words = torch.cuda.get_device_name().replace("-", " ").split()
    return next((PEAK_FLOPS[word] for word in words if word in PEAK_FLOPS), None)
