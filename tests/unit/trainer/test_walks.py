"""The two calls of every step do what the library's own do, wherever the modules stand."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from trainer.walks import shorten  # noqa: E402


def a_model() -> Any:
    return torch.nn.Sequential(
        torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Linear(2, 1))
    )


def modes(model: Any) -> list[bool]:
    return [module.training for module in model.modules()]


def test_a_part_left_in_evaluation_is_trained_again() -> None:
    model = a_model()
    shorten(model)

    model[1].eval()
    assert modes(model) == [True, True, False, False, False]
    assert model.train() is model
    assert modes(model) == [True] * 5

    model.eval()
    assert modes(model) == [False] * 5
    model.train()
    assert modes(model) == [True] * 5


def test_an_evaluation_from_outside_the_wrapper_is_left_too() -> None:
    inner = a_model()
    wrapped = torch.nn.Sequential(inner)
    shorten(wrapped)

    inner.eval()
    wrapped.train()

    assert modes(wrapped) == [True] * 6


@pytest.mark.parametrize("to_none", [True, False])
def test_gradients_are_forgotten(to_none: bool) -> None:
    model = a_model()
    model[0].weight.requires_grad_(False)
    shorten(model)
    model(torch.ones(3, 2)).sum().backward()

    model.zero_grad(set_to_none=to_none)

    left = [parameter.grad for parameter in model.parameters() if parameter.requires_grad]
    assert all(grad is None if to_none else not grad.any() for grad in left)
    assert len(left) == 3
