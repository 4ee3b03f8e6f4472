"""The table of optimizers: what each name means, who makes it, and what it can not go with.

Plain data that loads nothing but the standard library, so that ``trainer.rules`` can turn the
refusals into the rules a validator reads, long before a device is taken.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

ANY_TUNER = ("full", "lora")
FULL_ONLY = ("full",)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerRow:
    """One optimizer that a ``train:`` section can choose."""

    optim: tuple[str, ...]
    """Values of ``optim`` that lead here."""
    galore: bool = False
    """Value of ``use_galore`` that leads here."""
    quantised: bool = False
    """Value of ``galore_quantization`` that leads here."""
    lora_plus: bool = False
    """Whether ``lorap_lr_ratio`` leads here."""
    tuners: tuple[str, ...] = ANY_TUNER
    transformers_name: str | None = None
    """transformers' ``optim``; None: ``builder`` makes it."""
    builder: str | None = None
    """``module:function`` of this trainer."""
    needs: str | None = None
    """A package that must be importable."""
    needs_gpu: bool = False
    processes: int | None = None
    """The most processes it works in; None: any number."""
    text: str
    """What it is, for people."""


_FREED = "each gradient is used and freed in the backward pass"
BUILDERS = "trainer.optimizers.building"
OPTIMIZERS: Mapping[str, OptimizerRow] = MappingProxyType(
    {
        "adamw": OptimizerRow(
            optim=("adamw_torch",),
            transformers_name="adamw_torch",
            text="AdamW, both moments in the type of the weights",
        ),
        "lora_plus": OptimizerRow(
            optim=("adamw_torch",),
            lora_plus=True,
            tuners=("lora",),
            builder=f"{BUILDERS}:lora_plus",
            text="AdamW, with a higher learning rate for an adapter's second matrices",
        ),
        "adafactor": OptimizerRow(
            optim=("adafactor",),
            transformers_name="adafactor",
            text="Adafactor, the second moment as a row and a column",
        ),
        "adamw_8bit": OptimizerRow(
            optim=("adamw_8bit",),
            transformers_name="adamw_8bit",
            needs="bitsandbytes",
            text="AdamW, moments in 8 bits",
        ),
        "paged_adamw_8bit": OptimizerRow(
            optim=("paged_adamw_8bit",),
            transformers_name="paged_adamw_8bit",
            needs="bitsandbytes",
            needs_gpu=True,
            text="the same, moments in memory that moves to the host when the GPU's is short",
        ),
        "galore": OptimizerRow(
            optim=("adamw_torch",),
            galore=True,
            tuners=FULL_ONLY,
            builder=f"{BUILDERS}:galore",
            text="AdamW, moments of matrices in a projection of low rank",
        ),
        "galore_8bit": OptimizerRow(
            optim=("adamw_8bit",),
            galore=True,
            tuners=FULL_ONLY,
            builder=f"{BUILDERS}:galore",
            text="the same, moments in 8 bits",
        ),
        "q_galore": OptimizerRow(
            optim=("adamw_torch", "adamw_8bit"),
            galore=True,
            quantised=True,
            tuners=FULL_ONLY,
            builder=f"{BUILDERS}:q_galore",
            processes=1,
            text="GaLore on 8-bit weights: 4-bit projections, 8-bit moments, lazy updates",
        ),
    }
)
"""Every optimizer by the name its row has in the documentation."""


def name_of(train: Mapping[str, Any]) -> str:
    """Return the row of a complete ``train:`` section; the rules leave exactly one."""
    for name, row in OPTIMIZERS.items():
        chosen = (
            train["use_galore"],
            train["galore_quantization"],
            train["lorap_lr_ratio"] is not None,
        )
        if train["optim"] in row.optim and chosen == (row.galore, row.quantised, row.lora_plus):
            return name
    raise LookupError(f"no optimizer for optim {train['optim']} with these keys")


def request_problems(
    train: Mapping[str, Any], *, world_size: int, accumulation: int, on_cpu: bool
) -> Iterator[str]:
    """Yield what a complete section asks of this attempt that it can not have.

    The section alone does not tell: on fewer devices than asked for, an attempt accumulates where
    the section says 1.
    """
    row = OPTIMIZERS[name_of(train)]
    if row.needs is not None and find_spec(row.needs) is None:
        yield (
            f"train.optim: {train['optim']} needs the package {row.needs}, which is not installed "
            "here; nearest: optim: adamw_torch, or with use_galore: true an 8-bit AdamW without it"
        )
    if row.needs_gpu and on_cpu:
        yield (
            f"train.optim: {train['optim']} moves states between GPU and host, and this attempt "
            "runs on CPU slots, where the library would do without in silence; nearest: "
            "optim: adamw_8bit"
        )
    if row.processes is not None and world_size > row.processes:
        yield (
            f"train.galore_quantization: this attempt has {world_size} processes, but the 8-bit "
            "weights of Q-GaLore can not be averaged between them; nearest: one device, or "
            "galore_quantization: false"
        )
    if train["galore_optim_per_parameter"] and max(accumulation, world_size) > 1:
        yield (
            f"train.galore_optim_per_parameter: this attempt has {world_size} processes and "
            f"accumulates {accumulation} passes, but {_FREED} and none can be summed; nearest: "
            "one device with gradient_accumulation_steps: 1, or galore_optim_per_parameter: false"
        )


GALORE = {"use_galore": {"in": [True]}}
PER_PARAMETER = {"galore_optim_per_parameter": {"in": [True]}}
REFUSALS: tuple[Mapping[str, Any], ...] = (
    {
        "id": "galore_with_adafactor",
        "when": GALORE | {"optim": {"in": ["adafactor"]}},
        "refuse": "optim",
        "reason": "Adafactor already keeps a row and a column instead of a matrix; there is "
        "nothing for GaLore to save",
        "nearest": "optim: adamw_torch",
    },
    {
        "id": "galore_with_paged_states",
        "when": GALORE | {"optim": {"in": ["paged_adamw_8bit"]}},
        "refuse": "optim",
        "reason": "GaLore keeps its states small instead of paging them",
        "nearest": "optim: adamw_8bit",
    },
    {
        "id": "lora_plus_with_another_optimizer",
        "when": {"lorap_lr_ratio": {"set": True}, "optim": {"not_in": ["adamw_torch"]}},
        "refuse": "lorap_lr_ratio",
        "reason": "LoRA+ is built on optim: adamw_torch; an adapter's states are small anyway",
        "nearest": "optim: adamw_torch",
    },
    {
        "id": "galore_with_quantised_base",
        "when": GALORE | {"quant_method": {"set": True}},
        "refuse": "quant_method",
        "reason": "GaLore projects gradients, and frozen 4-bit weights have none",
        "nearest": "galore_quantization: true (weights in 8 bits that are trained), or "
        "tuner_type: lora without use_galore",
    },
    {
        "id": "per_parameter_with_accumulation",
        "when": PER_PARAMETER | {"gradient_accumulation_steps": {"above": 1}},
        "refuse": "galore_optim_per_parameter",
        "reason": f"{_FREED}, so those of several passes can not be summed",
        "nearest": "gradient_accumulation_steps: 1, or galore_optim_per_parameter: false",
    },
    {
        "id": "per_parameter_with_clipping",
        "when": PER_PARAMETER | {"max_grad_norm": {"set": True}},
        "refuse": "max_grad_norm",
        "reason": f"{_FREED}, so the norm of all of them is not known in time to scale any",
        "nearest": "remove max_grad_norm, or galore_optim_per_parameter: false",
    },
)
"""Rows of ``trainer.rules``: the arguments of its ``Rule``."""
