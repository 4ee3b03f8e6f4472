"""What a layer keeps of the forward pass, in bytes a token, tensor by tensor.

Source: autograd's rules on the released modules, counted with saved-tensor hooks (a test holds
these numbers to a real run), in the manner of Korthikanti et al., 2205.05198, section 4.1: a
matrix product keeps its input where its weight (or an adapter on it) is trained; SiLU keeps its
input; a product keeps both sides; flash attention keeps Q, K, V and its output; an eager
RMSNorm keeps a 32-bit copy, and its normalised input where its weight is trained.
"""

from dataclasses import dataclass

from reconciler.estimating import counting
from reconciler.estimating.constants import MemoryConstants
from reconciler.estimating.model import Experts, Model
from reconciler.estimating.states import widens
from reconciler.estimating.training import (
    Attention,
    Checkpointing,
    Engine,
    Offload,
    Precision,
    Quantisation,
    Training,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerActivations:
    """Bytes a token that one layer keeps, by how tensor parallelism splits them."""

    whole: float
    """The residual stream and norms: split only by sequence parallelism."""
    split: float
    """Inside attention and MLP: split by tensor parallelism."""
    boundary: float
    """The layer's input alone: all that full checkpointing keeps."""

    def per_rank(self, tensor: int, *, sequence: bool) -> float:
        """Return bytes a token on one tensor-parallel rank."""
        return self.whole / (tensor if sequence else 1) + self.split / tensor


BITSANDBYTES = frozenset({Quantisation.NF4, Quantisation.NF4_DOUBLE, Quantisation.INT8})
"""Quantisers whose matrix product keeps its input although the weight is frozen
(bitsandbytes ``MatMul4Bit``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """How wide a number is and which matrices keep their input."""

    element: float
    residual: float
    trained: frozenset[str]
    full: bool
    adapter_extra: float
    """Bytes an element of an adapter's input takes beyond the shared one."""

    def keeps(self, *names: str) -> bool:
        """Return whether any of the matrices needs its input for the backward pass."""
        return self.full or any(name in self.trained for name in names)

    def added(self, *names: str) -> float:
        """Return bytes an element that the adapters on these matrices add."""
        return self.adapter_extra * sum(name in self.trained for name in names)


def keeping(training: Training) -> Keeping:
    """Return the rules of keeping for one training."""
    element = 4.0 if training.precision is Precision.FP32 else 2.0
    residual = 4.0 if widens(training) else element
    if not training.is_adapter:
        return Keeping(
            element=element, residual=residual, trained=frozenset(), full=True, adapter_extra=0.0
        )
    names: set[str] = set()
    fused = 0
    for linear in counting.trained_linears(training.model, training.lora_targets):
        if linear.name == "qkv":
            names.add("q_proj")
            fused += 1
        names.add(linear.name)
    copied = 0.0
    if training.engine is Engine.TRANSFORMERS and element < 4:
        copied = element if training.autocast else 4.0
    masked = 1.0 + max(copied, element) if training.lora_dropout else 0.0
    return Keeping(
        element=element,
        residual=residual,
        trained=frozenset(names),
        full=training.quantisation in BITSANDBYTES,
        adapter_extra=max(masked, copied),
    )


def layer(training: Training, constants: MemoryConstants) -> LayerActivations:
    """Return what an average layer keeps, after selective checkpointing but not full."""
    model = training.model
    keep = keeping(training)
    norms = _norms(training, keep)
    attention = _attention(training, keep)
    mlp, routed = _mlp(model, training, keep)
    share = 1.0
    if training.checkpointing is Checkpointing.SELECTIVE_OP:
        share = constants.selective_op_share
    return LayerActivations(
        whole=share * (norms + routed),
        split=share * (attention + mlp),
        boundary=keep.residual * model.hidden,
    )


def _norms(training: Training, keep: Keeping) -> float:
    """Return what the two norms keep, with their outputs where a matrix reads them."""
    h, e = training.model.hidden, keep.element
    first = ("q_proj", "k_proj", "v_proj", "q_a_proj", "kv_a_proj_with_mqa", "qkv")
    second = ("gate_proj", "up_proj")
    if training.is_fused or not training.model.gated:
        kept = 2 * keep.residual  # the residual itself; statistics are small
    else:
        kept = 2 * (4.0 + (e if keep.full else 0.0))
    outputs = e * (keep.keeps(*first) + keep.keeps(*second))
    if _recomputes(training, "layernorm"):
        outputs = 0.0
    return h * (kept + outputs + keep.added(*first, *second))


def _recomputes(training: Training, module: str) -> bool:
    return training.checkpointing is Checkpointing.SELECTIVE and module in training.recompute


def _attention(training: Training, keep: Keeping) -> float:
    model, e = training.model, keep.element
    q, kv = model.query_width, model.kv_width
    values = q
    extra = 0.0
    if model.latent is not None:
        m = model.latent
        q = model.heads * (m.nope_dim + m.rope_dim)
        kv, values = q, model.heads * m.value_dim
        extra = e * 2 * (m.query_rank + m.kv_rank) + 4.0 * (m.query_rank + m.kv_rank)
        kept = e * (2 * q + values)
    else:
        kept = e * (q + 2 * kv)
    if model.qk_norm and not training.is_fused:
        extra += (4.0 + (e if keep.full else 0.0)) * (q + kv)
    kept += e * values + keep.added("o_proj") * values
    if training.attention is Attention.EAGER and not _recomputes(training, "core_attn"):
        kept += model.heads * (4.0 + e) * training.seq_len
    return kept + extra


def _mlp(model: Model, training: Training, keep: Keeping) -> tuple[float, float]:
    """Return bytes a token of the MLP's inside, and of routing copies of the residual."""
    dense = _mlp_inside(model.intermediate, training, keep, gated=model.gated)
    if model.experts is None:
        return dense, 0.0
    e = model.experts
    moe, routed = _experts(model, e, training, keep)
    share = model.moe_layers / model.layers
    return (1 - share) * dense + share * moe, share * routed


def _mlp_inside(width: int, training: Training, keep: Keeping, *, gated: bool) -> float:
    e = keep.element
    product = e if keep.keeps("down_proj") else 0.0
    matrices = 2 * e if gated else e
    function = e if gated and not training.is_fused else 0.0
    if _recomputes(training, "moe_act"):
        product = 0.0
    return width * (matrices + function + product + keep.added("down_proj"))


def _experts(
    model: Model, experts: Experts, training: Training, keep: Keeping
) -> tuple[float, float]:
    """Return bytes a token inside the experts, and of the copies routing makes.

    A token's hidden state is copied to each of its experts; transformers also keeps each
    expert's result for the weighted sum, Megatron weighs inside the expert.
    """
    if _recomputes(training, "moe"):
        return 0.0, keep.element * model.hidden
    visits = experts.active * training.expert_imbalance
    inside = visits * _mlp_inside(experts.intermediate, training, keep, gated=True)
    inside += experts.shared * _mlp_inside(experts.intermediate, training, keep, gated=True)
    results = 1 if training.engine is Engine.MEGATRON else 2
    copies = visits * results * keep.element * model.hidden
    return inside, copies + 4.0 * experts.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Bytes on one rank."""

    stored: float
    """Kept by all layers at the end of the forward pass."""
    working: float
    """Recomputed while one layer goes backward; 0 without full checkpointing."""
    transient: float
    """Gradients of activations inside that layer."""


def kept(training: Training, constants: MemoryConstants, *, layers: int, in_flight: float) -> Kept:
    """Return what ``layers`` layers keep for ``in_flight`` micro-batches on one rank."""
    layout = training.layout
    tokens = training.micro_tokens / layout.context
    one = layer(training, constants)
    whole = tokens * one.per_rank(layout.tensor, sequence=layout.sequence)
    boundary = tokens * one.boundary / (layout.tensor if layout.sequence else 1)
    transient = constants.backward_share * whole
    if training.checkpointing is not Checkpointing.FULL:
        stored = whole * layers * in_flight
        if training.offload is Offload.ACTIVATIONS:
            return Kept(stored=0.0, working=2 * whole, transient=transient)
        return Kept(stored=stored, working=0.0, transient=transient)
    stored = boundary * layers * in_flight
    if training.offload is Offload.ACTIVATIONS:
        stored = 2 * boundary
    return Kept(stored=stored, working=whole, transient=transient)


PATCHES_PER_TOKEN = 4
"""Image patches merged into one token the language model sees (2 x 2)."""


def tower(training: Training) -> float:
    """Return what the vision tower keeps: 34 h bytes a patch and layer, 2 h with checkpointing.

    Source: Korthikanti et al., 2205.05198, for a GELU transformer with fused attention.
    """
    vision = training.model.vision
    if vision is None or not training.image_tokens:
        return 0.0
    patches = PATCHES_PER_TOKEN * training.image_tokens * training.micro_batch
    one = 34.0 * vision.hidden
    if training.checkpointing is Checkpointing.FULL:
        return patches * (2.0 * vision.hidden * vision.layers + one)
    return patches * one * vision.layers
