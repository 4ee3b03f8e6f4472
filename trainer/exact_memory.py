"""``python -m trainer.exact_memory FILE``: the memory of a training step, traced, not estimated.

FILE is JSON: ``config`` (a parsed config.json), ``dtype``, ``attn_impl``, ``seq_len``,
``micro_batch``, ``gradient_checkpointing``, ``lora`` (``{rank, targets, dropout}`` or null),
``shards`` (FSDP2 ranks, 1: none) and ``layers`` (two depths to trace; the real depth is
extrapolated from them, each phase by itself).  Prints one JSON object: peak bytes of the
forward pass, the backward pass and the optimizer step, and the states.

The real model class runs two steps under ``FakeTensorMode`` with torch's ``MemTracker``: shapes
and lifetimes are real, no memory is taken.  What it cannot see: the device allocator's rounding
and caching, contexts, communicators, and kernels that exist on GPUs only (bitsandbytes,
flash-attn, Triton).
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

PHASES = ("forward", "backward", "step")
DEFAULTS: Mapping[str, Any] = {
    "dtype": "float32",
    "attn_impl": "sdpa",
    "micro_batch": 1,
    "gradient_checkpointing": False,
    "lora": None,
    "shards": 1,
    "layers": None,
}


class PhaseTracker(MemTracker):  # type: ignore[misc]
    """MemTracker that tolerates frozen parameters and tells the peak of each phase apart."""

    def _track_module_params_and_buffers(
        self, module: nn.Module, install_grad_hooks: bool = True
    ) -> tuple[int, int]:
        frozen = [each for each in module.parameters() if not each.requires_grad]
        for each in frozen:  # the base class puts a gradient hook on every parameter
            self._param_to_grad_hook_handles.setdefault(each, _NO_HOOKS)
        found: tuple[int, int] = super()._track_module_params_and_buffers(
            module, install_grad_hooks
        )
        return found

    def phase_peak(self) -> int:
        """Return the peak bytes since the last call, and start anew."""
        now = self.get_tracker_snapshot("current")
        peak = max((one["Total"] for one in self.get_tracker_snapshot("peak").values()), default=0)
        self._peak_mem_snap = now
        self._peak_mem = {device: one["Total"] for device, one in now.items()}
        return int(peak)


class _NoHook:
    def remove(self) -> None:
        """Stand in for the handle of a hook that was never placed."""


_NO_HOOKS = (_NoHook(), _NoHook())


class LowRank(nn.Module):  # type: ignore[misc]
    """LoRA as peft computes it: a 32-bit adapter beside a frozen matrix.

    peft's own wrapper cannot be built under FakeTensorMode.
    """

    def __init__(self, base: nn.Linear, rank: int, dropout: float) -> None:
        super().__init__()
        self.base = base
        self.lora_a = nn.Linear(base.in_features, rank, bias=False, dtype=torch.float32)
        self.lora_b = nn.Linear(rank, base.out_features, bias=False, dtype=torch.float32)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the base's output plus the adapter's, in the base's type."""
        out: torch.Tensor = self.base(hidden)
        wide = self.dropout(hidden.to(torch.float32))
        return out + self.lora_b(self.lora_a(wide)).to(out.dtype)


