"""What is trained and how: everything that memory and speed depend on, as one value.

Made from a job's ``train:`` section, from a row of a measurement table, or by the advisor;
the formulas never see where it came from.
"""

from dataclasses import dataclass
from enum import StrEnum

from reconciler.estimating.model import Model


class Task(StrEnum):
    PRETRAIN = "pretrain"
    SFT = "sft"
    DPO = "dpo"
    GRPO = "grpo"
    EMBEDDING = "embedding"
    RERANKER = "reranker"
    REWARD = "reward"


class Quantisation(StrEnum):
    """How frozen weights are stored.  Embedding, head and norms stay in 16 bit."""

    NONE = "none"
    NF4 = "nf4"
    NF4_DOUBLE = "nf4-double"
    INT8 = "int8"
    GPTQ4 = "gptq4"
    GPTQ8 = "gptq8"


class Optimizer(StrEnum):
    ADAMW = "adamw"
    ADAMW_FUSED = "adamw-fused"
    """One kernel, no temporaries of the parameters' size."""
    ADAMW_BF16_MOMENTS = "adamw-bf16-moments"
    ADAMW_8BIT = "adamw-8bit"
    ADAMW_4BIT = "adamw-4bit"
    PAGED_ADAMW_8BIT = "paged-adamw-8bit"
    """States move to the host when memory is short."""
    ADAFACTOR = "adafactor"
    LION = "lion"
    MUON = "muon"
    SGD = "sgd"
    GALORE = "galore"
    GALORE_8BIT = "galore-8bit"
    Q_GALORE = "q-galore"
    LISA = "lisa"
    """AdamW on a few random layers at a time, the rest frozen."""


class Precision(StrEnum):
    """What the weights are kept in, and what the products are computed in."""

    FP32 = "fp32"
    BF16 = "bf16"
    """16-bit weights; whether the optimizer keeps a 32-bit copy is ``Training.master``."""
    FP16 = "fp16"
    FP8 = "fp8"
    """16-bit weights, products in 8 bit."""


class Checkpointing(StrEnum):
    """What a layer keeps of its forward pass for the backward pass."""

    NONE = "none"
    SELECTIVE = "selective"
    """Recomputes the attention core only (Megatron)."""
    SELECTIVE_OP = "selective-op"
    """Keeps every second matrix product (torchtitan)."""
    FULL = "full"


class Attention(StrEnum):
    EAGER = "eager"
    SDPA = "sdpa"
    """torch's fused kernels: FlashAttention-2 on a recent GPU."""
    FLASH1 = "flash1"
    FLASH = "flash"
    """FlashAttention-2."""
    FLASH3 = "flash3"
    """FlashAttention-3, cuDNN."""


class Loss(StrEnum):
    """How the logits of a language-model loss are held."""

    FULL = "full"
    CHUNKED = "chunked"
    IN_PLACE = "in-place"
    """16-bit logits whose gradient replaces them (flash-attention's cross-entropy)."""
    FUSED = "fused"
    """Head and loss in one kernel (liger, cut cross-entropy): logits never exist as a whole."""
    NONE = "none"
    """No vocabulary logits: embedding, reranker and reward heads."""


class Offload(StrEnum):
    NONE = "none"
    OPTIMIZER = "optimizer"
    PARAMETERS = "parameters"
    """Weights, gradients and states live on the host between uses."""
    ACTIVATIONS = "activations"


class Sharding(StrEnum):
    """Who keeps what of the data-parallel replicas' states."""

    NONE = "none"
    ZERO1 = "zero1"
    ZERO2 = "zero2"
    ZERO3 = "zero3"
    FSDP = "fsdp"
    DISTRIBUTED_OPTIMIZER = "distributed-optimizer"
    """Megatron: 16-bit weights and 32-bit gradients whole, optimizer sharded."""


class Engine(StrEnum):
    """Whose layers run: decides which intermediate results exist at all."""

    TRANSFORMERS = "transformers"
    """Eager modules: norms keep a 32-bit copy, adapters have 32-bit weights (PEFT)."""
    NATIVE = "native"
    """Plain torch recipes (torchtitan, torchtune, litgpt): adapters have the model's type."""
    MEGATRON = "megatron"
    """Fused norms, rotary embedding and activation functions."""
    INTERNEVO = "internevo"
    """Its ZeRO runs torch's AdamW over flat copies of the 32-bit gradients."""


