"""Parameter counts are exact truths, not estimates."""

import pytest

from reconciler.estimating import counting
from reconciler.specs.model_catalogue import published_parameters, shipped_models
from tests.unit.estimating.trainings import a_model

ROUNDED = {"GLM-4.5-Air": 0.009, "Qwen3-Next-80B-A3B": 0.005}
"""Models whose published figure is a rounded name (106B, 80B), with how far that is off."""
MODELS = sorted({model.name for model in shipped_models().values()})


@pytest.mark.parametrize("name", sorted(published_parameters()))
def test_every_published_count_is_met_within_a_thousandth(name: str) -> None:
    counted = counting.total(a_model(name)) / 1e9

    assert counted == pytest.approx(published_parameters()[name], rel=ROUNDED.get(name, 0.001))


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("Llama-3.2-3B", 3_212_749_824),  # PEFT MetaMathQA, num_total_params
        ("Llama-2-7B", 6_738_415_616),
        ("Qwen3-8B", 8_190_735_360),
        ("GPT-OSS-120B", 116_829_156_672),
        ("Qwen3-Next-80B-A3B", 79_674_391_296),
        ("Qwen3-VL-8B", 8_767_123_696),
        ("Llama-4-Scout-17B-16E", 107_769_861_120),
    ],
)
def test_the_count_is_that_of_the_module_itself(name: str, count: int) -> None:
    assert counting.total(a_model(name)) == count


def test_the_catalogue_names_a_source_for_every_model() -> None:
    assert len(MODELS) > 50
    assert all(model.source for model in shipped_models().values())


@pytest.mark.parametrize(
    ("name", "rank", "targets", "count"),
    [
        ("Llama-3.2-3B", 32, ("q", "v"), 9_175_040),  # PEFT method comparison
        ("Llama-3.2-3B", 64, ("q_proj", "v_proj"), 18_350_080),
        ("Llama-2-7B", 8, ("q", "v"), 4_194_304),  # litgpt
    ],
)
def test_an_adapter_has_the_parameters_its_makers_report(
    name: str, rank: int, targets: tuple[str, ...], count: int
) -> None:
    assert counting.adapter(a_model(name), rank, targets) == count


def test_a_fused_projection_is_one_matrix_and_its_parts_are_three() -> None:
    model = a_model("Qwen-7B")

    fused = counting.adapter(model, 8, ("c_attn",))
    parts = counting.adapter(model, 8, ("q", "k", "v"))

    assert fused == 32 * 8 * (4096 + 3 * 4096)
    assert parts == 32 * 8 * 3 * (4096 + 4096)


def test_all_linear_takes_every_matrix_of_the_layers_once() -> None:
    model = a_model("Llama-2-7B")

    every = counting.adapter(model, 8, ("all-linear",))

    assert every == counting.adapter(model, 8, ("q", "k", "v", "o", "gate", "up", "down"))
    assert every == 19_988_480


def test_an_unknown_target_is_refused_with_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"no matrix named 'qkvo'.*q_proj"):
        counting.adapter(a_model(), 8, ("qkvo",))


def test_active_parameters_leave_out_the_embedding_and_most_experts() -> None:
    dense, sparse = a_model("Qwen3-8B"), a_model("Qwen3-30B-A3B")

    assert counting.active(dense) == counting.total(dense) - counting.embedding(dense)
    assert counting.active(sparse) / 1e9 == pytest.approx(3.03, abs=0.1)


def test_a_tied_head_still_multiplies() -> None:
    tied = a_model("Qwen3-4B")

    assert counting.head(tied) == 0
    assert counting.active(tied) == counting.total(tied)


@pytest.mark.parametrize(
    ("name", "size"),
    [("Llama-2-7B", 524_288), ("Llama-3.1-8B", 131_072), ("DeepSeek-V3", 61 * 576 * 2)],
)
def test_a_token_takes_these_bytes_of_an_inference_cache(name: str, size: int) -> None:
    assert counting.kv_cache_bytes(a_model(name)) == size
