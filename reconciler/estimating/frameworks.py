"""Which software a published measurement ran, as far as it decides which tensors exist.

Part of a row's configuration, not of its result: the same layers kept in 32 or 16 bit, a loss
that copies its logits or works in place, a gradient buffer of half the size.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.estimating.training import Engine, Loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """What a source ran, as far as it decides which tensors exist."""

    mark: str
    """Part of the source's name."""
    engine: Engine
    shifts_logits: bool = False
    loss: Loss = Loss.FULL
    reduces_in_16_bit: bool = False
    why: str = ""
    """Where that is written."""


OLD_LOSS = "transformers before 4.45: shift_logits = logits.float()[..., :-1, :].contiguous()"
PERF = "performance recipes set grad_reduce_in_fp32 = False"

FRAMEWORKS = (
    Framework(mark="torchtitan", engine=Engine.NATIVE, why="its own Llama, fused AdamW"),
    Framework(mark="torchtune", engine=Engine.NATIVE, why="its own layers, fused AdamW"),
    Framework(mark="torchao", engine=Engine.NATIVE, why="runs torchtune's recipe"),
    Framework(mark="litgpt", engine=Engine.NATIVE, why="its own GPT and LoRA in bf16-true"),
    Framework(
        mark="llm-foundry",
        engine=Engine.NATIVE,
        loss=Loss.IN_PLACE,
        why="loss_fn: fused_crossentropy (flash-attention's); decoupled AdamW loops tensors",
    ),
    Framework(mark="Megatron-Bridge", engine=Engine.MEGATRON, reduces_in_16_bit=True, why=PERF),
    Framework(mark="NeMo", engine=Engine.MEGATRON, reduces_in_16_bit=True, why=PERF),
    Framework(mark="MindSpeed", engine=Engine.MEGATRON, why="Megatron-LM on Ascend"),
    Framework(
        mark="InternEvo",
        engine=Engine.INTERNEVO,
        loss=Loss.IN_PLACE,
        why="FlashGPTLMLoss; HybridZeroOptimizer, reduce_bucket_size 512 Mi elements",
    ),
    Framework(mark="QwenLM/Qwen", engine=Engine.TRANSFORMERS, shifts_logits=True, why=OLD_LOSS),
    Framework(mark="ms-swift v2", engine=Engine.TRANSFORMERS, shifts_logits=True, why=OLD_LOSS),
    Framework(mark="fsdp_qlora", engine=Engine.TRANSFORMERS, shifts_logits=True, why=OLD_LOSS),
    Framework(mark="EasyContext", engine=Engine.TRANSFORMERS, shifts_logits=True, why=OLD_LOSS),
)
"""Software is part of a configuration; where a row does not name it, its columns decide."""


def framework_of(row: Mapping[str, str]) -> Framework:
    """Return what a row's source ran; an unknown source by its columns."""
    source = row.get("source", "")
    megatron = row.get("zero_fsdp") == "megatron-distopt"
    for framework in FRAMEWORKS:
        if framework.mark in source and not (megatron and "ms-swift" in source):
            return framework
    engine = Engine.MEGATRON if megatron else Engine.TRANSFORMERS
    return Framework(mark="", engine=engine)
