"""A quantised base is loaded as its files say, and refused where the job says otherwise."""

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.unit.trainer.quantised.gptq_writer import write_model  # noqa: E402
from trainer.config import RequestError  # noqa: E402
from trainer.models import resolve  # noqa: E402
from trainer.quantised import nf4  # noqa: E402
from trainer.quantised.adapters import (  # noqa: E402
    all_linear,
    teach,
    trainable_types,
    widen_adapters,
    with_saved_adapter,
)
from trainer.quantised.gptq_linear import GPTQLinear  # noqa: E402
from trainer.quantised.loading import loading_arguments  # noqa: E402


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(resolve("random:qwen3-tiny"))


def _section(**keys: Any) -> dict[str, Any]:
    return {
        "model_revision": None,
        "quant_method": None,
        "quant_bits": None,
        "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_use_double_quant": True,
        "bnb_4bit_compute_dtype": None,
    } | keys


def _load(folder: Path, **keys: Any) -> Any:
    config = transformers.AutoConfig.from_pretrained(folder)
    arguments = loading_arguments(str(folder), config, _section(**keys), weights_type="float32")
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, config=config, dtype=torch.float32, **arguments
    )


def _logits(model: Any) -> Any:
    return model(torch.arange(40).view(2, 20)).logits


@pytest.mark.parametrize("old_config", [False, True])
@pytest.mark.parametrize(("act_order", "form"), [(False, "gptq"), (True, "gptq_v2")])
def test_a_gptq_folder_gives_nearly_the_model_it_was_made_from(
    tmp_path: Path, plain: Path, act_order: bool, form: str, old_config: bool
) -> None:
    folder = write_model(
        plain, tmp_path / "gptq", bits=8, act_order=act_order, form=form, old_config=old_config
    )

    model = _load(folder, quant_method="gptq")

    assert isinstance(model.model.layers[0].self_attn.q_proj, GPTQLinear)
    assert model.model.layers[0].self_attn.q_proj.scales.dtype == torch.float16
    assert isinstance(model.lm_head, torch.nn.Linear)
    torch.testing.assert_close(_logits(model), _logits(_load(plain)), atol=0.03, rtol=0)


def test_an_adapter_on_gptq_weights_learns_is_saved_and_comes_back(
    tmp_path: Path, plain: Path
) -> None:
    from peft import LoraConfig, get_peft_model

    folder = write_model(plain, tmp_path / "gptq", act_order=True)
    base = _load(folder, quant_method="gptq")
    config = teach(LoraConfig(r=4, target_modules=all_linear(base)))
    model = get_peft_model(base, config)
    tokens = torch.arange(40).view(2, 20)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    for _ in range(12):
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    model.save_pretrained(tmp_path / "adapter")

    again = with_saved_adapter(
        _load(folder, quant_method="gptq"), tmp_path / "adapter", trains=False
    )

    assert losses[-1] < 0.9 * losses[0]
    assert len(trainable_types(model)) == 2 * 2 * 7
    torch.testing.assert_close(_logits(again.eval()), _logits(model.eval()))
    with pytest.raises(ValueError, match="Cannot merge"):
        again.merge_and_unload()


def test_all_linear_means_every_layer_but_the_head(tmp_path: Path, plain: Path) -> None:
    folder = write_model(plain, tmp_path / "gptq")

    names = all_linear(_load(folder, quant_method="gptq"))

    assert all_linear(_load(plain)) == "all-linear"
    assert len(names) == 2 * 7
    assert "lm_head" not in names


def test_nf4_is_small_near_and_kept_in_its_type(plain: Path) -> None:
    pytest.importorskip("bitsandbytes")

    model = _load(plain, quant_method="bnb")

    layer = model.model.layers[0].mlp.up_proj
    assert type(layer).__name__ == "Linear4bit"
    assert layer.weight.dtype == torch.uint8
    assert layer.weight.numel() == 64 * 192 // 2
    torch.testing.assert_close(_logits(model), _logits(_load(plain)), atol=0.4, rtol=0)


@pytest.mark.parametrize(
    ("made", "keys", "words"),
    [
        ({}, {}, "holds gptq weights, but the job does not say so"),
        ({}, {"quant_method": "bnb"}, "says quant_method: bnb"),
        ({}, {"quant_method": "gptq", "quant_bits": 8}, "write quant_bits: 4"),
        ({"form": "marlin"}, {"quant_method": "gptq"}, "4 bits in the form marlin"),
        ({"bits": 3}, {"quant_method": "gptq"}, "GPTQ weights of 3 bits"),
    ],
)
def test_files_and_job_that_disagree_are_refused(
    tmp_path: Path, plain: Path, made: dict[str, Any], keys: dict[str, Any], words: str
) -> None:
    folder = write_model(plain, tmp_path / "gptq")
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["quantization_config"] |= {
        {"form": "checkpoint_format"}.get(key, key): value for key, value in made.items()
    }
    path.write_text(json.dumps(config))

    with pytest.raises(RequestError, match=words):
        _load(folder, **keys)


def test_an_ordinary_model_is_not_taken_for_gptq(plain: Path) -> None:
    with pytest.raises(RequestError, match="does not hold GPTQ weights"):
        _load(plain, quant_method="gptq")


def test_a_method_nobody_here_reads_is_refused_by_name(tmp_path: Path, plain: Path) -> None:
    folder = write_model(plain, tmp_path / "awq")
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["quantization_config"] = {"quant_method": "awq", "bits": 4}
    path.write_text(json.dumps(config))

    with pytest.raises(RequestError, match="holds awq weights, which this trainer does not read"):
        _load(folder)


def test_without_bitsandbytes_nf4_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nf4, "find_spec", lambda name: None)

    with pytest.raises(RequestError, match="needs the package bitsandbytes"):
        nf4.configuration(_section(), weights_type="float32")


def test_adapters_of_a_short_type_become_float32_and_frozen_weights_do_not() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)).bfloat16()
    model[0].requires_grad_(False)

    widen_adapters(model)

    assert model[0].weight.dtype == torch.bfloat16
    assert set(trainable_types(model).values()) == {torch.float32}
