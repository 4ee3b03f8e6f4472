"""Which ways of spreading a training do not go with which tasks and tuners."""

from collections.abc import Iterator, Mapping
from typing import Any

from trainer.parallel.layout import SPLITS


def _of_split_models() -> Iterator[Mapping[str, Any]]:
    """Yield what does not go with a model split by matrices or by layers, for each key."""
    beside: tuple[tuple[str, Mapping[str, Any], str, str], ...] = (
        (
            "other_task",
            {"task": {"not_in": ["pretrain", "sft"]}},
            "only the loss of each token by itself is computed on a split model",
            "remove {key}",
        ),
        (
            "fsdp",
            {"fsdp": {"set": True}},
            "the model is split once, and replicas of it are not offered",
            "fsdp: fsdp2 alone",
        ),
        (
            "sequence_parallel",
            {"sequence_parallel_size": {"above": 1}},
            "the model is split once, and its rows are not",
            "sequence_parallel_size alone, with fsdp: fsdp2",
        ),
        (
            "quantised_base",
            {"quant_method": {"set": True}},
            "packed 4-bit weights can not be split among devices",
            "remove {key}: a 4-bit base is small",
        ),
        (
            "own_optimizer",
            {"optim": {"not_in": ["adamw_torch"]}},
            "this optimizer looks at whole matrices, or at all of them",
            "optim: adamw_torch",
        ),
        (
            "galore",
            {"use_galore": {"in": [True]}},
            "GaLore projects whole matrices",
            "remove {key}, or use_galore: false",
        ),
        (
            "lora_plus",
            {"lorap_lr_ratio": {"set": True}},
            "the two rates of LoRA+ are set on weights before they are split",
            "remove lorap_lr_ratio",
        ),
        (
            "dora",
            {"use_dora": {"in": [True]}},
            "DoRA measures whole matrices",
            "use_dora: false",
        ),
        (
            "modules_to_save",
            {"modules_to_save": {"set": True}},
            "layers trained whole beside an adapter are not put together again",
            "remove modules_to_save",
        ),
        (
            "lora_bias",
            {"lora_bias": {"not_in": ["none"]}},
            "biases beside an adapter are not put together again",
            "lora_bias: none",
        ),
        (
            "saved_adapter",
            {"init_from": {"set": True}, "tuner_type": {"in": ["lora"]}},
            "a saved adapter is read into a model that is not split yet",
            "tuner_type: full, or remove init_from",
        ),
        (
            "async_save",
            {"async_save": {"in": [True]}},
            "the parts are gathered and written at once, so that a save is never put off",
            "async_save: false",
        ),
        (
            "merging",
            {"merge_lora": {"in": [True]}},
            "at the end of the training each device has a part of the weights",
            "remove it, and run python -m trainer.export on the adapter",
        ),
    )
    for key in SPLITS:
        for name, when, reason, nearest in beside:
            yield {
                "id": f"{key.removesuffix('_model_parallel_size')}_parallel_with_{name}",
                "when": {key: {"above": 1}, **when},
                "refuse": key,
                "reason": reason,
                "nearest": nearest.format(key=key),
            }


