"""Q-GaLore trains 8-bit weights, lazily, in less memory, and resumes bit for bit."""

import copy
import io
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.unit.trainer.optimizers.worlds import (  # noqa: E402
    TinyModel,
    decaying,
    falling,
    section,
    train,
)
from trainer.optimizers import quantised_states  # noqa: E402
from trainer.optimizers.building import build, prepare_model  # noqa: E402
from trainer.optimizers.galore import state_bytes  # noqa: E402
from trainer.optimizers.int8_linear import Int8Linear, decode, encode, to_int8  # noqa: E402
from trainer.optimizers.q_galore import QGaLoreAdamW  # noqa: E402


@pytest.fixture(autouse=True)
def _encode_small_tensors_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantised_states, "LEAST_ELEMENTS", 200)


def _made(width: int = 32, **keys: Any) -> tuple[Any, Any]:
    model = TinyModel(width)
    settings = section(galore_quantization=True, **keys)
    prepare_model(model, settings)
    return model, build(model, settings, decaying=decaying(model), seed=7)


def test_the_loss_falls_and_most_weights_are_in_eight_bits() -> None:
    model, optimizer = _made()

    losses = train(model, optimizer, range(60))

    assert sum(losses[-5:]) / 5 < 0.4 * losses[0]
    assert isinstance(model.attn, Int8Linear)
    assert isinstance(model.mlp, Int8Linear)
    assert model.mlp.codes.dtype == torch.int8
    assert model.mlp.weight.untyped_storage().nbytes() == 4
    assert not isinstance(model.lm_head, Int8Linear)


def test_weights_and_states_take_less_memory_than_those_of_galore() -> None:
    sizes = {}
    for quantised in (False, True):
        model = TinyModel(96)
        settings = section(galore_quantization=quantised, galore_rank=24)
        prepare_model(model, settings)
        optimizer = build(model, settings, decaying=decaying(model), seed=7)
        train(model, optimizer, range(1))
        held = {
            tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
            for tensor in (*model.parameters(), *model.buffers())
        }
        sizes[quantised] = sum(held.values()) + state_bytes(optimizer)

    assert sizes[True] < 0.5 * sizes[False]


def test_a_layer_computes_with_its_decoded_weights() -> None:
    linear = torch.nn.Linear(40, 24)
    layer = Int8Linear(copy.deepcopy(linear))
    plain = torch.nn.Linear(40, 24)
    plain.load_state_dict({"weight": layer.values, "bias": layer.bias.detach()})
    inputs = [torch.randn(3, 5, 40, requires_grad=True) for _ in range(2)]
    inputs[1].data.copy_(inputs[0].data)

    outputs = [layer(inputs[0]), plain(inputs[1])]
    for output in outputs:
        output.square().sum().backward()

    torch.testing.assert_close(*outputs)
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad)
    torch.testing.assert_close(layer.weight.grad, plain.weight.grad)
    torch.testing.assert_close(layer.bias.grad, plain.bias.grad)
    lost = (layer.values - linear.weight).detach()
    assert float(lost.norm() / linear.weight.detach().norm()) < 0.01


def test_gradients_of_several_passes_add_up() -> None:
    layer = Int8Linear(torch.nn.Linear(40, 24, bias=False))
    data = torch.randn(2, 4, 40)

    for part in data:
        layer(part).sum().backward()
    summed = layer.weight.grad.clone()
    layer.weight.grad = None
    layer(data).sum().backward()

    torch.testing.assert_close(summed, layer.weight.grad)


def test_rounding_at_random_is_right_on_average_where_the_nearest_code_never_moves() -> None:
    start = torch.full((256,), 0.5)
    start[0] = 1.0
    step = torch.full((256,), 0.1 / 127)
    step[0] = 0
    random = torch.Generator().manual_seed(0)
    results = {}
    for name, generator in (("random", random), ("nearest", None)):
        codes, scales = encode(start)
        for _ in range(100):
            moved = decode(codes, scales, torch.float32) + step
            codes, scales = encode(moved, scales, generator)
        results[name] = float(decode(codes, scales, torch.float32)[1:].mean() - 0.5)

    assert results["random"] == pytest.approx(100 * 0.1 / 127, rel=0.1)
    assert abs(results["nearest"]) < 0.01


def test_a_scale_is_kept_while_its_block_fits_and_follows_when_it_does_not() -> None:
    values = torch.linspace(-1, 1, 256)
    _, scales = encode(values)

    for factor, kept in ((0.9, True), (0.4, False), (1.1, False)):
        _, after = encode(values * factor, scales)
        assert torch.equal(after, scales) is kept
        assert bool((after * 127 >= 0.99 * factor).all())


