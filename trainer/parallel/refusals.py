"""Which ways of spreading a training do not go with which tasks and tuners."""

from collections.abc import Mapping
from typing import Any

REFUSALS: tuple[Mapping[str, Any], ...] = (
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
