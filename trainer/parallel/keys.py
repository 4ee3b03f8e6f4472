"""The ``train:`` keys that say how one training is spread over several devices.

Names are ms-swift 4's.  Loads nothing but the standard library.
"""

from collections.abc import Mapping
from types import MappingProxyType

from trainer.key import Key

PARALLEL_KEYS: Mapping[str, Key] = MappingProxyType(
    {
        "fsdp": Key(
            type="string",
            choices=("fsdp2",),
            text="Split weights, gradients and optimizer states among all devices. Default: each "
            "device has all of them (DDP).",
        ),
        "fsdp_reshard_after_forward": Key(
            type="boolean",
            default=True,
            only={"fsdp": ("fsdp2",)},
            text="Free a layer's gathered weights after its forward pass and gather them again for "
            "the backward pass (what ZeRO-3 does); false keeps them in between (what ZeRO-2 does): "
            "more memory, fewer messages.",
        ),
        "tensor_model_parallel_size": Key(
            type="integer",
            default=1,
            minimum=1,
            text="Devices that split each layer's matrices (transformers' own plan for the model); "
            "1 or the number of devices.",
        ),
        "expert_model_parallel_size": Key(
            type="integer",
            default=1,
            minimum=1,
            text="Devices that split the experts of a mixture-of-experts model: 1 or, with "
            "tensor_model_parallel_size, the same number.",
        ),
        "pipeline_model_parallel_size": Key(
            type="integer",
            default=1,
            minimum=1,
            text="Devices that have some of the layers each (schedule 1F1B); 1 or the number of "
            "devices, and at most gradient_accumulation_steps.",
        ),
        "sequence_parallel_size": Key(
            type="integer",
            default=1,
            minimum=1,
            text="Devices that share each row, a stretch of its tokens each; divides the number "
            "of devices.",
        ),
        "sequence_parallel_attention": Key(
            type="string",
            default="ulysses",
            choices=("ulysses", "all_gather"),
            text="How they attend: ulysses exchanges heads for tokens (the number of heads must "
            "divide); all_gather collects keys and values.",
        ),
    }
)
"""Part of ``trainer.keys.KEYS``."""
