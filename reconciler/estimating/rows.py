"""Reads one row of a table of published measurements as a training.

Columns are those of the public table that ``docs/estimating.md`` describes.  Nothing measured
is read: not the peak, the speed, MFU, the verdict or the note.  Fields a row leaves empty mean
the ordinary setting.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from reconciler.estimating import counting
from reconciler.estimating.frameworks import framework_of
from reconciler.estimating.model import Experts, Model
from reconciler.estimating.training import (
    Attention,
    Checkpointing,
    Engine,
    Layout,
    Lengths,
    Loss,
    Offload,
    Optimizer,
    Precision,
    Quantisation,
    Sharding,
    Task,
    Training,
)

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """What one row describes, without what was measured."""

    id: str
    source: str
    training: Training
    gpu: str
    gpu_memory_gb: float
    gpus: int
    kind: str
    """Which instrument the peak was read from: ``allocated``, ``reserved`` or ``device``."""


def run_from(row: Row, catalogue: Mapping[str, Model]) -> MeasuredRun:
    """Return the run a row describes.  Raises ``ValueError`` that names the row and column."""
    try:
        return MeasuredRun(
            id=row.get("id", ""),
            source=row.get("source", ""),
            training=_training(row, model_of(row, catalogue)),
            gpu=row["gpu"],
            gpu_memory_gb=float(row.get("gpu_mem_gb") or 0),
            gpus=_number(row, "n_gpus", 1),
            kind=KINDS.get(row.get("mem_kind", ""), "device"),
        )
    except (KeyError, ValueError) as error:
        raise ValueError(f"row {row.get('id', '?')}: {error}") from error


KINDS = {
    "allocated": "allocated",
    "active(allocated)": "allocated",
    "reserved": "reserved",
    "nvidia-smi": "device",
}
"""Other kinds (author notes, unknown, npu) are read as what the device shows."""


def model_of(row: Row, catalogue: Mapping[str, Model]) -> Model:
    """Return the catalogue's shape where it has the row's model, else the row's own columns.

    Whether an unlisted MLP has two or three matrices, and whether its head is tied, follow from
    the published parameter count: the combination that comes nearest.
    """
    known = catalogue.get(row["model"].casefold())
    if known is not None and known.layers == _number(row, "layers", known.layers):
        return known
    hidden, heads = _number(row, "hidden"), _number(row, "heads")
    experts = None
    if row.get("experts"):
        experts = Experts(
            count=_number(row, "experts"),
            active=_number(row, "topk"),
            intermediate=_number(row, "moe_ffn"),
        )
    plain = Model(
        name=row["model"],
        layers=_number(row, "layers"),
        hidden=hidden,
        intermediate=_number(row, "ffn", 4 * hidden),
        heads=heads,
        kv_heads=_number(row, "kv_heads", heads),
        head_dim=hidden // heads,
        vocab=_number(row, "vocab"),
        tied=False,
        experts=experts,
        source=row.get("source", ""),
    )
    if not row.get("params_b"):
        return plain
    published = float(row["params_b"]) * 1e9
    candidates = [
        replace(plain, gated=gated, tied=tied) for gated in (True, False) for tied in (False, True)
    ]
    return min(candidates, key=lambda model: abs(counting.total(model) - published))


def _training(row: Row, model: Model) -> Training:
    tuner = row.get("tuner") or "full"
    adapter = not tuner.startswith(WHOLE)
    optimizer, galore_rank = _optimizer(f"{row.get('optimizer', 'adamw')} {tuner}")
    precision, wide = _precision(row.get("precision", "bf16"))
    framework = framework_of(row)
    layout = _layout(row, framework.engine)
    checkpointing, recompute = _checkpointing(row.get("grad_ckpt", "none"))
    return Training(
        model=model,
        seq_len=_number(row, "seq_len"),
        micro_batch=_number(row, "micro_batch", 1),
        accumulation=_number(row, "grad_accum", 1),
        task=_task(row.get("task") or "sft"),
        layout=layout,
        precision=precision,
        master=wide or (row.get("master_fp32") == "yes"),
        lora_rank=_number(row, "lora_rank", 8) if adapter else 0,
        lora_targets=_targets(row.get("lora_targets", ""), model),
        dora="dora" in tuner,
        trains_embedding="embed" in tuner,
        quantisation=_quantisation(row.get("quant", "none")),
        optimizer=optimizer,
        galore_rank=galore_rank,
        in_backward=any(word in row.get("optimizer", "") for word in ("in-backward", "per-layer")),
        checkpointing=checkpointing,
        recompute=recompute,
        attention=_attention(row.get("attention", "")),
        loss=LOSSES.get(row.get("fused_ce", ""), framework.loss),
        offload=_offload(row.get("offload", "")),
        engine=framework.engine,
        compiled=row.get("compile") == "yes",
        reduces_in_16_bit=framework.reduces_in_16_bit,
        shifts_logits=framework.shifts_logits,
        packed=row.get("packing") == "yes",
        lengths=_lengths(row.get("seq_exact", "yes")),
    )


WHOLE = ("full", "lisa", "galore", "q-galore")
"""Tuners that train the weights themselves; any other one is an adapter."""


def _task(text: str) -> Task:
    """Return the task; preference losses of other names are DPO's kind."""
    if text in ("kto", "orpo", "simpo", "cpo", "rlhf"):
        return Task.DPO
    known = {task.value: task for task in Task} | {"rm": Task.REWARD, "ppo": Task.GRPO}
    return known.get(text, Task.SFT)


