"""Inner matrices are projected; everything else keeps full states."""

import pytest

torch = pytest.importorskip("torch")

from tests.unit.trainer.optimizers.worlds import TinyModel, decaying, section  # noqa: E402
from trainer.config import RequestError  # noqa: E402
from trainer.optimizers.grouping import check, parameter_groups, projected_layers  # noqa: E402


def test_inner_linear_layers_are_projected_and_the_head_is_not() -> None:
    assert list(projected_layers(TinyModel(), None)) == ["attn", "mlp"]


def test_a_head_is_known_by_what_the_model_says_of_it() -> None:
    model = TinyModel()
    model.get_output_embeddings = lambda: model.mlp  # type: ignore[assignment]

    assert list(projected_layers(model, None)) == ["attn"]


def test_targets_narrow_the_choice() -> None:
    assert list(projected_layers(TinyModel(), ["ml"])) == ["mlp"]


def test_a_target_that_names_nothing_is_refused_with_what_there_is() -> None:
    with pytest.raises(RequestError, match=r"'q_proj' in its name; there are: attn, mlp"):
        projected_layers(TinyModel(), ["mlp", "q_proj"])


def test_every_parameter_is_in_one_group_and_only_matrices_have_a_rank() -> None:
    model = TinyModel()

    groups = parameter_groups(model, section(), decaying=decaying(model))

    names = {parameter: name for name, parameter in model.named_parameters()}
    found = [
        (sorted(names[parameter] for parameter in group["params"]), group["weight_decay"])
        for group in groups
    ]
    assert found == [
        (["mlp.bias", "norm.bias", "norm.weight"], 0.0),
        (["embed_tokens.weight", "lm_head.weight"], 0.1),
        (["attn.weight", "mlp.weight"], 0.1),
    ]
    assert [group.get("rank") for group in groups] == [None, None, 8]


def test_frozen_parameters_are_in_no_group() -> None:
    model = TinyModel()
    model.embed_tokens.requires_grad_(False)

    groups = parameter_groups(model, section(), decaying=decaying(model))

    held = {id(parameter) for group in groups for parameter in group["params"]}
    assert id(model.embed_tokens.weight) not in held


def test_a_rank_above_the_smallest_side_is_refused_on_shapes_alone() -> None:
    with torch.device("meta"):
        model = TinyModel(24)

    check(model, section(galore_rank=24))
    with pytest.raises(RequestError, match=r"25 is above the smaller side of attn, 24.*rank: 12"):
        check(model, section(galore_rank=25))


def test_a_mixture_of_experts_is_refused_unless_layers_are_named() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.AutoConfig.for_model(
        "qwen3_moe",
        vocab_size=64,
        hidden_size=64,
        intermediate_size=96,
        moe_intermediate_size=96,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=16,
        num_experts=8,
        num_experts_per_tok=2,
    )
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)

    with pytest.raises(RequestError, match=r"\d\d % of this model's inner weights are stacks"):
        check(model, section())
    check(model, section(galore_target_modules=["self_attn"]))


def test_a_model_without_linear_layers_is_refused() -> None:
    with pytest.raises(RequestError, match="no linear layers to project"):
        check(torch.nn.Embedding(3, 4), section())
