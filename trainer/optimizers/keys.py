"""The ``train:`` keys that choose an optimizer and set it up.

Names and defaults are ms-swift 4's.  Loads nothing but the standard library.
"""

from collections.abc import Mapping
from types import MappingProxyType

from trainer.key import Key

LORA = {"tuner_type": ("lora",)}
GALORE = {"use_galore": (True,)}
Q_GALORE = {"galore_quantization": (True,)}

OPTIMIZER_KEYS: Mapping[str, Key] = MappingProxyType(
    {
        "optim": Key(
            type="string",
            default="adamw_torch",
            choices=("adamw_torch", "adafactor", "adamw_8bit", "paged_adamw_8bit"),
            text="Optimizer. The 8-bit ones need bitsandbytes; with use_galore adamw_8bit is our "
            "own and needs nothing.",
        ),
        "lorap_lr_ratio": Key(
            type="number",
            minimum=1,
            only=LORA,
            text="LoRA+: the learning rate of an adapter's second matrix, which starts at zero, "
            "over that of the first; 10 to 16 is usual. Default: the same rate for both.",
        ),
        "use_galore": Key(
            type="boolean",
            default=False,
            only={"tuner_type": ("full",)},
            text="Keep optimizer states of inner matrices in a low-rank projection; embeddings, "
            "head and norms keep full ones.",
        ),
        "galore_rank": Key(
            type="integer",
            default=128,
            minimum=1,
            only=GALORE,
            text="Rank of the projection; at most the smaller side of each projected matrix.",
        ),
        "galore_update_proj_gap": Key(
            type="integer",
            default=50,
            minimum=1,
            only=GALORE,
            text="Steps between two computations of a matrix's projection.",
        ),
        "galore_scale": Key(
            type="number", default=1.0, above=0, only=GALORE, text="Scale of the projected update."
        ),
        "galore_target_modules": Key(
            type="strings",
            only=GALORE,
            text="Parts of the names of the linear layers to project. Default: all but the head.",
        ),
        "galore_optim_per_parameter": Key(
            type="boolean",
            default=False,
            only=GALORE,
            text="Update each weight inside the backward pass and free its gradient, so that only "
            "one exists at a time; one device, no accumulation, no clipping.",
        ),
        "galore_quantization": Key(
            type="boolean",
            default=False,
            only=GALORE,
            text="Q-GaLore: projected weights in 8 bits, projections in 4, moments in 8, and "
            "projections of settled layers computed ever less often; one device.",
        ),
        "galore_cos_threshold": Key(
            type="number",
            default=0.4,
            above=0,
            maximum=1,
            only=Q_GALORE,
            text="Mean overlap of successive projections (squared cosines of the angles between "
            "their subspaces) from which a layer counts as settled.",
        ),
        "galore_gamma_proj": Key(
            type="number",
            default=2.0,
            above=1,
            only=Q_GALORE,
            text="Factor by which the gap of a settled layer grows.",
        ),
        "galore_queue_size": Key(
            type="integer",
            default=5,
            minimum=1,
            only=Q_GALORE,
            text="Overlaps that galore_cos_threshold is compared with the mean of.",
        ),
    }
)
"""Part of ``trainer.keys.KEYS``."""