def _number(row: Row, column: str, default: int | None = None) -> int:
    text = (row.get(column) or "").strip()
    if not text:
        if default is None:
            raise ValueError(f"column {column} is empty")
        return default
    return int(float(text))


def _layout(row: Row, engine: Engine) -> Layout:
    kind = row.get("zero_fsdp", "none")
    group = re.search(r"\((\d+)\)", kind)
    pipeline = _number(row, "pp", 1)
    inner = _number(row, "tp", 1) * _number(row, "cp", 1) * pipeline
    data = _number(row, "dp", max(_number(row, "n_gpus", 1) // inner, 1))
    return Layout(
        data=data,
        sharding=SHARDINGS.get(re.sub(r"\(.*\)", "", kind), Sharding.NONE),
        shard_group=int(group.group(1)) if group else None,
        tensor=_number(row, "tp", 1),
        pipeline=pipeline,
        virtual=_number(row, "vpp", 1),
        context=_number(row, "cp", 1),
        is_ring="ring" in row.get("attention", "")
        or (engine is not Engine.MEGATRON and row.get("attention") != "ulysses"),
        expert=_number(row, "ep", 1),
        sequence=row.get("sp") == "yes",
        naive_pipeline=pipeline > 1 and kind == "none",
    )


SHARDINGS = {
    "none": Sharding.NONE,
    "zero1": Sharding.ZERO1,
    "zero2": Sharding.ZERO2,
    "zero3": Sharding.ZERO3,
    "fsdp-full": Sharding.FSDP,
    "fsdp": Sharding.FSDP,
    "megatron-distopt": Sharding.DISTRIBUTED_OPTIMIZER,
}


def _optimizer(text: str) -> tuple[Optimizer, int]:
    rank = re.search(r"\br(\d+)", text)
    for mark, optimizer in OPTIMIZERS:
        if mark in text:
            return optimizer, int(rank.group(1)) if rank else 128
    return Optimizer.ADAMW, 128


OPTIMIZERS = (
    ("q-galore", Optimizer.Q_GALORE),
    ("galore-adamw8bit", Optimizer.GALORE_8BIT),
    ("galore", Optimizer.GALORE),
    ("lisa", Optimizer.LISA),
    ("paged", Optimizer.PAGED_ADAMW_8BIT),
    ("8bit", Optimizer.ADAMW_8BIT),
    ("4bit", Optimizer.ADAMW_4BIT),
    ("bf16 moments", Optimizer.ADAMW_BF16_MOMENTS),
    ("fused", Optimizer.ADAMW_FUSED),
    ("adafactor", Optimizer.ADAFACTOR),
    ("lion", Optimizer.LION),
    ("muon", Optimizer.MUON),
    ("sgd", Optimizer.SGD),
)
"""First match wins: the more particular names come first."""


def _precision(text: str) -> tuple[Precision, bool]:
    """Return the precision, and whether the weights themselves are 32-bit."""
    wide = "fp32 params" in text
    if "fp8" in text:
        return Precision.FP8, wide
    if text.startswith("fp16"):
        return Precision.FP16, wide
    if text.startswith("fp32"):
        return Precision.FP32, False
    return Precision.BF16, wide


def _quantisation(text: str) -> Quantisation:
    for mark, quantisation in QUANTISERS:
        if mark in text:
            return quantisation
    return Quantisation.NONE


QUANTISERS = (
    ("gptq-int4", Quantisation.GPTQ4),
    ("gptq-int8", Quantisation.GPTQ8),
    ("-dq", Quantisation.NF4_DOUBLE),
    ("nf4", Quantisation.NF4),
    ("bnb-int8", Quantisation.INT8),
    ("int4", Quantisation.NF4),
    ("int8", Quantisation.INT8),
)


def _lengths(text: str) -> Lengths:
    if text in ("", "yes"):
        return Lengths.FIXED
    return Lengths.CHURNING if "variable" in text else Lengths.VARIABLE


LOSSES = {"yes": Loss.FUSED, "chunked": Loss.CHUNKED}


def _checkpointing(text: str) -> tuple[Checkpointing, tuple[str, ...]]:
    modules = re.findall(r"\w+", text.partition("(")[2])
    recompute = tuple("layernorm" if name == "ln" else name for name in modules)
    if text == "selective_op":
        return Checkpointing.SELECTIVE_OP, ()
    if text.startswith("selective"):
        return Checkpointing.SELECTIVE, recompute or ("core_attn",)
    return (Checkpointing.FULL if text in ("full", "yes") else Checkpointing.NONE), ()


def _attention(text: str) -> Attention:
    for mark, attention in ATTENTIONS:
        if text.startswith(mark):
            return attention
    return Attention.FLASH


ATTENTIONS = (
    ("eager", Attention.EAGER),
    ("sdpa", Attention.SDPA),
    ("flash1", Attention.FLASH1),
    ("triton", Attention.FLASH1),
    ("flash3", Attention.FLASH3),
)


def _offload(text: str) -> Offload:
    for offload in (Offload.OPTIMIZER, Offload.PARAMETERS, Offload.ACTIVATIONS):
        if text.startswith(offload.value[:5]):
            return offload
    return Offload.NONE


def _targets(text: str, model: Model) -> tuple[str, ...]:
    """Return the matrices with an adapter; names this model does not have mean all of them."""
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    targets = tuple("all-linear" if name == "all" else name for name in names)
    try:
        return targets if counting.trained_linears(model, targets) else ("all-linear",)
    except ValueError:
        return ("all-linear",)
