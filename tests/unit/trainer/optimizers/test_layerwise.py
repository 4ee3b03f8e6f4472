"""Updates in the backward pass are the same updates, with one gradient alive at a time."""

import pytest

torch = pytest.importorskip("torch")

from tests.unit.trainer.optimizers.worlds import (  # noqa: E402
    TinyModel,
    decaying,
    loss_of,
    section,
    train,
)
from trainer.optimizers.building import build, prepare_model  # noqa: E402


@pytest.mark.parametrize("quantised", [False, True])
def test_the_weights_are_those_of_steps_after_the_backward_pass(quantised: bool) -> None:
    models, losses = [], []
    for per_parameter in (False, True):
        model = TinyModel()
        keys = section(galore_optim_per_parameter=per_parameter, galore_quantization=quantised)
        prepare_model(model, keys)
        optimizer = build(model, keys, decaying=decaying(model), seed=7)
        losses.append(train(model, optimizer, range(6)))
        models.append(model.state_dict())

    assert losses[0] == losses[1]
    for name in models[0]:
        assert torch.equal(models[0][name], models[1][name])


def test_no_gradient_is_left_after_the_backward_pass() -> None:
    model = TinyModel()
    keys = section(galore_optim_per_parameter=True)
    optimizer = build(model, keys, decaying=decaying(model), seed=7)
    alive: list[int] = []
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(
            lambda _: alive.append(sum(other.grad is not None for other in model.parameters()))
        )

    loss_of(model, 0).backward()

    assert max(alive) == 0
    assert len(optimizer.state) == len(list(model.parameters()))


def test_the_norm_is_that_of_all_gradients_together() -> None:
    plain = TinyModel()
    loss_of(plain, 0).backward()
    expected = torch.nn.utils.clip_grad_norm_(plain.parameters(), 1e9).item()
    model = TinyModel()
    keys = section(galore_optim_per_parameter=True)
    optimizer = build(model, keys, decaying=decaying(model), seed=7)

    loss_of(model, 0).backward()

    assert optimizer.in_backward.take_norm() == pytest.approx(expected, rel=1e-5)
    assert optimizer.in_backward.take_norm() == 0


def test_a_gradient_that_is_not_finite_moves_nothing() -> None:
    model = TinyModel()
    keys = section(galore_optim_per_parameter=True)
    optimizer = build(model, keys, decaying=decaying(model), seed=7)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    (loss_of(model, 0) * float("nan")).backward()

    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert not torch.isfinite(torch.tensor(optimizer.in_backward.take_norm()))
