"""LoRA on quantised weights: what peft must be told, and what libraries must not do in silence."""

from pathlib import Path
from typing import Any

import torch

from trainer.quantised.gptq_linear import GPTQLinear


def teach(config: Any) -> Any:
    """Return peft's adapter configuration, able to adapt ``GPTQLinear`` layers as well.

    The layer peft has for other GPTQ kernels fits: it adds the adapter to the output of the
    frozen layer and refuses to be merged into it.
    """
    from peft.tuners.lora.gptq import GPTQLoraLinear

    config._register_custom_module({GPTQLinear: GPTQLoraLinear})
    return config


def with_saved_adapter(
    base: Any, folder: str | Path, *, trains: bool, dropout: float | None = None
) -> Any:
    """Return ``base`` with the adapter of a folder, quantised or not.

    ``dropout`` is that of the training to come, instead of the one it was saved with.
    """
    from peft import PeftConfig, PeftModel

    config = teach(PeftConfig.from_pretrained(str(folder)))
    if dropout is not None:
        config.lora_dropout = dropout
    return PeftModel.from_pretrained(base, str(folder), is_trainable=trains, config=config)


def base_of(folder: str | Path) -> str:
    """Return the name of the model that a saved adapter belongs to."""
    from peft import PeftConfig

    return str(PeftConfig.from_pretrained(str(folder)).base_model_name_or_path)


def all_linear(model: Any) -> str | list[str]:
    """Return what ``all-linear`` is to peft: its own word, or names where it knows not all layers.

    Either way every linear layer but the output head.
    """
    if not any(isinstance(module, GPTQLinear) for module in model.modules()):
        return "all-linear"
    head = model.get_output_embeddings()
    return sorted(
        name
        for name, module in model.named_modules()
        if isinstance(module, GPTQLinear | torch.nn.Linear) and module is not head
    )


def trainable_types(model: Any) -> dict[str, torch.dtype]:
    """Return the type of each trainable parameter by name."""
    return {
        name: parameter.dtype
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }


def widen_adapters(model: Any) -> None:
    """Make trainable parameters of a short type float32, in place.

    TRL casts the adapter of a model in 4 bits to bfloat16, in which most steps of an adapter are
    too small to change it.
    """
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.dtype in (torch.bfloat16, torch.float16):
            parameter.data = parameter.data.float()
