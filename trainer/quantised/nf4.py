"""QLoRA's base: weights loaded in 4 bits by bitsandbytes, on GPU or CPU.

Dettmers et al. 2023, "QLoRA".  The library quantises while it loads, so any model folder will do;
one that is already in its format is loaded as it is.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from trainer.config import RequestError


def configuration(train: Mapping[str, Any], *, weights_type: str) -> Any:
    """Return transformers' configuration for the base of a ``train:`` section.

    ``weights_type`` is the type of what is not quantised, and of the arithmetic where
    ``bnb_4bit_compute_dtype`` does not say otherwise.  Raises RequestError without bitsandbytes.
    """
    if find_spec("bitsandbytes") is None:
        raise RequestError(
            "train.quant_method: bnb needs the package bitsandbytes, which is not installed here; "
            "nearest: remove quant_method, or take a GPTQ model with quant_method: gptq"
        )
    import torch
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type=train["bnb_4bit_quant_type"],
        bnb_4bit_use_double_quant=train["bnb_4bit_use_double_quant"],
        bnb_4bit_compute_dtype=getattr(torch, train["bnb_4bit_compute_dtype"] or weights_type),
    )
