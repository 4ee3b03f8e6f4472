"""What a layer keeps is counted tensor by tensor, and held to what autograd keeps of a real one."""

from typing import Any

import pytest

from reconciler.estimating.activations import kept, layer
from reconciler.estimating.config_json import model_from_config
from reconciler.estimating.constants import MemoryConstants
from reconciler.estimating.training import (
    Attention,
    Checkpointing,
    Engine,
    Layout,
    Offload,
    Quantisation,
    Training,
)
from tests.unit.estimating.trainings import a_training

CONSTANTS = MemoryConstants()


def per_token(training: Training) -> float:
    one = layer(training, CONSTANTS)
    return one.whole + one.split


def test_a_llama_layer_keeps_twenty_hidden_vectors_and_its_mlp() -> None:
    training = a_training("Llama-3.1-8B", checkpointing=Checkpointing.NONE)

    assert per_token(training) == 20 * 4096 + 4 * 1024 + 8 * 14336


def test_fused_kernels_keep_the_count_of_the_megatron_paper_without_dropout() -> None:
    training = a_training("Llama-2-7B", checkpointing=Checkpointing.NONE, engine=Engine.MEGATRON)

    assert per_token(training) == 12 * 4096 + 4 * 4096 + 6 * 11008


def test_a_small_adapter_keeps_less_than_full_training() -> None:
    full = a_training("Llama-2-7B", checkpointing=Checkpointing.NONE)
    small = a_training(
        "Llama-2-7B",
        checkpointing=Checkpointing.NONE,
        lora_rank=8,
        lora_targets=("q", "v"),
        lora_dropout=False,
        engine=Engine.NATIVE,
    )

    assert per_token(small) == 14 * 4096 + 4 * 4096 + 6 * 11008
    assert per_token(small) / per_token(full) == pytest.approx(0.75, abs=0.03)


def test_bitsandbytes_keeps_the_input_of_frozen_matrices_too() -> None:
    plain = a_training("Llama-2-7B", lora_rank=8, lora_targets=("q", "v"), engine=Engine.NATIVE)
    quantised = a_training(
        "Llama-2-7B",
        lora_rank=8,
        lora_targets=("q", "v"),
        engine=Engine.NATIVE,
        quantisation=Quantisation.NF4,
    )

    assert per_token(quantised) >= per_token(plain) + 2 * 4096 + 2 * 11008


def test_eager_attention_keeps_a_score_for_every_pair_of_tokens() -> None:
    flash, eager = (
        per_token(a_training("Llama-2-7B", seq_len=4096, attention=kind))
        for kind in (Attention.FLASH, Attention.EAGER)
    )

    assert eager - flash == 32 * (4 + 2) * 4096


def test_recomputing_the_attention_core_removes_the_scores() -> None:
    given: dict[str, Any] = {
        "engine": Engine.MEGATRON,
        "checkpointing": Checkpointing.SELECTIVE,
        "recompute": ("core_attn",),
    }

    eager = per_token(a_training(attention=Attention.EAGER, **given))

    assert eager == per_token(a_training(attention=Attention.FLASH, **given))


@pytest.mark.parametrize("tensor", [2, 4, 8])
def test_tensor_parallelism_splits_everything_only_with_the_sequence(tensor: int) -> None:
    training = a_training("Llama-3.1-70B", engine=Engine.MEGATRON)
    one = layer(training, CONSTANTS)

    assert one.per_rank(tensor, sequence=True) == pytest.approx((one.whole + one.split) / tensor)
    assert one.per_rank(tensor, sequence=False) == pytest.approx(one.whole + one.split / tensor)


def test_full_checkpointing_stores_one_vector_a_token_and_layer() -> None:
    training = a_training("Llama-2-7B", seq_len=1000)

    found = kept(training, CONSTANTS, layers=32, in_flight=1)

    assert found.stored == 2 * 4096 * 1000 * 32
    assert found.working > found.stored / 32


def test_offloaded_activations_leave_two_vectors_a_token() -> None:
    training = a_training("Llama-2-7B", seq_len=1000, offload=Offload.ACTIVATIONS)

    assert kept(training, CONSTANTS, layers=32, in_flight=1).stored == 2 * 2 * 4096 * 1000


def test_contexts_divide_the_tokens() -> None:
    plain, split = (
        kept(a_training(layout=Layout(context=size)), CONSTANTS, layers=36, in_flight=1)
        for size in (1, 4)
    )

    assert split.stored == pytest.approx(plain.stored / 4)


def test_experts_keep_what_the_visited_ones_keep_and_copies_of_the_token() -> None:
    plain = a_training("Qwen3-30B-A3B", checkpointing=Checkpointing.NONE)
    skewed = a_training("Qwen3-30B-A3B", checkpointing=Checkpointing.NONE, expert_imbalance=2.0)
    visits = 8 * (8 * 768 + 2 * 2 * 2048)

    assert per_token(skewed) - per_token(plain) == pytest.approx(visits)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "norms"), [("llama", 0.0), ("qwen3", 7.5)])
def test_autograd_keeps_what_the_formula_counts(kind: str, norms: float) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    shape = {
        "hidden_size": 512,
        "intermediate_size": 1600,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "vocab_size": 300,
        "model_type": kind,
    }

    def saved_bytes(layers: int) -> float:
        config = transformers.AutoConfig.for_model(num_hidden_layers=layers, **shape)
        model = transformers.AutoModelForCausalLM.from_config(
            config, dtype=torch.bfloat16, attn_implementation="sdpa"
        )
        own = {each.untyped_storage().data_ptr() for each in model.parameters()}
        storages: dict[int, Any] = {}

        def pack(tensor: Any) -> Any:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                storages[storage.data_ptr()] = (storage.nbytes(), tensor)
            return tensor

        tokens = torch.zeros(1, 128, dtype=torch.long)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            model(input_ids=tokens, labels=tokens)
        return sum(size for size, _ in storages.values()) / 128

    model = model_from_config({"num_hidden_layers": 2, **shape}, kind)
    counted = per_token(Training(model=model, seq_len=128, checkpointing=Checkpointing.NONE))

    assert counted == (20 + norms) * 512 + 4 * 128 + 8 * 1600
    assert saved_bytes(2) - saved_bytes(1) == pytest.approx(counted, rel=0.01)
