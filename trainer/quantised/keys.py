"""The ``train:`` keys for a base whose weights are quantised.

Names and defaults are ms-swift 4's.  Loads nothing but the standard library.
"""

from collections.abc import Mapping
from types import MappingProxyType

from trainer.key import Key
from trainer.quantised.table import METHODS

QUANTISED = {"quant_method": tuple(METHODS)}
BNB = {"quant_method": ("bnb",)}

QUANTISED_KEYS: Mapping[str, Key] = MappingProxyType(
    {
        "quant_method": Key(
            type="string",
            choices=tuple(METHODS),
            only={"tuner_type": ("lora",)},
            text="Keep the frozen base in few bits: bnb quantises any model while it is loaded "
            "(QLoRA), gptq loads a model whose files hold GPTQ weights. Default: not quantised.",
        ),
        "quant_bits": Key(
            type="integer",
            minimum=2,
            maximum=8,
            only=QUANTISED,
            text="Bits of a quantised weight: 4 with bnb; with gptq those of the files, and only "
            "compared with them. Default: 4 with bnb, the files' with gptq.",
        ),
        "bnb_4bit_quant_type": Key(
            type="string",
            default="nf4",
            choices=("nf4", "fp4"),
            only=BNB,
            text="Code values: nf4 suits weights as they are distributed.",
        ),
        "bnb_4bit_use_double_quant": Key(
            type="boolean",
            default=True,
            only=BNB,
            text="Quantise the scales as well, which saves 0.4 bits a weight.",
        ),
        "bnb_4bit_compute_dtype": Key(
            type="string",
            choices=("float32", "bfloat16"),
            only=BNB,
            text="Type of the arithmetic. Default: that of the weights that are not quantised.",
        ),
    }
)
"""Part of ``trainer.keys.KEYS``."""