class Lengths(StrEnum):
    """Whether steps have equal shapes: the allocator reuses only blocks that fit."""

    FIXED = "fixed"
    """Packed, or padded to one length."""
    VARIABLE = "variable"
    CHURNING = "churning"
    """Variable under an allocator without expandable segments (torch before 2.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How GPUs share one model.  ``gpus`` = data x tensor x pipeline x context."""

    data: int = 1
    sharding: Sharding = Sharding.NONE
    shard_group: int | None = None
    """Replicas that share one copy of the sharded states; None: all of them."""
    tensor: int = 1
    pipeline: int = 1
    virtual: int = 1
    """Model chunks a pipeline stage holds (interleaved schedule); 1: plain 1F1B."""
    context: int = 1
    is_ring: bool = False
    """Whether contexts pass keys and values around a ring block by block, instead of
    exchanging heads (Ulysses) or overlapping as Megatron's own kernels do."""
    expert: int = 1
    """Ranks, out of data x context x tensor, that split the experts."""
    sequence: bool = False
    """Whether tensor parallelism also splits the sequence outside attention and MLP."""
    naive_pipeline: bool = False
    """Layers on several GPUs without a schedule (``device_map``): one works at a time."""

    def __post_init__(self) -> None:
        sizes = (self.data, self.tensor, self.pipeline, self.virtual, self.context, self.expert)
        if min(sizes) < 1:
            raise ValueError(f"parallel sizes are whole numbers from 1, got {sizes}")

    @property
    def gpus(self) -> int:
        """Return the GPUs this layout takes."""
        return self.data * self.tensor * self.pipeline * self.context

    @property
    def shards(self) -> int:
        """Return how many ranks share one copy of the sharded states."""
        ranks = self.data * self.context
        return min(self.shard_group or ranks, ranks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """The inference engine that shares the GPUs of a GRPO job."""

    pool_gib: float = 0.0
    """What it takes while it samples: vLLM's ``gpu_memory_utilization`` of the device."""
    sleeps: bool = True
    """Whether it gives its pool back during the training step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """One training run.  Lengths in tokens, batches in samples a data-parallel rank."""

    model: Model
    seq_len: int
    micro_batch: int = 1
    accumulation: int = 1
    task: Task = Task.SFT
    layout: Layout = Layout()
    precision: Precision = Precision.BF16
    master: bool = False
    """Whether 32-bit weights are kept (mixed precision) beside or instead of 16-bit ones."""
    lora_rank: int = 0
    """0: all weights are trained."""
    lora_targets: tuple[str, ...] = ("all-linear",)
    lora_dropout: bool = True
    dora: bool = False
    trains_embedding: bool = False
    """Whether embedding and head are trained whole beside the adapter."""
    quantisation: Quantisation = Quantisation.NONE
    optimizer: Optimizer = Optimizer.ADAMW
    galore_rank: int = 128
    in_backward: bool = False
    """Whether a layer's update runs as soon as its gradient is there: one layer's gradients."""
    checkpointing: Checkpointing = Checkpointing.FULL
    recompute: tuple[str, ...] = ("core_attn",)
    """What selective checkpointing recomputes, in Megatron's names: ``core_attn layernorm
    moe_act moe mlp``."""
    attention: Attention = Attention.SDPA
    loss: Loss = Loss.FULL
    offload: Offload = Offload.NONE
    engine: Engine = Engine.TRANSFORMERS
    autocast: bool = True
    """Whether 16-bit products run under autocast: PEFT's adapters then keep 16-bit copies of
    their inputs instead of 32-bit ones."""
    compiled: bool = False
    """torch.compile or like kernels: norms and activation functions are recomputed."""
    reduces_in_16_bit: bool = False
    """Whether Megatron keeps its gradient buffer in 16 bit (``grad_reduce_in_fp32: false``)."""
    shifts_logits: bool = False
    """Whether the loss shifts a copy of the logits: transformers before 4.45."""
    packed: bool = False
    lengths: Lengths = Lengths.FIXED
    expert_imbalance: float = 1.0
    """Tokens of the busiest expert rank over the mean."""
    reference_model: bool | None = None
    """DPO, GRPO: a frozen copy beside the policy; None: one where the task needs it."""
    rollout: Rollout = Rollout()
    image_tokens: int = 0
    """Vision tokens a sample has, out of ``seq_len``; each is four patches in the tower."""

    def __post_init__(self) -> None:
        if min(self.seq_len, self.micro_batch, self.accumulation) < 1:
            raise ValueError("length, micro-batch and accumulation are whole numbers from 1")
        if self.is_adapter and self.optimizer in GALORE_FAMILY:
            raise ValueError("GaLore projects gradients of whole weights; an adapter has none")
        if self.quantisation is not Quantisation.NONE and not self.is_adapter:
            raise ValueError("quantised weights are frozen: they need an adapter (lora_rank)")

    @property
    def is_adapter(self) -> bool:
        """Return whether only an adapter is trained."""
        return self.lora_rank > 0

    @property
    def is_fused(self) -> bool:
        """Return whether pointwise results are recomputed instead of kept."""
        return self.compiled or self.engine in (Engine.MEGATRON, Engine.INTERNEVO)

    @property
    def has_reference(self) -> bool:
        """Return whether a frozen copy of the policy is kept: not with an adapter."""
        if self.reference_model is not None:
            return self.reference_model
        return self.task in (Task.DPO, Task.GRPO) and not self.is_adapter

    @property
    def micro_tokens(self) -> int:
        """Return the tokens one model replica holds at once, before context parallelism.

        DPO puts the chosen and the rejected answer through together; a packed row already
        holds both.  Contrastive tasks encode the query and the passage.
        """
        pairs = 2 if self.task in PAIRED and not self.packed else 1
        return self.seq_len * self.micro_batch * pairs

    @property
    def global_batch(self) -> int:
        """Return the samples of one optimizer step."""
        return self.micro_batch * self.accumulation * self.layout.data

    @property
    def step_tokens(self) -> int:
        """Return the tokens of one optimizer step over all GPUs."""
        return self.micro_tokens * self.accumulation * self.layout.data


GALORE_FAMILY = frozenset({Optimizer.GALORE, Optimizer.GALORE_8BIT, Optimizer.Q_GALORE})
PAIRED = frozenset({Task.DPO, Task.EMBEDDING})
NO_LOGITS = frozenset({Task.EMBEDDING, Task.RERANKER, Task.REWARD})
