"""A local config.json gives the shape of the released module."""

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import UsageError
from reconciler.estimating import counting
from reconciler.estimating.config_json import config_of, model_from_config
from reconciler.specs.model_catalogue import model_at
from tests.unit.estimating.trainings import a_model

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}


def test_a_folder_with_a_config_is_read(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text(json.dumps(LLAMA))

    model = model_at("mine", tmp_path)

    assert counting.total(model) == counting.total(a_model("Llama-3.1-8B"))


@pytest.mark.parametrize("text", ["{", "[]", '{"model_type": "llama"}', '{"hidden_size": "wide"}'])
def test_an_unusable_config_is_refused_by_its_path(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text(text)

    with pytest.raises(UsageError, match=r"mine/config\.json does not say what shape"):
        model_at("mine", tmp_path)


def test_a_missing_number_is_named() -> None:
    with pytest.raises(ValueError, match="no vocab_size"):
        model_from_config({key: LLAMA[key] for key in LLAMA if key != "vocab_size"}, "x")


def test_the_language_part_of_a_vision_model_is_read() -> None:
    config = {"model_type": "qwen3_vl", "text_config": {**LLAMA, "model_type": "qwen3_vl_text"}}

    assert model_from_config(config, "x").hidden == 4096


@pytest.mark.parametrize("name", ["Llama-3.1-8B", "Qwen2.5-7B", "Qwen3-4B", "Qwen3-32B"])
def test_a_plain_decoder_survives_the_way_to_a_config_and_back(name: str) -> None:
    model = a_model(name)

    back = model_from_config(config_of(model), name)

    assert counting.total(back) == counting.total(model)


def test_a_mixture_of_experts_is_no_plain_decoder() -> None:
    with pytest.raises(ValueError, match="no plain decoder"):
        config_of(a_model("Qwen3-30B-A3B"))


SHAPES: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {},
    "qwen2": {},
    "qwen3": {"head_dim": 48},
    "qwen3_moe": {
        "head_dim": 32,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 96,
        "mlp_only_layers": [],
    },
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "deepseek_v3": {
        "n_routed_experts": 8,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 96,
        "first_k_dense_replace": 1,
        "q_lora_rank": 48,
        "kv_lora_rank": 32,
        "qk_rope_head_dim": 16,
        "qk_nope_head_dim": 32,
        "v_head_dim": 32,
        "n_group": 2,
        "topk_group": 1,
    },
    "gpt_oss": {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 32},
    "qwen3_next": {
        "num_hidden_layers": 4,
        "head_dim": 32,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 96,
        "shared_expert_intermediate_size": 96,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "linear_conv_kernel_dim": 4,
    },
    "gemma2": {"head_dim": 32, "tie_word_embeddings": True},
    "phi": {"num_key_value_heads": 4},
    "gpt_neox": {"num_key_value_heads": 4},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(SHAPES))
def test_the_count_is_that_of_the_class_transformers_builds(kind: str) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    shape = {
        "hidden_size": 128,
        "intermediate_size": 320,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 1000,
        "tie_word_embeddings": False,
        **SHAPES[kind],
    }
    config = transformers.AutoConfig.for_model(kind, **shape)
    with torch.device("meta"):
        module = transformers.AutoModelForCausalLM.from_config(config)

    model = model_from_config(config.to_dict(), kind)

    built = sum(each.numel() for each in set(module.parameters()))
    assert counting.total(model) == built
