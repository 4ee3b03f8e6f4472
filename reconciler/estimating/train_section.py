"""Reads a job's ``train:`` section as a training.

The section is opaque to the planner; this is the one place where its keys mean memory and time.
Defaults are those of the trainer's contract (a test compares them).  Keys of parallel engines
and quantisers are ms-swift 4's names; whether this build's trainer takes them is for
validation to say, not for an estimate.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.estimating.model import Model
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

Train = Mapping[str, Any]

DEFAULTS: Mapping[str, Any] = {
    "attn_impl": "sdpa",
    "max_completion_length": 512,
    "max_length": 2048,
    "packing": False,
    "tuner_type": "lora",
    "lora_rank": 8,
    "lora_dropout": 0.05,
    "target_modules": ["all-linear"],
    "use_dora": False,
    "per_device_train_batch_size": 1,
    "gradient_accumulation_steps": 1,
    "optim": "adamw_torch",
    "use_galore": False,
    "galore_rank": 128,
}
"""What an absent key means; the same values as in the trainer's contract."""


READ_KEYS = frozenset(DEFAULTS) | {
    "context_parallel_size",
    "deepspeed",
    "expert_model_parallel_size",
    "fp8",
    "fp8_format",
    "fsdp",
    "fsdp_reshard_after_forward",
    "galore_optim_per_parameter",
    "galore_quantization",
    "gradient_checkpointing",
    "model",
    "modules_to_save",
    "optimizer_cpu_offload",
    "packing_length",
    "pipeline_model_parallel_size",
    "quant_bits",
    "quant_method",
    "recompute_granularity",
    "sequence_parallel",
    "sequence_parallel_size",
    "task",
    "tensor_model_parallel_size",
    "torch_dtype",
    "use_liger_kernel",
    "virtual_pipeline_model_parallel_size",
}
"""Every key that means anything here: with these a finished run is estimated again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is known around the section: the gang, and where it runs."""

    gpus: int
    is_cpu: bool = False
    """CPU slots: no checkpointing unless asked for."""


def training_from(train: Train, model: Model, setting: Setting) -> Training:
    """Return what a ``train:`` section asks for on a gang.

    Raises ``ValueError`` with the reason where the values contradict each other: parallel sizes
    that do not divide the gang, GaLore with an adapter, quantised weights without one.
    """
    given = {**DEFAULTS, **{key: value for key, value in train.items() if value is not None}}
    layout = _layout(given, setting.gpus)
    megatron = layout.sharding is Sharding.DISTRIBUTED_OPTIMIZER
    precision = _precision(given)
    task = Task(str(given.get("task", "sft")))
    packed = bool(given["packing"])
    adapter = str(given["tuner_type"]) != "full"
    quantisation = _quantisation(given)
    dtype_is_wide = precision is Precision.FP32
    return Training(
        model=model,
        seq_len=_length(given, task, packed=packed),
        micro_batch=int(given["per_device_train_batch_size"]),
        accumulation=int(given["gradient_accumulation_steps"]),
        task=task,
        layout=layout,
        precision=precision,
        # FSDP2 as this trainer runs it keeps no 32-bit copy: the weights' type is all there is
        master=not adapter
        and not dtype_is_wide
        and layout.sharding is not Sharding.NONE
        and not given.get("fsdp"),
        lora_rank=int(given["lora_rank"]) if adapter else 0,
        lora_targets=_texts(given["target_modules"]),
        lora_dropout=float(given["lora_dropout"]) > 0,
        dora=bool(given["use_dora"]),
        trains_embedding="embed_tokens" in _texts(given.get("modules_to_save", ())),
        quantisation=quantisation,
        optimizer=_optimizer(given, setting),
        galore_rank=int(given["galore_rank"]),
        in_backward=bool(given.get("galore_optim_per_parameter")),
        checkpointing=_checkpointing(given, setting),
        attention=_attention(str(given["attn_impl"])),
        loss=Loss.FUSED if given.get("use_liger_kernel") else Loss.FULL,
        offload=_offload(given),
        engine=Engine.MEGATRON if megatron else Engine.TRANSFORMERS,
        autocast=False,
        packed=packed,
        lengths=Lengths.FIXED if packed else Lengths.VARIABLE,
    )


def _length(given: Train, task: Task, *, packed: bool) -> int:
    """Return the tokens of one row: of a prompt with its completion where one is sampled."""
    if packed:
        return int(given.get("packing_length") or given["max_length"])
    completion = int(given["max_completion_length"]) if task is Task.GRPO else 0
    return int(given["max_length"]) + completion


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(str(one) for one in value)


def _precision(given: Train) -> Precision:
    if given.get("fp8_format") or given.get("fp8"):
        return Precision.FP8
    dtype = given.get("torch_dtype")
    if dtype is None:
        # models made by the trainer itself are float32; released ones are 16-bit
        own = str(given.get("model", "")).startswith(("random:", "package:"))
        return Precision.FP32 if own else Precision.BF16
    return {"float32": Precision.FP32, "float16": Precision.FP16}.get(str(dtype), Precision.BF16)