REFUSALS: tuple[Mapping[str, Any], ...] = (
    *_of_split_models(),
    {
        "id": "tensor_with_pipeline_parallel",
        "when": {
            "tensor_model_parallel_size": {"above": 1},
            "pipeline_model_parallel_size": {"above": 1},
        },
        "refuse": "pipeline_model_parallel_size",
        "reason": "the model is split once: by matrices or by layers",
        "nearest": "one of the two for all devices",
    },
    {
        "id": "expert_parallel_alone",
        "when": {
            "expert_model_parallel_size": {"above": 1},
            "tensor_model_parallel_size": {"below": 2},
        },
        "refuse": "expert_model_parallel_size",
        "reason": "transformers deals experts to devices that split the other layers too",
        "nearest": "tensor_model_parallel_size of the same number",
    },
    {
        "id": "expert_parallel_with_lora",
        "when": {
            "expert_model_parallel_size": {"above": 1},
            "tuner_type": {"in": ["lora"]},
        },
        "refuse": "expert_model_parallel_size",
        "reason": "adapters beside experts that other devices have are not tested",
        "nearest": "tuner_type: full",
    },
    {
        "id": "pipeline_parallel_with_packing",
        "when": {
            "pipeline_model_parallel_size": {"above": 1},
            "packing": {"in": [True]},
        },
        "refuse": "packing",
        "reason": "that packed samples stay apart is not proven through the stages of a pipeline",
        "nearest": "packing: false with group_by_length: true",
    },
    {
        "id": "pipeline_parallel_with_evaluation",
        "when": {
            "pipeline_model_parallel_size": {"above": 1},
            "split_dataset_ratio": {"above": 0},
        },
        "refuse": "split_dataset_ratio",
        "reason": "a pipeline runs training steps, it does not evaluate",
        "nearest": "split_dataset_ratio: 0",
    },
    {
        "id": "pipeline_parallel_with_val_dataset",
        "when": {
            "pipeline_model_parallel_size": {"above": 1},
            "val_dataset": {"set": True},
        },
        "refuse": "val_dataset",
        "reason": "a pipeline runs training steps, it does not evaluate",
        "nearest": "remove val_dataset",
    },
    {
        "id": "sequence_parallel_with_other_task",
        "when": {
            "sequence_parallel_size": {"above": 1},
            "task": {"not_in": ["pretrain", "sft"]},
        },
        "refuse": "sequence_parallel_size",
        "reason": "only a loss of each token by itself can be summed over stretches of a row",
        "nearest": "sequence_parallel_size: 1 with gradient_checkpointing: true",
    },
    {
        "id": "attention_beside_sequence_parallel",
        "when": {"sequence_parallel_size": {"above": 1}, "attn_impl": {"set": True}},
        "refuse": "attn_impl",
        "reason": "sequence parallelism brings an attention of its own, this one would be ignored",
        "nearest": "remove attn_impl, or choose with sequence_parallel_attention",
    },
    {
        "id": "sequence_parallel_attention_alone",
        "when": {
            "sequence_parallel_attention": {"set": True},
            "sequence_parallel_size": {"in": [1]},
        },
        "refuse": "sequence_parallel_attention",
        "reason": "rows are not shared with sequence_parallel_size: 1; it would be ignored",
        "nearest": "sequence_parallel_size: 2, or remove it",
    },
    {
        "id": "fsdp_with_quantised_base",
        "when": {"fsdp": {"set": True}, "quant_method": {"set": True}},
        "refuse": "fsdp",
        "reason": "packed 4-bit weights can not be split among devices",
        "nearest": "remove fsdp: a 4-bit base is small",
    },
    {
        "id": "fsdp_with_own_optimizer",
        "when": {"fsdp": {"set": True}, "optim": {"not_in": ["adamw_torch"]}},
        "refuse": "fsdp",
        "reason": "this optimizer looks at whole matrices, of which each device has a part",
        "nearest": "optim: adamw_torch",
    },
    {
        "id": "fsdp_with_galore",
        "when": {"fsdp": {"set": True}, "use_galore": {"in": [True]}},
        "refuse": "fsdp",
        "reason": "GaLore projects whole matrices, of which each device has a part",
        "nearest": "remove fsdp, or use_galore: false",
    },
    {
        "id": "fsdp_with_lora_plus",
        "when": {"fsdp": {"set": True}, "lorap_lr_ratio": {"set": True}},
        "refuse": "fsdp",
        "reason": "the two rates of LoRA+ are set on weights before they are split",
        "nearest": "remove lorap_lr_ratio",
    },
    {
        "id": "merging_into_split_weights",
        "when": {"merge_lora": {"in": [True]}, "fsdp": {"set": True}},
        "refuse": "merge_lora",
        "reason": "at the end of the training each device has a part of the weights",
        "nearest": "remove it, and run python -m trainer.export on the adapter",
    },
    {
        "id": "merging_into_quantised_weights",
        "when": {"merge_lora": {"in": [True]}, "quant_method": {"set": True}},
        "refuse": "merge_lora",
        "reason": "an adapter added to rounded weights is another one",
        "nearest": "remove it, and run python -m trainer.export on the adapter and a plain base",
    },
    {
        "id": "fsdp_with_other_task",
        "when": {"fsdp": {"set": True}, "task": {"not_in": ["pretrain", "sft"]}},
        "refuse": "fsdp",
        "reason": "a second model beside the trained one, or one that generates, is not split",
        "nearest": "remove fsdp, or tuner_type: lora",
    },
)
"""Rows of ``trainer.rules``."""
