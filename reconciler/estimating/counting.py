"""How many parameters a shape has, by part: exact integers, held to published counts.

Source: the modules of each architecture as released (transformers' modelling files); the
catalogue's tests compare every total with the published one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from reconciler.estimating.model import Experts, Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """One matrix that a layer applies to every token it sees."""

    name: str
    inputs: int
    outputs: int
    copies: int = 1
    """Experts hold many copies of a matrix; a token goes through a few of them."""
    layers: int = 0
    """How many of the model's layers have it."""

    @property
    def parameters(self) -> int:
        """Parameters of one copy, without bias."""
        return self.inputs * self.outputs


ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
MLP = ("gate_proj", "up_proj", "down_proj")


def embedding(model: Model) -> int:
    """Return the parameters of the token (and learned position) embedding."""
    return (model.vocab + model.positions) * model.hidden


def head(model: Model) -> int:
    """Return the parameters of the output head; 0 where it is the embedding."""
    return 0 if model.tied else model.vocab * model.hidden + model.head_bias * model.vocab


def attention(model: Model) -> int:
    """Return the parameters of one full-attention block, norms inside it included."""
    h, q, kv = model.hidden, model.query_width, model.kv_width
    if model.latent is not None:
        m = model.latent
        per_head = m.nope_dim + m.rope_dim
        queries = (
            h * m.query_rank + m.query_rank + m.query_rank * model.heads * per_head
            if m.query_rank
            else h * model.heads * per_head
        )
        keys = h * (m.kv_rank + m.rope_dim) + m.kv_rank
        expand = m.kv_rank * model.heads * (m.nope_dim + m.value_dim)
        return queries + keys + expand + model.heads * m.value_dim * h
    biases = model.qkv_bias * (q + 2 * kv) + model.output_bias * h
    norms = 2 * model.head_dim if model.qk_norm else 0
    return (
        h * (q * (1 + model.query_gate) + 2 * kv)
        + q * h
        + biases
        + norms
        + (model.sinks * model.heads)
    )


def linear_attention(model: Model) -> int:
    """Return the parameters of one gated delta-rule block (Qwen3-Next); 0 without them."""
    if model.linear is None:
        return 0
    a = model.linear
    keys, values = a.key_heads * a.key_dim, a.value_heads * a.value_dim
    projections = model.hidden * (2 * keys + 2 * values + 2 * a.value_heads) + values * model.hidden
    return projections + (2 * keys + values) * a.kernel + 2 * a.value_heads + a.value_dim


def mlp(model: Model) -> int:
    """Return the parameters of one dense MLP."""
    matrices = (3 if model.gated else 2) * model.hidden * model.intermediate
    return matrices + model.mlp_bias * (model.intermediate + model.hidden)


def expert(model: Model, experts: Experts) -> int:
    """Return the parameters of one expert."""
    biases = experts.biases * (2 * experts.intermediate + model.hidden)
    return 3 * model.hidden * experts.intermediate + biases


def router_and_shared(model: Model, experts: Experts) -> int:
    """Return what an expert layer has besides its routed experts."""
    router = experts.count * model.hidden + experts.router_bias * experts.count
    return router + experts.shared * expert(model, experts) + experts.shared_gate * model.hidden


def total(model: Model) -> int:
    """Return all parameters, the vision tower included."""
    full = model.layers - (model.linear.layers if model.linear else 0)
    blocks = full * attention(model) + (model.layers - full) * linear_attention(model)
    norms = round((model.layers * model.norms_per_layer + model.final_norm) * model.hidden)
    tower = model.vision.parameters if model.vision else 0
    return embedding(model) + head(model) + blocks + norms + _mlps(model) + routed(model) + tower


def _mlps(model: Model) -> int:
    shared = router_and_shared(model, model.experts) if model.experts else 0
    return model.dense_layers * mlp(model) + model.moe_layers * shared


def routed(model: Model) -> int:
    """Return the parameters of all routed experts of all layers: what expert parallelism splits."""
    if model.experts is None:
        return 0
    return model.moe_layers * model.experts.count * expert(model, model.experts)


def active(model: Model) -> int:
    """Return the parameters a token is multiplied with: no input embedding, few experts.

    Source: 6 N D of Kaplan et al. (2001.08361) with N as the multiplying parameters; the tied
    head multiplies as well, so one vocabulary matrix is always counted.
    """
    dense = total(model) - routed(model) - embedding(model) - head(model)
    few = 0
    if model.experts is not None:
        few = model.moe_layers * model.experts.active * expert(model, model.experts)
    tower = model.vision.parameters if model.vision else 0
    return dense - tower + few + model.vocab * model.hidden


def linears(model: Model) -> Iterator[Linear]:
    """Yield the matrices of the layers, by the names that adapters use for them."""
    h = model.hidden
    full = model.layers - (model.linear.layers if model.linear else 0)
    yield from _attention_linears(model, full)
    if model.dense_layers:
        yield from _mlp_linears(h, model.intermediate, model.dense_layers, 1, model.gated)
    if model.experts is not None:
        e = model.experts
        yield from _mlp_linears(h, e.intermediate, model.moe_layers, e.count, True)
        if e.shared:
            yield from _mlp_linears(h, e.shared * e.intermediate, model.moe_layers, 1, True)


