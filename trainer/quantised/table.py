"""The table of quantised bases: what each method is, and what it can not go with.

Plain data that loads nothing but the standard library, so that ``trainer.rules`` can turn the
refusals into the rules a validator reads, long before a device is taken.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantisedRow:
    """One value of ``quant_method``."""

    bits: tuple[int, ...]
    tuners: tuple[str, ...] = ("lora",)
    needs: str | None = None
    """A package that must be importable."""
    text: str
    """What it is, for people."""


METHODS: Mapping[str, QuantisedRow] = MappingProxyType(
    {
        "bnb": QuantisedRow(
            bits=(4,),
            needs="bitsandbytes",
            text="any model, quantised to NF4 or FP4 while it is loaded (QLoRA)",
        ),
        "gptq": QuantisedRow(
            bits=(2, 4, 8),
            text="a model whose files hold GPTQ weights, read by plain torch layers",
        ),
    }
)
"""Every value of ``quant_method``; ``trainer.keys`` offers the same."""

REFUSALS: tuple[Mapping[str, Any], ...] = (
    {
        "id": "quantised_base_with_full_tuning",
        "when": {"quant_method": {"set": True}, "tuner_type": {"in": ["full"]}},
        "refuse": "quant_method",
        "reason": "quantised weights are frozen; only an adapter on top of them can be trained",
        "nearest": "tuner_type: lora, or use_galore: true with galore_quantization: true, which "
        "trains weights in 8 bits",
    },
    {
        "id": "bnb_bits",
        "when": {
            "quant_method": {"in": ["bnb"]},
            "quant_bits": {"set": True, "not_in": list(METHODS["bnb"].bits)},
        },
        "refuse": "quant_bits",
        "reason": "with quant_method: bnb the base is loaded in 4 bits",
        "nearest": "quant_bits: 4",
    },
    {
        "id": "gptq_bits",
        "when": {
            "quant_method": {"in": ["gptq"]},
            "quant_bits": {"set": True, "not_in": list(METHODS["gptq"].bits)},
        },
        "refuse": "quant_bits",
        "reason": "this trainer reads GPTQ weights of 2, 4 and 8 bits",
        "nearest": "quant_bits: 4",
    },
    {
        "id": "dora_on_gptq",
        "when": {"use_dora": {"in": [True]}, "quant_method": {"in": ["gptq"]}},
        "refuse": "use_dora",
        "reason": "DoRA needs the norm of each weight column, which frozen GPTQ layers do not give",
        "nearest": "use_dora: false, or quant_method: bnb",
    },
)
"""Rows of ``trainer.rules``: the arguments of its ``Rule``."""