def add_adapter(model: nn.Module, rank: int, targets: list[str], dropout: float) -> None:
    """Freeze ``model`` and put an adapter on each targeted matrix of its layers."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    everything = "all-linear" in targets
    for name, module in list(model.named_modules()):
        for child, linear in list(module.named_children()):
            if not isinstance(linear, nn.Linear) or child == "lm_head":
                continue
            if everything or child in targets:
                setattr(module, child, LowRank(linear, rank, dropout))
        del name


def build(request: Mapping[str, Any], layers: int) -> nn.Module:
    """Return the model with ``layers`` layers, adapters and checkpointing, ready to train."""
    from transformers import AutoConfig, AutoModelForCausalLM

    shape = {key: value for key, value in request["config"].items() if key != "torch_dtype"}
    shape["num_hidden_layers"] = layers
    shape.pop("layer_types", None)
    config = AutoConfig.for_model(shape.pop("model_type"), **shape)
    model: nn.Module = AutoModelForCausalLM.from_config(
        config,
        dtype=getattr(torch, request["dtype"]),
        attn_implementation=request["attn_impl"],
    )
    model.config.use_cache = False
    lora = request["lora"]
    if lora is not None:
        add_adapter(model, lora["rank"], list(lora["targets"]), lora.get("dropout", 0.0))
    if request["gradient_checkpointing"]:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model.train()


def trace(request: Mapping[str, Any], layers: int) -> dict[str, int]:
    """Return peak bytes of each phase of the second step, and bytes of the states."""
    with _ranks(request["shards"]) as mesh, FakeTensorMode():
        model = build(request, layers)
        if mesh is not None:
            _shard(model, mesh)
        trained = [each for each in model.parameters() if each.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=1e-4, foreach=False)
        tokens = torch.zeros(request["micro_batch"], request["seq_len"], dtype=torch.long)
        tracker = PhaseTracker()
        tracker.track_external(model, optimizer, tokens)
        with tracker:
            for _ in range(2):  # the first step makes the optimizer's states
                tracker.reset_mod_stats()
                tracker.phase_peak()
                loss = model(input_ids=tokens, labels=tokens).loss
                forward = tracker.phase_peak()
                loss.backward()
                backward = tracker.phase_peak()
                optimizer.step()
                step = tracker.phase_peak()
                optimizer.zero_grad(set_to_none=True)
                del loss
        states = _bytes(optimizer.state.values())
        parameters = sum(_local(each) for each in model.parameters())
    return {
        "forward": forward,
        "backward": backward,
        "step": step,
        "parameters": parameters,
        "optimizer": states,
    }


def _bytes(states: Any) -> int:
    """Return the bytes of an optimizer's states; step counters are too small to matter."""
    return sum(
        _local(value)
        for state in states
        for value in state.values()
        if isinstance(value, torch.Tensor) and value.numel() > 1
    )


def _local(tensor: torch.Tensor) -> int:
    """Return the bytes of a tensor on this rank."""
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return int(local.numel() * local.element_size())


@contextmanager
def _ranks(shards: int) -> Iterator[Any]:
    """Yield a mesh over ranks that do not exist, None for one; they are gone afterwards.

    Made outside FakeTensorMode, which the mesh reads.
    """
    if shards == 1:
        yield None
        return
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=shards)
    try:
        yield init_device_mesh("cpu", (shards,))
    finally:
        dist.destroy_process_group()


def _shard(model: nn.Module, mesh: Any) -> None:
    """Shard ``model`` over the mesh, layer by layer (FSDP2)."""
    from torch.distributed.fsdp import fully_shard

    for layer in model.get_submodule("model.layers").children():
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


def extrapolate(few: Mapping[str, int], more: Mapping[str, int], request: Any) -> dict[str, int]:
    """Return the figures at the real depth from those at two depths, each by itself."""
    low, high = request["layers"]
    depth = request["config"]["num_hidden_layers"]
    return {
        name: round(few[name] + (more[name] - few[name]) / (high - low) * (depth - low))
        for name in few
    }


def measure(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the traced figures with their peak.  Raises ``ValueError`` on an unusable request."""
    given = {**DEFAULTS, **request}
    missing = [key for key in ("config", "seq_len") if key not in given]
    if missing:
        raise ValueError(f"the request has no {', '.join(missing)}")
    depth = given["config"]["num_hidden_layers"]
    if given["layers"] is None and depth > 8:
        given["layers"] = (2, 4)
    if given["layers"] is None:
        found = trace(given, depth)
    else:
        low, high = given["layers"]
        found = extrapolate(trace(given, low), trace(given, high), given)
    return {
        **found,
        "peak": max(found[phase] for phase in PHASES),
        "traced_layers": given["layers"],
    }


def main(argv: list[str] | None = None) -> int:
    """Trace the request in a file and print the figures; 1 with a message where it cannot."""
    parser = argparse.ArgumentParser(prog="python -m trainer.exact_memory", description=__doc__)
    parser.add_argument("file", type=Path, help="the request, as JSON")
    options = parser.parse_args(argv)
    try:
        figures = measure(json.loads(options.file.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.stderr.write(f"{options.file}: {error}\n")
        return 1
    sys.stdout.write(json.dumps(figures) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
