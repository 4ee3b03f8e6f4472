"""Writes small models in GPTQ's format on disk, as AutoGPTQ and its successors do.

The weights are rounded to the nearest code; GPTQ's own search for better ones changes the codes,
not the format, and tests of a reader do not need it.
"""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from trainer.quantised.gptq_linear import pack


def layer_tensors(
    weight: torch.Tensor,
    *,
    bits: int = 4,
    group_size: int = 32,
    act_order: bool = False,
    form: str = "gptq",
    symmetric: bool = False,
    seed: int = 0,
) -> dict[str, torch.Tensor]:
    """Return qweight, qzeros, scales and g_idx of a weight of (out, in)."""
    outputs, inputs = weight.shape
    size = inputs if group_size == -1 else group_size
    top = 2**bits - 1
    order = torch.arange(inputs)
    if act_order:  # the inputs that matter most share groups, wherever they stand
        order = torch.randperm(inputs, generator=torch.Generator().manual_seed(seed))
    g_idx = torch.empty(inputs, dtype=torch.int32)
    g_idx[order] = (torch.arange(inputs) // size).to(torch.int32)
    groups = int(g_idx.max()) + 1
    scales = torch.empty(groups, outputs)
    zeros = torch.empty(groups, outputs, dtype=torch.int64)
    for group in range(groups):
        part = weight[:, g_idx == group]
        if symmetric:
            scales[group] = part.abs().amax(dim=1) * 2 / top
            zeros[group] = (top + 1) // 2
        else:
            low, high = part.amin(dim=1).clamp(max=0), part.amax(dim=1).clamp(min=0)
            scales[group] = (high - low) / top
            zeros[group] = (-low / scales[group]).round().clamp(1, top)
    scales = scales.half()
    rows = g_idx.long()
    codes = (weight.T / scales.float()[rows] + zeros[rows]).round().clamp(0, top).long()
    stored = zeros - 1 if form == "gptq" else zeros
    return {
        "qweight": pack(codes, bits, axis=0),
        "qzeros": pack(stored, bits, axis=1),
        "scales": scales,
        "g_idx": g_idx,
    }


def write_model(
    source: Path,
    folder: Path,
    *,
    bits: int = 4,
    group_size: int = 32,
    act_order: bool = False,
    form: str = "gptq",
    old_config: bool = False,
) -> Path:
    """Write the model of ``source`` with its inner linear layers in GPTQ's format."""
    shutil.copytree(source, folder)
    tensors = load_file(folder / "model.safetensors")
    written: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        if name.endswith("_proj.weight"):
            layer = layer_tensors(
                tensor, bits=bits, group_size=group_size, act_order=act_order, form=form
            )
            prefix = name.removesuffix("weight")
            written |= {f"{prefix}{key}": value for key, value in layer.items()}
        else:
            written[name] = tensor.half()
    save_file(written, folder / "model.safetensors", metadata={"format": "pt"})
    settings = {
        "bits": bits,
        "group_size": group_size,
        "damp_percent": 0.01,
        "desc_act": act_order,
        "sym": False,
        "quant_method": "gptq",
        "checkpoint_format": form,
    }
    config = json.loads((folder / "config.json").read_text())
    config["dtype"] = "float16"
    if old_config:
        del settings["quant_method"]
        (folder / "quantize_config.json").write_text(json.dumps(settings))
    else:
        config["quantization_config"] = settings
    (folder / "config.json").write_text(json.dumps(config))
    return folder
