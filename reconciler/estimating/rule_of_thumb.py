"""The rule of thumb people quote for parallel strategies, and where measurements disagree.

Shown beside advice, never used for it: by size alone (<= 13B FSDP + LoRA, 13B to 70B tensor and
pipeline parallelism, >= 70B or mixture of experts Megatron with expert and pipeline
parallelism).
"""

from dataclasses import dataclass

from reconciler.estimating import counting
from reconciler.estimating.model import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of the table."""

    models: str
    strategy: str
    measured: str
    """A published measurement that agrees or disagrees, with its source."""


RULES = (
    Rule(
        models="<= 13B",
        strategy="FSDP + LoRA",
        measured="agrees on NVLink; over PCIe replicas are faster where the weights fit: "
        "Llama-2-7B LoRA on 2 RTX 4090, DDP 2400 tokens/s a GPU, FSDP 2176 (fsdp_qlora)",
    ),
    Rule(
        models="13B to 70B",
        strategy="DeepSpeed tensor + pipeline (TP4 PP2)",
        measured="DeepSpeed has no pipeline for transformers' models, so this is Megatron; "
        "14B full on 8 A800: Megatron TP4 9.0 s a step, ZeRO-2 10.3, ZeRO-3 10.6 (ms-swift "
        "docs), and 70B LoRA ran sharded on 4 to 8 GPUs without either (PEFT, Qwen)",
    ),
    Rule(
        models=">= 70B or mixture of experts",
        strategy="Megatron expert + pipeline",
        measured="agrees for experts: Qwen3-30B-A3B, Megatron EP8 PP2 9.6 s a step, ZeRO-3 91 s "
        "(ms-swift docs); but least tensor parallelism wins: Qwen3-235B-A22B TP2 PP32 1461 "
        "tokens/s a GPU, TP4 PP8 923 (xtuner), and a dense 70B on 256 GPUs was fastest with "
        "FSDP + TP (torchtitan)",
    ),
)


def rule_for(model: Model) -> Rule:
    """Return the line the rule of thumb has for ``model``."""
    billions = counting.total(model) / 1e9
    if model.experts is not None or billions >= 70:
        return RULES[2]
    return RULES[0] if billions <= 13.5 else RULES[1]
