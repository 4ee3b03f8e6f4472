"""Which combinations of ``train:`` values are refused, why, and what works instead.

One table for both sides: ``python -m trainer.schema`` writes it to ``contract/train.rules.json``,
where the validator reads it, and ``trainer.config`` applies the same rows before it loads
anything.  A rule is data, so that both interpreters stay a few lines long:

    {"id": ..., "when": {key: {operator: operand}}, "refuse": key, "reason": ..., "nearest": ...}

A rule refuses where every condition of ``when`` holds.  Operators: ``in`` [values] and ``not_in``
[values] on the value (an absent key has its default; without one it is null), ``set`` true/false
(the document names the key), ``above`` and ``below`` a number (never hold for null).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainer.keys import KEYS, default_of
from trainer.optimizers.table import REFUSALS as OPTIMIZER_REFUSALS
from trainer.parallel.refusals import REFUSALS as PARALLEL_REFUSALS
from trainer.quantised.table import REFUSALS as QUANTISED_REFUSALS
from trainer.recipes.refusals import REFUSALS as TASK_REFUSALS

FORM = "headway.rules/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One refused combination."""

    id: str
    when: Mapping[str, Mapping[str, Any]]
    refuse: str
    """The key the message points at."""
    reason: str
    nearest: str
    """What to write instead."""

    def refuses(self, train: Mapping[str, Any]) -> bool:
        """Return whether every condition holds for this ``train:`` section without nulls."""
        return all(
            _holds(operator, operand, key in train, train.get(key, default_of(key)))
            for key, conditions in self.when.items()
            for operator, operand in conditions.items()
        )


def _holds(operator: str, operand: Any, is_set: bool, value: Any) -> bool:
    number = isinstance(value, int | float)
    match operator:
        case "in":
            return value in operand
        case "not_in":
            return value not in operand
        case "set":
            return bool(is_set == operand)
        case "above":
            return number and bool(value > operand)
        case "below":
            return number and bool(value < operand)
    raise ValueError(f"a rule uses the unknown operator {operator!r}")


def _only_rules() -> Iterator[Rule]:
    """A key that the chosen task, tuner or optimizer does not read is refused, not ignored."""
    for name, key in KEYS.items():
        for other, values in key.only.items():
            if other == "tuner_type" and name in ("use_galore", "quant_method"):
                continue  # rules of their own say it better, and let `use_galore: false` pass
            words = " or ".join(_words(value) for value in values)
            yield Rule(
                id=f"{name}_needs_{other}",
                when={name: {"set": True}, other: {"not_in": list(values)}},
                refuse=name,
                reason=f"{name} is read only with {other}: {words}; it would be ignored here",
                nearest=f"remove {name}, or set {other}: {words}",
            )


