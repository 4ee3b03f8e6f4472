"""One model split among all processes: its matrices, and its experts where it has some.

transformers shards the weights while it loads them (torch's ``DTensor``), every process reads the
same rows, and what the library does not do is done here: the optimizer's states are gathered into
a checkpoint by the names of weights, and given out again.

Rules kept: weights that the model's own plan wants split are really split, in as many parts as
processes, before the first step; a checkpoint holds whole tensors, so it says nothing of who held
which part.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from trainer.config import RequestError
from trainer.parallel.layout import Layout

STATES = "optimizer_by_name.pt"


def loading(train: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of ``from_pretrained`` that make it load this process's part."""
    tensor, experts = train["tensor_model_parallel_size"], train["expert_model_parallel_size"]
    if tensor == 1:
        return {}
    from transformers.distributed import DistributedConfig

    return {
        "distributed_config": DistributedConfig(tp_size=tensor, tp_plan="auto", ep_size=experts)
    }


def check_config(config: Any, train: Mapping[str, Any]) -> None:
    """Raise RequestError where the model of ``config`` can not be split as asked."""
    tensor, experts = train["tensor_model_parallel_size"], train["expert_model_parallel_size"]
    text = config.get_text_config()
    if tensor > 1:
        if not getattr(text, "base_model_tp_plan", None):
            raise RequestError(
                f"train.tensor_model_parallel_size: transformers has no plan to split "
                f"{text.model_type} models; nearest: fsdp: fsdp2"
            )
        heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
        if heads % tensor:
            raise RequestError(
                f"train.tensor_model_parallel_size: {heads} key-value heads can not be dealt to "
                f"{tensor} processes; nearest: fsdp: fsdp2"
            )
    if experts > 1:
        count = getattr(text, "num_experts", None) or getattr(text, "num_local_experts", None)
        if not count or not getattr(text, "base_model_ep_plan", None):
            raise RequestError(
                f"train.expert_model_parallel_size: {text.model_type} has no experts that "
                "transformers can split; nearest: fsdp: fsdp2"
            )
        if count % experts:
            raise RequestError(
                f"train.expert_model_parallel_size: {count} experts can not be dealt to "
                f"{experts} processes"
            )


def check_model(model: Any, layout: Layout) -> str:
    """Return how the model is split; raise RequestError where that is not what was asked for."""
    from torch.distributed.tensor import DTensor, Shard

    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    parts = layout.tensor
    planned = set(_planned(inner, with_experts=layout.expert > 1))
    split = {
        name.replace(".base_layer.", ".")
        for name, each in inner.named_parameters()
        if isinstance(each, DTensor)
        and any(isinstance(place, Shard) for place in each.placements)
        and each.device_mesh.size() == parts
    }
    missing = sorted(planned - split)
    if not planned or missing:
        raise RequestError(
            f"asked for a model split among {parts} processes, but {len(missing)} of "
            f"{len(planned)} planned weights are whole, such as {(missing or ['all'])[0]}"
        )
    experts = ", by experts" if layout.expert > 1 else ""
    return f"tensor parallel {parts}{experts}, {len(planned)} weights split"


def _planned(model: Any, *, with_experts: bool) -> Iterator[str]:
    """Yield the names of the weights that the model's own plan splits."""
    from transformers.distributed.parallel_utils import _get_parameter_plan

    plans = [model.ep_plan, model.tp_plan] if with_experts else [model.tp_plan]
    for name, _ in model.named_parameters():
        if ".lora_" in name:
            continue
        plain = name.replace(".base_layer.", ".")
        styles = (_get_parameter_plan(parameter_name=plain, plan=plan) for plan in plans)
        style = next(filter(None, styles), None)
        if style is not None and style not in WHOLE and not plain.endswith("bias"):
            yield plain


WHOLE = frozenset(
    {
        *("replicate", "replicated_with_grad_allreduce", "sequence_parallel", "all_reduce"),
        *("moe_tp_experts", "moe_identity_expert", "ep_dispatch_experts", "local_params"),
    }
)
"""Styles of transformers' plans that leave each process with all of a weight, or split none."""


def start_adapters(model: Any, seed: int) -> None:
    """Give the layers of a new adapter the weights that one process would start from.

    peft makes a layer as wide as this process's part, with the random numbers of that width, and
    splits it then, so that its input is taken for a part of a part.  Here the layers are drawn
    whole, in peft's order.
    """
    from torch.nn import Linear

    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        for layer in model.modules():
            for name, down in getattr(layer, "lora_A", {}).items():
                up = layer.lora_B[name]
                for each in (down, up):
                    each.out_features, each.in_features = each.weight.shape
                first = Linear(down.in_features, down.out_features, bias=False)
                Linear(up.in_features, up.out_features, bias=False)
                first.reset_parameters()
                down.weight.copy_(_like(first.weight, down.weight))


