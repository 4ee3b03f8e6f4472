"""``headway estimate --exact``: the estimate beside what torch traces of the real model class."""

from dataclasses import replace
from typing import Any

from reconciler.cli.tables import fields
from reconciler.errors import UsageError
from reconciler.estimating.config_json import config_of
from reconciler.estimating.estimate import Estimate
from reconciler.estimating.memory import memory
from reconciler.estimating.training import (
    Attention,
    Checkpointing,
    Precision,
    Quantisation,
    Sharding,
    Training,
)
from reconciler.launchers.exact_memory import traced
from reconciler.specs.model_catalogue import shipped_constants

MIB = 1024**2


def exact_request(training: Training) -> dict[str, Any]:
    """Return the tracer's request for a training.

    Raises ``UsageError`` where the tracer cannot follow: quantised weights, Megatron, and models
    whose class is not one of the plain decoders.
    """
    layout = training.layout
    if training.quantisation is not Quantisation.NONE:
        raise UsageError("--exact traces no quantised weights: their kernels exist on GPUs only")
    is_split = layout.gpus > layout.data  # by matrices, layers, experts or stretches of a row
    if is_split or layout.sharding not in (Sharding.NONE, Sharding.FSDP):
        raise UsageError("--exact traces one GPU, replicas and FSDP only")
    try:
        config = config_of(training.model)
    except ValueError as error:
        raise UsageError(f"--exact: {error}") from error
    lora = None
    if training.is_adapter:
        lora = {
            "rank": training.lora_rank,
            "targets": list(training.lora_targets),
            "dropout": 0.05 if training.lora_dropout else 0.0,
        }
    return {
        "config": config,
        "dtype": "float32" if training.precision is Precision.FP32 else "bfloat16",
        "attn_impl": "eager" if training.attention is Attention.EAGER else "sdpa",
        "seq_len": training.seq_len,
        "micro_batch": training.micro_batch,
        "gradient_checkpointing": training.checkpointing is Checkpointing.FULL,
        "lora": lora,
        "shards": layout.data if layout.sharding is Sharding.FSDP else 1,
    }


def exact_text(one: Estimate) -> str:
    """Return the traced peak beside the estimated one.  Takes minutes."""
    figures = traced(exact_request(one.training))
    peak = figures["peak"] / MIB
    tensors = memory(one.training, replace(shipped_constants().memory, workspace_gib=0.0))
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
