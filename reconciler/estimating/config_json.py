"""Reads a model's shape from a Hub-style ``config.json``, already parsed.

Keys are those that transformers writes.  What a shape needs and the file lacks is refused with
the key's name; nothing is filled in from a class default, because those are not the released
shapes of most families.
"""

from collections.abc import Mapping
from typing import Any

from reconciler.estimating.model import Experts, LatentAttention, LinearAttention, Model

Config = Mapping[str, Any]

SPELLINGS: dict[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "vocab": ("vocab_size", "padded_vocab_size"),
}
"""What every decoder has, in the order the spellings are looked for."""

UNGATED = frozenset({"gpt2", "gpt_neox", "gptj", "opt", "bloom", "mpt", "falcon", "phi", "bert"})
"""Families with two MLP matrices; every later one has three."""
QKV_BIAS = frozenset({"qwen", "qwen2", "qwen2_moe", "gpt2", "gpt_neox", "phi", "opt", "bloom"})
QK_NORM = frozenset({"qwen3", "qwen3_moe", "qwen3_next", "gemma3_text", "glm4_moe"})
TIED = frozenset({"gpt2", "opt", "bloom", "mpt", "falcon", "gemma", "gemma2", "gemma3_text"})
"""Families whose class ties the head where the file does not say."""


def model_from_config(config: Config, name: str) -> Model:
    """Return the shape of a parsed ``config.json``.

    A vision-language model's text part is read; its tower is not counted.  Raises
    ``ValueError`` that names the missing key.
    """
    text = config.get("text_config") or config.get("llm_config") or config
    kind = str(text.get("model_type", config.get("model_type", "")))
    hidden, heads = _needed(text, "hidden"), _needed(text, "heads")
    gated = kind not in UNGATED
    dense = text.get("intermediate_size") or text.get("n_inner") or text.get("ffn_dim")
    if dense is None and gated:
        raise ValueError(f"{name}: config.json has no intermediate_size")
    tied = text.get("tie_word_embeddings", config.get("tie_word_embeddings"))
    biased = bool(text.get("attention_bias", text.get("qkv_bias", kind in QKV_BIAS)))
    classic = kind in ("gpt2", "gpt_neox", "opt", "bloom", "phi")
    return Model(
        name=name,
        layers=_needed(text, "layers"),
        hidden=hidden,
        intermediate=int(text.get("intermediate_size_mlp") or dense or 4 * hidden),
        heads=heads,
        kv_heads=_kv_heads(text, kind, heads),
        head_dim=int(text.get("head_dim") or hidden // heads),
        vocab=_needed(text, "vocab"),
        tied=kind in TIED if tied is None else bool(tied),
        gated=gated,
        qkv_bias=biased,
        output_bias=classic or (biased and kind in ("gpt_oss", "llama")),
        mlp_bias=classic or bool(text.get("mlp_bias")),
        head_bias=kind == "phi",
        query_gate=kind == "qwen3_next",
        sinks=kind == "gpt_oss",
        qk_norm=kind in QK_NORM,
        norms_per_layer=_norms(kind),
        final_norm=2.0 if kind in WITH_BIAS else 1.0,
        positions=_positions(text, kind),
        experts=_experts(text, kind),
        latent=_latent(text),
        linear=_linear(text, kind),
        source=f"config.json of {name}",
    )


def _needed(config: Config, part: str) -> int:
    for key in SPELLINGS[part]:
        if config.get(key) is not None:
            return int(config[key])
    raise ValueError(f"config.json has no {' or '.join(SPELLINGS[part])}")


def _kv_heads(config: Config, kind: str, heads: int) -> int:
    if config.get("multi_query") and kind == "falcon":
        return int(config.get("num_kv_heads") or 1)
    return int(config.get("num_key_value_heads") or config.get("num_kv_heads") or heads)


WITH_BIAS = frozenset({"gpt2", "gpt_neox", "opt", "bloom", "falcon", "phi"})
"""Families whose norms have a bias; phi has one norm a layer, the others two."""


def _norms(kind: str) -> float:
    if kind in ("gemma2", "gemma3_text"):
        return 4.0
    return 4.0 if kind in WITH_BIAS and kind != "phi" else 2.0


def _positions(config: Config, kind: str) -> int:
    if kind == "gpt2":
        return int(config.get("n_positions", 1024))
    if kind == "opt":
        return int(config.get("max_position_embeddings", 2048)) + 2
    return int(config.get("max_seq_len", 0)) if kind == "mpt" else 0


def _experts(config: Config, kind: str) -> Experts | None:
    count = (
        config.get("num_experts")
        or config.get("num_local_experts")
        or config.get("n_routed_experts")
    )
    if not count:
        return None
    width = config.get("moe_intermediate_size") or config.get("intermediate_size")
    active = config.get("num_experts_per_tok") or config.get("moe_topk")
    if active is None or width is None:
        raise ValueError("config.json names experts but no num_experts_per_tok")
    wide = config.get("shared_expert_intermediate_size")
    shared = int(config.get("n_shared_experts") or (wide // width if wide else 0) or 0)
    return Experts(
        count=int(count),
        active=int(active),
        intermediate=int(width),
        shared=shared or int(kind in ("llama4", "llama4_text")),
        dense_layers=int(config.get("first_k_dense_replace") or 0),
        router_bias=kind == "gpt_oss",
        biases=kind == "gpt_oss",
        shared_gate=kind in ("qwen2_moe", "qwen3_next"),
    )


def _latent(config: Config) -> LatentAttention | None:
    rank = config.get("kv_lora_rank")
    if not rank:
        return None
    return LatentAttention(
        query_rank=int(config.get("q_lora_rank") or 0),
        kv_rank=int(rank),
        rope_dim=int(config["qk_rope_head_dim"]),
        nope_dim=int(config["qk_nope_head_dim"]),
        value_dim=int(config["v_head_dim"]),
    )


def _linear(config: Config, kind: str) -> LinearAttention | None:
    if kind != "qwen3_next":
        return None
    kinds = config.get("layer_types") or []
    every = int(config.get("full_attention_interval") or 4)
    layers = _needed(config, "layers")
    return LinearAttention(
        layers=kinds.count("linear_attention") if kinds else layers - layers // every,
        key_heads=int(config["linear_num_key_heads"]),
        value_heads=int(config["linear_num_value_heads"]),
        key_dim=int(config["linear_key_head_dim"]),
        value_dim=int(config["linear_value_head_dim"]),
        kernel=int(config["linear_conv_kernel_dim"]),
    )


def config_of(model: Model) -> dict[str, Any]:
    """Return a ``config.json`` for a plain decoder of the Llama, Qwen2 or Qwen3 kind.

    Raises ``ValueError`` for the others, whose class a shape alone does not tell.
    """
    special = (model.experts, model.latent, model.linear, model.vision)
    if any(part is not None for part in special) or not model.gated or model.positions:
        raise ValueError(f"{model.name} is no plain decoder (Llama, Qwen2, Qwen3)")
    kind = "qwen3" if model.qk_norm else "qwen2" if model.qkv_bias else "llama"
    config: dict[str, Any] = {
        "model_type": kind,
        "vocab_size": model.vocab,
        "hidden_size": model.hidden,
        "intermediate_size": model.intermediate,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "tie_word_embeddings": model.tied,
    }
    if kind != "qwen2":
        config["head_dim"] = model.head_dim
    return config
