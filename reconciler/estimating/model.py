"""What shape a model has: the numbers that memory and speed follow from.

A shape is a fact with a source, read by ``reconciler.specs.catalogue`` from the shipped
catalogue or from a local ``config.json``; nothing here guesses from a name.  How many
parameters a shape has is counted in ``estimating.counting``.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """The mixture-of-experts part of a model's layers."""

    count: int
    active: int
    """Experts a token visits (top k), shared ones not counted."""
    intermediate: int
    """Width of one expert."""
    shared: int = 0
    """Experts that every token visits, each as wide as the others."""
    dense_layers: int = 0
    """Layers with an ordinary MLP, before those with experts."""
    router_bias: bool = False
    biases: bool = False
    """Whether the experts' own matrices have biases (GPT-OSS)."""
    shared_gate: bool = False
    """Whether the shared expert's output is gated (Qwen3-Next)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """DeepSeek's multi-head latent attention: low-rank queries, keys and values."""

    query_rank: int
    """0: queries are projected directly."""
    kv_rank: int
    rope_dim: int
    nope_dim: int
    value_dim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearAttention:
    """Gated delta-rule layers between the full-attention ones (Qwen3-Next)."""

    layers: int
    """How many of the model's layers are of this kind."""
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionTower:
    """An image encoder in front of a language model, with its projector."""

    layers: int
    hidden: int
    intermediate: int
    parameters: int
    """Counted, projector included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One released shape.  Widths are in elements, ``intermediate`` of the dense layers' MLP."""

    name: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool
    """Whether the output head is the input embedding."""
    gated: bool = True
    """Three MLP matrices (SwiGLU) instead of two (GELU)."""
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False
    query_gate: bool = False
    """Whether queries carry an output gate of their own width (Qwen3-Next)."""
    sinks: bool = False
    qk_norm: bool = False
    """Queries and keys are normalised per head, with learned weights (Qwen3)."""
    norms_per_layer: float = 2.0
    """Learned norm vectors of a layer in units of ``hidden``; a norm with a bias counts twice."""
    final_norm: float = 1.0
    """The same for the norm before the head."""
    widens_logits: bool = True
    """Whether the model's code computes the loss in 32 bit; Qwen-1's own code leaves it to
    autocast, which DeepSpeed does not use."""
    positions: int = 0
    """Rows of a learned position embedding; 0: rotary or none."""
    experts: Experts | None = None
    latent: LatentAttention | None = None
    linear: LinearAttention | None = None
    vision: VisionTower | None = None
    source: str = ""

    @property
    def query_width(self) -> int:
        """Return heads x head dimension: not always ``hidden`` (Qwen3-4B, GPT-OSS)."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Return key-value heads x head dimension: the width of K, and of V."""
        return self.kv_heads * self.head_dim

    @property
    def moe_layers(self) -> int:
        """Return how many layers have experts."""
        return 0 if self.experts is None else self.layers - self.experts.dense_layers

    @property
    def dense_layers(self) -> int:
        """Return how many layers have an ordinary MLP."""
        return self.layers - self.moe_layers