def whole(tensor: Any) -> Any:
    """Return all of a tensor on the CPU; every process must call this, in the same order."""
    if hasattr(tensor, "full_tensor"):
        tensor = tensor.full_tensor()
    return tensor.detach().cpu() if isinstance(tensor, torch.Tensor) else tensor


def gathered(mine: dict[str, Any]) -> dict[str, Any]:
    """Return what all processes have by name, in rank 0; every process must call this."""
    found: list[Any] | None = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
    dist.gather_object(mine, found)
    return {name: each for part in found or () for name, each in part.items()}


def states_of(optimizer: Any, model: Any) -> dict[str, Any]:
    """Return the optimizer's states by the names of weights; every process must call this."""
    inner = getattr(optimizer, "optimizer", optimizer)
    names = {each: name for name, each in model.named_parameters()}
    return {
        "states": {
            names[parameter]: {key: whole(value) for key, value in inner.state[parameter].items()}
            for group in inner.param_groups
            for parameter in group["params"]
            if parameter in inner.state
        },
        "groups": [
            {key: value for key, value in group.items() if key != "params"}
            for group in inner.param_groups
        ],
    }


def give_states(optimizer: Any, model: Any, saved: Mapping[str, Any]) -> None:
    """Set this process's part of ``saved``, as ``states_of`` returned it, in the optimizer."""
    inner = getattr(optimizer, "optimizer", optimizer)
    names = {each: name for name, each in model.named_parameters()}
    for group, settings in zip(inner.param_groups, saved["groups"], strict=True):
        group.update(settings)
        for parameter in group["params"]:
            if (state := saved["states"].get(names[parameter])) is not None:
                inner.state[parameter] = {
                    key: _part(value, parameter) for key, value in state.items()
                }


def _part(value: Any, parameter: Any) -> Any:
    """Return the part of a whole state that belongs to this process's part of its weight."""
    if not isinstance(value, torch.Tensor) or value.shape != parameter.shape:
        return value  # the count of steps
    return _like(value, parameter)


def _like(value: torch.Tensor, parameter: Any) -> Any:
    from torch.distributed.tensor import DTensor, distribute_tensor

    value = value.to(parameter.device)
    if not isinstance(parameter, DTensor):
        return value
    return distribute_tensor(value, parameter.device_mesh, parameter.placements, src_data_rank=None)


def save_states(
    optimizer: Any, scheduler: Any, model: Any, folder: Path, *, stages: bool, writes: bool
) -> None:
    """Write optimizer and schedule below ``folder``; every process must call this.

    ``stages``: whether processes have weights of their own, and not parts of the same.
    """
    found = states_of(optimizer, model)
    if stages:
        found["states"] = gathered(found["states"])
    if writes:
        torch.save(found | {"schedule": scheduler.state_dict()}, folder / STATES)


def load_states(optimizer: Any, scheduler: Any, model: Any, folder: Path) -> None:
    """Read what ``save_states`` wrote."""
    saved = torch.load(folder / STATES, map_location="cpu", weights_only=True)
    give_states(optimizer, model, saved)
    scheduler.load_state_dict(saved["schedule"])


def load_weights(model: Any, folder: Path, *, stages: bool) -> None:
    """Set this process's part of the weights that a checkpoint in ``folder`` holds.

    A model whose tensors are split is read again as it was at the start, because experts are
    written one by one and held together; elsewhere the names are enough.
    """
    with torch.no_grad():
        if hasattr(model, "get_base_model") or stages:
            _load_by_name(model, folder)
            return
        config = model.config.distributed_config
        again = type(model).from_pretrained(
            folder, dtype=model.dtype, distributed_config=config, trust_remote_code=False
        )
        for target, source in zip(model.parameters(), again.parameters(), strict=True):
            target.copy_(source)


def _load_by_name(model: Any, folder: Path) -> None:
    from safetensors.torch import load_file

    saved = {
        name: each
        for path in folder.glob("*.safetensors")
        for name, each in load_file(path).items()
    }
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            value = saved.get(name.replace(".default.", "."))
            if value is None:
                raise RequestError(f"{folder} has no weights {name}")
            parameter.copy_(_like(value, parameter))