SIZES = (
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
    "context_parallel_size",
    "expert_model_parallel_size",
)


def _layout(given: Train, gpus: int) -> Layout:
    tensor, pipeline, context, expert = (int(given.get(key) or 1) for key in SIZES)
    ulysses = int(given.get("sequence_parallel_size") or 1)
    context *= ulysses
    inner = tensor * pipeline * context
    if gpus % inner:
        raise ValueError(
            f"tensor {tensor} x pipeline {pipeline} x context {context} needs a multiple of "
            f"{inner} GPUs, the gang has {gpus}"
        )
    if gpus % (inner * expert) and (gpus // pipeline) % expert:
        raise ValueError(f"{gpus} GPUs cannot split the experts over {expert} ranks evenly")
    is_plain = gpus == max(tensor, pipeline) == inner and expert in (1, tensor)
    megatron = max(tensor, pipeline, expert) > 1 and not (is_plain and _speaks_plainly(given))
    virtual = int(given.get("virtual_pipeline_model_parallel_size") or 1)
    return Layout(
        data=gpus // inner,
        sharding=Sharding.DISTRIBUTED_OPTIMIZER if megatron else _sharding(given),
        tensor=tensor,
        pipeline=pipeline,
        virtual=virtual,
        context=context,
        expert=expert,
        sequence=bool(given.get("sequence_parallel", megatron)),
        is_ring=context > ulysses and not megatron,
    )


def _speaks_plainly(given: Train) -> bool:
    """Return whether nothing is asked for that only Megatron has.

    One model split by matrices or by layers among all GPUs is then what this build's trainer
    runs: transformers' own layers, without a distributed optimizer.
    """
    keys = ("recompute_granularity", "virtual_pipeline_model_parallel_size", "sequence_parallel")
    return all(given.get(key) is None for key in keys)


def _sharding(given: Train) -> Sharding:
    deepspeed = str(given.get("deepspeed") or "")
    for mark, sharding in (
        ("zero1", Sharding.ZERO1),
        ("zero2", Sharding.ZERO2),
        ("zero3", Sharding.ZERO3),
    ):
        if deepspeed.startswith(mark):
            return sharding
    if not given.get("fsdp"):
        return Sharding.NONE
    keeps = given.get("fsdp_reshard_after_forward") is False
    return Sharding.ZERO2 if keeps else Sharding.FSDP


def _offload(given: Train) -> Offload:
    if str(given.get("deepspeed") or "") == "zero3_offload":
        return Offload.PARAMETERS
    if given.get("optimizer_cpu_offload") or "offload" in str(given.get("deepspeed") or ""):
        return Offload.OPTIMIZER
    return Offload.NONE


def _quantisation(given: Train) -> Quantisation:
    method, bits = given.get("quant_method"), given.get("quant_bits")
    if method is None:
        return Quantisation.NONE
    if str(method) == "gptq":
        return Quantisation.GPTQ8 if bits == 8 else Quantisation.GPTQ4
    return Quantisation.INT8 if bits == 8 else Quantisation.NF4_DOUBLE


def _optimizer(given: Train, setting: Setting) -> Optimizer:
    """Return the optimizer; on a CPU torch's AdamW updates one weight after the other, without
    temporaries of all of them."""
    name = str(given["optim"])
    if given["use_galore"]:
        if given.get("galore_quantization"):
            return Optimizer.Q_GALORE
        return Optimizer.GALORE_8BIT if "8bit" in name else Optimizer.GALORE
    return OPTIMIZERS.get(name, Optimizer.ADAMW_FUSED if setting.is_cpu else Optimizer.ADAMW)


OPTIMIZERS = {
    "adamw_torch_fused": Optimizer.ADAMW_FUSED,
    "adamw_8bit": Optimizer.ADAMW_8BIT,
    "adamw_bnb_8bit": Optimizer.ADAMW_8BIT,
    "paged_adamw_8bit": Optimizer.PAGED_ADAMW_8BIT,
    "adamw_torch_4bit": Optimizer.ADAMW_4BIT,
    "adafactor": Optimizer.ADAFACTOR,
    "lion": Optimizer.LION,
    "lion_32bit": Optimizer.LION,
    "muon": Optimizer.MUON,
    "sgd": Optimizer.SGD,
}


def _checkpointing(given: Train, setting: Setting) -> Checkpointing:
    granularity = given.get("recompute_granularity")
    if granularity is not None:
        return Checkpointing(str(granularity))
    asked = given.get("gradient_checkpointing")
    if asked is None:
        asked = not setting.is_cpu
    return Checkpointing.FULL if asked else Checkpointing.NONE


def _attention(name: str) -> Attention:
    if name == "eager":
        return Attention.EAGER
    if name in ("flash_attention_3", "flash3"):
        return Attention.FLASH3
    return Attention.FLASH if name.startswith("flash") else Attention.SDPA