def _words(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


RULES: tuple[Rule, ...] = (
    Rule(
        id="galore_with_lora",
        when={"use_galore": {"in": [True]}, "tuner_type": {"in": ["lora"]}},
        refuse="use_galore",
        reason="GaLore projects the gradients of full weights; an adapter has none of those",
        nearest="tuner_type: full with use_galore: true, or tuner_type: lora without it",
    ),
    Rule(
        id="target_regex_beside_target_modules",
        when={"target_regex": {"set": True}, "target_modules": {"set": True}},
        refuse="target_regex",
        reason="target_modules already says which layers get an adapter",
        nearest="remove target_modules or target_regex",
    ),
    Rule(
        id="grouping_packed_rows",
        when={"group_by_length": {"in": [True]}, "packing": {"in": [True]}},
        refuse="group_by_length",
        reason="packed rows all have the same length, there is nothing to group",
        nearest="packing: true or group_by_length: true alone",
    ),
    Rule(
        id="async_save_of_split_weights",
        when={"async_save": {"in": [True]}, "fsdp": {"set": True}},
        refuse="async_save",
        reason="each process writes its part of split weights, and they must do so together",
        nearest="async_save: false",
    ),
    Rule(
        id="constant_without_warmup",
        when={"lr_scheduler_type": {"in": ["constant"]}, "warmup_ratio": {"above": 0}},
        refuse="warmup_ratio",
        reason="lr_scheduler_type: constant has no warm-up, the ratio would be ignored",
        nearest="lr_scheduler_type: constant_with_warmup",
    ),
    Rule(
        id="split_beside_val_dataset",
        when={"val_dataset": {"set": True}, "split_dataset_ratio": {"above": 0}},
        refuse="split_dataset_ratio",
        reason="val_dataset already says what to evaluate on",
        nearest="remove split_dataset_ratio or val_dataset",
    ),
    Rule(
        id="eval_steps_without_data",
        when={
            "eval_steps": {"set": True},
            "val_dataset": {"set": False},
            "split_dataset_ratio": {"in": [0, 0.0]},
        },
        refuse="eval_steps",
        reason="there is nothing to evaluate on",
        nearest="add val_dataset or split_dataset_ratio",
    ),
    Rule(
        id="dora_with_modules_to_save",
        when={"use_dora": {"in": [True]}, "lora_bias": {"in": ["all"]}},
        refuse="lora_bias",
        reason="DoRA trains the magnitude of frozen layers; their bias stays frozen",
        nearest="lora_bias: none",
    ),
    *(
        Rule(**row)
        for rows in (TASK_REFUSALS, OPTIMIZER_REFUSALS, PARALLEL_REFUSALS, QUANTISED_REFUSALS)
        for row in rows
    ),
    *_only_rules(),
)

OWNED: Mapping[str, str] = {
    "save_steps": "write checkpoint.every_steps",
    "save_strategy": "write checkpoint.every_steps",
    "save_total_limit": "write checkpoint.keep",
    "save_only_model": "headway always keeps what an exact resume needs; remove it",
    "resume_from_checkpoint": "headway resumes by itself; to start from other weights write "
    "train.init_from",
    "resume_only_model": "write train.init_from",
    "output_dir": "headway chooses the folder; remove it",
    "logging_dir": "headway chooses the folder; remove it",
    "overwrite_output_dir": "headway chooses the folder; remove it",
    "seed": "headway sets the seed from the job, so that every attempt has the same; remove it",
    "data_seed": "headway sets the seed from the job, so that every attempt has the same; "
    "remove it",
    "use_cpu": "headway gives the devices; remove it",
    "push_to_hub": "results stay in the run directory; remove it",
    "trust_remote_code": "code from a model repository is never run; remove it",
    "world_size": "write resources.gpus",
    "nproc_per_node": "write resources.gpus",
}
"""Keys that headway itself decides, and what to write instead."""

RENAMED: Mapping[str, str] = {
    "model_name_or_path": "model",
    "base_model": "model",
    "model_id": "model",
    "task_type": "task",
    "rlhf_type": "task",
    "stage": "task",
    "rl": "task",
    "train_type": "tuner_type",
    "finetuning_type": "tuner_type",
    "adapter": "tuner_type",
    "use_peft": "tuner_type",
    "sft_type": "tuner_type",
    "lora_r": "lora_rank",
    "lora_target_modules": "target_modules",
    "lora_target": "target_modules",
    "loraplus_lr_ratio": "lorap_lr_ratio",
    "lora_target_linear": "target_modules",
    "dataset_name": "dataset",
    "datasets": "dataset",
    "train_dataset": "dataset",
    "eval_dataset": "val_dataset",
    "val_size": "split_dataset_ratio",
    "val_set_size": "split_dataset_ratio",
    "cutoff_len": "max_length",
    "sequence_len": "max_length",
    "max_seq_length": "max_length",
    "max_seq_len": "max_length",
    "truncation_mode": "truncation_strategy",
    "sample_packing": "packing",
    "neat_packing": "packing",
    "packing_strategy": "packing",
    "micro_batch_size": "per_device_train_batch_size",
    "per_gpu_batch": "per_device_train_batch_size",
    "per_gpu_train_batch_size": "per_device_train_batch_size",
    "batch_size": "per_device_train_batch_size",
    "tensor_parallel_size": "tensor_model_parallel_size",
    "tp_size": "tensor_model_parallel_size",
    "ep_size": "expert_model_parallel_size",
    "pipeline_parallel_size": "pipeline_model_parallel_size",
    "pp_size": "pipeline_model_parallel_size",
    "accumulation_steps": "gradient_accumulation_steps",
    "grad_accum": "gradient_accumulation_steps",
    "lr": "learning_rate",
    "num_epochs": "num_train_epochs",
    "epochs": "num_train_epochs",
    "warmup_steps": "warmup_ratio",
    "lr_scheduler": "lr_scheduler_type",
    "optimizer": "optim",
    "galore_layerwise": "galore_optim_per_parameter",
    "use_q_galore": "galore_quantization",
    "galore_update_interval": "galore_update_proj_gap",
    "galore_target": "galore_target_modules",
    "galore_proj_gap": "galore_update_proj_gap",
    "load_in_4bit": "quant_method",
    "quantization_method": "quant_method",
    "quantization_bit": "quant_bits",
    "quantization_bits": "quant_bits",
    "bnb_4bit_double_quant": "bnb_4bit_use_double_quant",
    "double_quantization": "bnb_4bit_use_double_quant",
    "pref_beta": "beta",
    "rl_beta": "beta",
    "pref_loss": "loss_type",
    "init_weights_from": "init_from",
    "adapters": "init_from",
    "dtype": "torch_dtype",
    "attn_implementation": "attn_impl",
    "default_system": "system",
}
"""Names that other trainers use, and ours."""

_ONE_DEVICE = "fsdp: fsdp2"
ABSENT: Mapping[str, tuple[str, str]] = {
    "load_in_8bit": ("the base is kept in 4 bits", "quant_method: bnb"),
    "train_sampling_strategy": (
        "samples are shuffled, or grouped by length",
        "group_by_length: true",
    ),
    "padding_free": ("one row of many samples needs packed rows", "packing: true"),
    "streaming": ("data are read whole, so that a resume is exact", "a smaller dataset"),
    "deepspeed": (
        "ZeRO is not part of this build; FSDP2 splits the same things",
        "fsdp: fsdp2 (ZeRO-3), or remove it",
    ),
    "fsdp_config": ("fsdp says it all", "fsdp: fsdp2"),
    "context_parallel_size": (
        "torch's ring attention drops the borders of packed samples",
        "sequence_parallel_size",
    ),
    "virtual_pipeline_model_parallel_size": (
        "a stage of this trainer's pipeline has one run of layers",
        "pipeline_model_parallel_size",
    ),
    "recompute_granularity": (
        "Megatron is not part of this build",
        "gradient_checkpointing: true",
    ),
    "use_liger_kernel": ("this trainer uses plain torch kernels", "remove it"),
    "fp16": ("float16 needs loss scaling and overflows", "torch_dtype: bfloat16"),
    "bf16": ("the type of the weights decides", "torch_dtype: bfloat16"),
}
"""Keys that people know and this trainer does not have: the reason, and what works."""


def refusals(train: Mapping[str, Any]) -> Iterator[Rule]:
    """Yield every rule that refuses this ``train:`` section (known keys only, no nulls)."""
    for rule in RULES:
        if rule.refuses(train):
            yield rule