def test_a_saved_model_is_an_ordinary_one_and_loads_into_either_kind() -> None:
    model, optimizer = _made()
    train(model, optimizer, range(5))

    saved = model.state_dict()
    plain, quantised = TinyModel(seed=3), TinyModel(seed=4)
    to_int8(quantised, ["attn", "mlp"])
    plain.load_state_dict(saved)
    quantised.load_state_dict(saved)

    assert saved.keys() == TinyModel().state_dict().keys()
    assert torch.equal(plain.mlp.weight, model.mlp.values)
    torch.testing.assert_close(quantised.mlp.values, model.mlp.values, atol=1e-2, rtol=0)
    tokens = torch.arange(40)
    torch.testing.assert_close(plain(tokens), model(tokens), atol=1e-5, rtol=1e-4)


def test_ten_steps_are_five_and_a_resume_and_five_bit_for_bit() -> None:
    straight_model, straight = _made(galore_update_proj_gap=2)
    expected = train(straight_model, straight, range(10))
    model, optimizer = _made(galore_update_proj_gap=2)
    losses = train(model, optimizer, range(5))
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)

    resumed_model, resumed = _made(galore_update_proj_gap=2)
    resumed_model.load_state_dict(model.state_dict())
    resumed.load_state_dict(torch.load(file, weights_only=True))
    losses += train(resumed_model, resumed, range(5, 10))

    assert losses == expected
    assert torch.equal(resumed_model.mlp.codes, straight_model.mlp.codes)
    assert torch.equal(resumed_model.attn.values, straight_model.attn.values)


def test_codes_of_a_layer_that_never_moved_come_back_too() -> None:
    model, optimizer = _made()
    other_model, other = _made()
    other_model.attn.codes.zero_()

    other.load_state_dict(optimizer.state_dict())

    assert torch.equal(other_model.attn.codes, model.attn.codes)
    assert not other.state


def _lazy(gradients: Any, *, threshold: float, steps: int) -> tuple[list[int], dict[str, Any]]:
    """Return the steps at which a new basis was taken, and the last state."""
    layer = Int8Linear(torch.nn.Linear(60, 40, bias=False))
    group = {
        "params": [layer.weight],
        "rank": 4,
        "update_gap": 2,
        "scale": 1.0,
        "overlap_threshold": threshold,
        "gap_growth": 2.0,
        "overlaps_kept": 2,
    }
    optimizer = QGaLoreAdamW([group], layers={"layer": layer}, lr=1e-3)
    taken: list[int] = []
    for step in range(1, steps + 1):
        before = optimizer.state[layer.weight].get("basis_codes")
        layer.weight.grad = gradients(step)
        optimizer.step()
        if optimizer.state[layer.weight]["basis_codes"] is not before:
            taken.append(step)
    return taken, optimizer.state[layer.weight]


def test_a_settled_subspace_is_looked_at_ever_less_often() -> None:
    steady = falling(40, 60, power=2.0)

    taken, state = _lazy(lambda step: steady, threshold=0.9, steps=40)

    assert taken == [1, 3, 5, 9, 13, 21, 29]
    assert state["gap"] == 16


def test_a_subspace_that_moves_is_looked_at_at_every_gap() -> None:
    taken, state = _lazy(lambda step: falling(40, 60, seed=step), threshold=0.9, steps=12)

    assert taken == [1, 3, 5, 7, 9, 11]
    assert state["gap"] == 2


def test_a_layer_without_a_group_is_an_error() -> None:
    layer = Int8Linear(torch.nn.Linear(60, 40))

    with pytest.raises(ValueError, match="no parameter group holds the weights of mlp"):
        QGaLoreAdamW([{"params": [layer.bias]}], layers={"mlp": layer}, lr=1e-3)


def test_another_type_and_a_copy_leave_the_weight_without_memory() -> None:
    model, _ = _made()

    moved = copy.deepcopy(model).to(torch.bfloat16)

    assert moved.mlp.weight.dtype == moved.mlp.values.dtype == torch.bfloat16
    assert moved.mlp.weight.untyped_storage().nbytes() == 2
    assert moved.mlp.scales.dtype == torch.float32
    assert torch.equal(moved.mlp.codes, model.mlp.codes)
    assert moved.mlp.codes.data_ptr() != model.mlp.codes.data_ptr()
    assert [name for name, _ in moved.named_parameters()] == [
        name for name, _ in TinyModel().named_parameters()
    ]