def _attention_linears(model: Model, layers: int) -> Iterator[Linear]:
    h, q, kv = model.hidden, model.query_width, model.kv_width
    if model.latent is None:
        yield Linear(name="q_proj", inputs=h, outputs=q * (1 + model.query_gate), layers=layers)
        yield Linear(name="k_proj", inputs=h, outputs=kv, layers=layers)
        yield Linear(name="v_proj", inputs=h, outputs=kv, layers=layers)
        yield Linear(name="o_proj", inputs=q, outputs=h, layers=layers)
        return
    m = model.latent
    queries = model.heads * (m.nope_dim + m.rope_dim)
    if m.query_rank:
        yield Linear(name="q_a_proj", inputs=h, outputs=m.query_rank, layers=layers)
        yield Linear(name="q_b_proj", inputs=m.query_rank, outputs=queries, layers=layers)
    else:
        yield Linear(name="q_proj", inputs=h, outputs=queries, layers=layers)
    yield Linear(name="kv_a_proj_with_mqa", inputs=h, outputs=m.kv_rank + m.rope_dim, layers=layers)
    expanded = model.heads * (m.nope_dim + m.value_dim)
    yield Linear(name="kv_b_proj", inputs=m.kv_rank, outputs=expanded, layers=layers)
    yield Linear(name="o_proj", inputs=model.heads * m.value_dim, outputs=h, layers=layers)


def _mlp_linears(h: int, f: int, layers: int, copies: int, gated: bool) -> Iterator[Linear]:
    for name in ("gate_proj", "up_proj") if gated else ("up_proj",):
        yield Linear(name=name, inputs=h, outputs=f, layers=layers, copies=copies)
    yield Linear(name="down_proj", inputs=f, outputs=h, layers=layers, copies=copies)


def fused_qkv(model: Model) -> Linear:
    """Return Q, K and V as one matrix: ``c_attn`` of Qwen-1, ``qkv_proj``, ``Wqkv``."""
    outputs = model.query_width + 2 * model.kv_width
    return Linear(name="qkv", inputs=model.hidden, outputs=outputs, layers=model.layers)


def trained_linears(model: Model, targets: Iterable[str]) -> tuple[Linear, ...]:
    """Return the matrices that get an adapter.  Raises ``ValueError`` on an unknown target.

    A target is a matrix name with or without ``_proj``, a group (``attention``, ``mlp``,
    ``all-linear``), or another family's name for the same matrix (``c_attn``, ``w1``).
    """
    own = tuple(linears(model))
    chosen: list[Linear] = []
    for target in dict.fromkeys(targets):
        if target in FUSED:
            chosen.append(fused_qkv(model))
            continue
        names = GROUPS.get(target) or (target, f"{target}_proj")
        found = [linear for linear in own if linear.name in names or target == "all-linear"]
        if not found:
            known = sorted({linear.name for linear in own} | GROUPS.keys() | FUSED)
            raise ValueError(f"no matrix named {target!r}; this model has: {', '.join(known)}")
        chosen.extend(linear for linear in found if linear not in chosen)
    return tuple(chosen)


def kv_cache_bytes(model: Model, *, element: int = 2) -> int:
    """Return the bytes a token takes in an inference engine's cache: K and V of every layer.

    Latent attention keeps one compressed vector and the rotary key (2405.04434, section 2.1).
    """
    full = model.layers - (model.linear.layers if model.linear else 0)
    if model.latent is not None:
        return full * (model.latent.kv_rank + model.latent.rope_dim) * element
    return 2 * full * model.kv_width * element


FUSED = frozenset({"c_attn", "qkv_proj", "qkv", "Wqkv", "query_key_value", "W_pack", "attn.c_attn"})
GROUPS: dict[str, tuple[str, ...]] = {
    "all-linear": ("",),
    "attention": (*ATTENTION, "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"),
    "mlp": MLP,
    "c_proj": ("o_proj", "down_proj"),
    "w1": ("up_proj",),
    "w2": ("gate_proj",),
    "w3": ("down_proj",),
    "gate": ("gate_proj",),
    "up": ("up_proj",),
    "down": ("down_proj",),
    "output_proj": ("o_proj",),
}
"""Names for several matrices at once, and other families' names for one."""


def adapter(model: Model, rank: int, targets: Iterable[str], *, dora: bool = False) -> int:
    """Return the trained parameters of LoRA at ``rank``: r (inputs + outputs) a matrix.

    Source: Hu et al., 2106.09685, section 4.1; DoRA adds one magnitude an output
    (2402.09353).  PEFT on Llama-3.2-3B, q and v, rank 32: 9,175,040.
    """
    return sum(
        (rank * (linear.inputs + linear.outputs) + dora * linear.outputs)
        * linear.copies
        * linear.layers
        for linear in trained_linears(model, targets)
    )
