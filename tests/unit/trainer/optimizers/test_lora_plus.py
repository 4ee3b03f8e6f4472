"""LoRA+ moves the matrices that start at zero faster than those that do not."""

import pytest

torch = pytest.importorskip("torch")

from tests.unit.trainer.optimizers.worlds import section  # noqa: E402
from trainer.optimizers.building import build  # noqa: E402


class Adapted(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.base = torch.nn.Linear(8, 8)
        self.base.requires_grad_(False)
        self.lora_A = torch.nn.ModuleDict({"default": torch.nn.Linear(8, 2, bias=False)})
        self.lora_B = torch.nn.ModuleDict({"default": torch.nn.Linear(2, 8, bias=False)})


def test_second_matrices_get_the_higher_rate_and_frozen_weights_none() -> None:
    model = torch.nn.ModuleDict({"layer": Adapted()})
    keys = section(use_galore=False, lorap_lr_ratio=16.0, learning_rate=1e-3, weight_decay=0.1)
    decaying = {name for name, _ in model.named_parameters()}

    optimizer = build(model, keys, decaying=decaying, seed=1)

    rates = {
        id(parameter): group["lr"]
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    layer = model["layer"]
    assert rates == {
        id(layer.lora_A["default"].weight): 1e-3,
        id(layer.lora_B["default"].weight): pytest.approx(16e-3),
    }
    assert {group["weight_decay"] for group in optimizer.param_groups} == {0.1}


def test_without_the_ratio_the_library_makes_the_optimizer() -> None:
    model = torch.nn.ModuleDict({"layer": Adapted()})

    assert build(model, section(use_galore=False), decaying=set(), seed=1) is None


def test_an_expression_chooses_the_layers_whose_whole_name_matches() -> None:
    peft = pytest.importorskip("peft")
    from trainer.config import complete
    from trainer.tuners import adapter_config

    model = torch.nn.ModuleDict({"mlp": torch.nn.Linear(4, 4), "attn": torch.nn.Linear(4, 4)})
    keys = {"task": "sft", "model": "m", "dataset": "d", "target_regex": "ml."}

    config = adapter_config(complete(keys), model)
    config.task_type = None
    adapted = peft.get_peft_model(model, config)

    trained = {name for name, weight in adapted.named_parameters() if weight.requires_grad}
    assert trained == {
        "base_model.model.mlp.lora_A.default.weight",
        "base_model.model.mlp.lora_B.default.weight",
    }
