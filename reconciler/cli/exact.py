"""``headway estimate --exact``: the estimate beside what torch traces of the real model class."""

from dataclasses import replace
from typing import Any

from reconciler.cli.tables import fields
from reconciler.errors import UsageError
from reconciler.estimating.config_json import config_of
from reconciler.estimating.estimate import Estimate
from reconciler.estimating.memory import memory
from reconciler.estimating.workload import (
    Attention,
    Checkpointing,
    Precision,
    Quantisation,
    Sharding,
    Workload,
)
from reconciler.launchers.exact_memory import traced
from reconciler.specs.model_catalogue import shipped_constants

MIB = 1024**2


def exact_request(workload: Workload) -> dict[str, Any]:
    """Return the tracer's request for a workload.

    Raises ``UsageError`` where the tracer cannot follow: quantised weights, Megatron, and models
    whose class is not one of the plain decoders.
    """
    layout = workload.layout
    if workload.quantisation is not Quantisation.NONE:
        raise UsageError("--exact traces no quantised weights: their kernels exist on GPUs only")
    if layout.gpus > 1 and layout.sharding not in (Sharding.NONE, Sharding.FSDP):
        raise UsageError("--exact traces one GPU, replicas and FSDP only")
    try:
        config = config_of(workload.model)
    except ValueError as error:
        raise UsageError(f"--exact: {error}") from error
    lora = None
    if workload.is_adapter:
        lora = {
            "rank": workload.lora_rank,
            "targets": list(workload.lora_targets),
            "dropout": 0.05 if workload.lora_dropout else 0.0,
        }
    return {
        "config": config,
        "dtype": "float32" if workload.precision is Precision.FP32 else "bfloat16",
        "attn_impl": "eager" if workload.attention is Attention.EAGER else "sdpa",
        "seq_len": workload.seq_len,
        "micro_batch": workload.micro_batch,
        "gradient_checkpointing": workload.checkpointing is Checkpointing.FULL,
        "lora": lora,
        "shards": layout.data if layout.sharding is Sharding.FSDP else 1,
    }


def exact_text(one: Estimate) -> str:
    """Return the traced peak beside the estimated one.  Takes minutes."""
    figures = traced(exact_request(one.workload))
    peak = figures["peak"] / MIB
    tensors = memory(one.workload, replace(shipped_constants().memory, workspace_gib=0.0))
    mine = tensors.allocated_gib * 1024
    phases = ", ".join(
        f"{name} {figures[name] / MIB:,.0f}" for name in ("forward", "backward", "step")
    )
    return fields(
        [
            ("Traced", f"{peak:,.0f} MiB of tensors ({phases})"),
            ("Estimated", f"{mine:,.0f} MiB of tensors, {100 * (mine / peak - 1):+.1f} %"),
        ]
    )
