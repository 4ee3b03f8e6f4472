"""From a layout to what accelerate and transformers run, and proof that they do.

Rule kept: what runs is what was asked for.  accelerate falls back to plain data parallelism in
silence (FSDP on CPUs, for one), so the kind it has chosen is compared when it has started, and what
it has made of the model before the first step.
"""

from typing import Any

from trainer.config import RequestError
from trainer.parallel import split
from trainer.parallel.layout import Layout

SHARDS = "SHARDED_STATE_DICT"
"""Each process writes its part of a checkpoint, and any number of processes reads them."""


def arguments(layout: Layout, *, layers: list[str]) -> dict[str, Any]:
    """Return arguments of ``TrainingArguments``; ``layers``: classes to split one by one."""
    if layout.copies > 1:
        # the library would refuse to save the states of a model split at load; trainer.loop does
        return {"save_only_model": True}
    if layout.sharding is None:
        return {}
    return {
        "fsdp": "full_shard auto_wrap",
        "fsdp_config": {
            "version": 2,
            "reshard_after_forward": layout.reshards,
            "transformer_layer_cls_to_wrap": layers,
            "state_dict_type": SHARDS,
            "cpu_ram_efficient_loading": False,
        },
    }


def allow(layout: Layout, *, on_cpu: bool) -> None:
    """Let accelerate split weights and models on CPUs, where it would not and say nothing.

    It takes the way of several GPUs only for that kind of process group; the way itself works on
    any device.
    """
    if not on_cpu or (layout.sharding is None and layout.tensor == 1):
        return
    from accelerate.state import DistributedType, PartialState

    if not PartialState._shared_state:
        PartialState(cpu=True, backend="gloo")
    PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU


def layer_classes(model: Any) -> list[str]:
    """Return the names of the classes of the model's repeated layers."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    present = {type(module).__name__ for module in inner.modules()}
    found = sorted(set(inner._no_split_modules or ()) & present)
    if not found:
        raise RequestError(
            f"train.fsdp: {type(inner).__name__} does not say which of its layers are whole; "
            "nearest: remove fsdp"
        )
    return found


def check_kind(accelerator: Any, layout: Layout) -> None:
    """Raise RequestError unless accelerate has taken the way that was asked for."""
    found = str(accelerator.distributed_type.value)
    if layout.sharding is not None:
        wanted = {"FSDP"}
    elif layout.world_size > 1:
        wanted = {"MULTI_CPU", "MULTI_GPU"}
    else:
        wanted = {"NO"}
    if found not in wanted or (layout.sharding is not None and not accelerator.is_fsdp2):
        raise RequestError(
            f"asked for {_words(layout)}, but accelerate runs {found}: start it with "
            "`python -m trainer.launch RUN_DIR`"
        )


def check_model(model: Any, layout: Layout) -> str:
    """Return what the wrapped model is; raise RequestError where that is not what was asked for."""
    if layout.tensor > 1:
        return split.check_model(model, layout)
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import DTensor
    from torch.nn.parallel import DistributedDataParallel

    parts = [isinstance(each, DTensor) for each in model.parameters()]
    if isinstance(model, FSDPModule) and all(parts):
        kept = not _reshards(model)
        found = "fsdp2, weights kept between passes" if kept else "fsdp2"
        is_right = layout.sharding == "fsdp2" and layout.reshards is not kept
    elif isinstance(model, DistributedDataParallel) and not any(parts):
        found, is_right = "ddp", layout.sharding is None and layout.world_size > 1
    elif not any(parts):
        found, is_right = "one process", layout.world_size == 1
    else:
        found, is_right = f"{sum(parts)} of {len(parts)} weights split", False
    if not is_right:
        raise RequestError(f"asked for {_words(layout)}, but what runs is {found}")
    return found


def _reshards(model: Any) -> bool:
    """Return whether every repeated layer frees its gathered weights after its forward pass."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    names = {f"FSDP{name}" for name in inner._no_split_modules}  # as torch renames what it wraps
    groups = [
        group
        for module in model.modules()
        if type(module).__name__ in names
        for group in module._get_fsdp_state()._fsdp_param_groups
    ]
    return bool(groups) and all(group.post_forward_mesh_info is not None for group in groups)


def _words(layout: Layout) -> str:
    kept = "" if layout.reshards else ", weights kept between passes,"
    return f"{layout.sharding or 'ddp'}{kept} on {layout.world_size} processes"
