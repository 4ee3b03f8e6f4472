"""GaLore learns, is smaller than AdamW, and is the same after a resume, bit for bit."""

import io
from itertools import pairwise
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
from trainer.optimizers.building import build  # noqa: E402
from trainer.optimizers.galore import GaLoreAdamW, state_bytes  # noqa: E402


def _made(seed: int = 7, **keys: Any) -> tuple[Any, Any]:
    model = TinyModel()
    return model, build(model, section(**keys), decaying=decaying(model), seed=seed)


@pytest.fixture(autouse=True)
def _encode_small_tensors_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantised_states, "LEAST_ELEMENTS", 200)


def _through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded: dict[str, Any] = torch.load(file, weights_only=True)
    return loaded


def test_without_a_rank_it_is_the_adamw_of_torch() -> None:
    models = TinyModel(), TinyModel()
    settings = {"lr": 1e-2, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
    ours = GaLoreAdamW([{"params": list(models[0].parameters())}], **settings)
    theirs = torch.optim.AdamW(models[1].parameters(), **settings)

    losses = [train(models[0], ours, range(20)), train(models[1], theirs, range(20))]

    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for mine, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("optim", ["adamw_torch", "adamw_8bit"])
def test_the_loss_falls(optim: str) -> None:
    model, optimizer = _made(optim=optim)

    losses = train(model, optimizer, range(60))

    assert sum(losses[-5:]) / 5 < 0.35 * losses[0]


@pytest.mark.parametrize("shape", [(24, 60), (60, 24)])
def test_an_update_stays_in_the_subspace_and_the_states_are_of_its_size(
    shape: tuple[int, int],
) -> None:
    weight = torch.nn.Parameter(torch.zeros(shape))
    group = {"params": [weight], "rank": 4, "update_gap": 10, "scale": 0.5}
    optimizer = GaLoreAdamW([group], lr=1.0)
    weight.grad = falling(*shape)

    optimizer.step()

    assert torch.linalg.matrix_rank(weight.detach(), rtol=1e-4) == 4
    small, large = sorted(shape)
    assert state_bytes(optimizer) == 4 * 4 * (small + 2 * large)


def test_the_scale_scales_the_update() -> None:
    moved = []
    for scale in (0.5, 1.0):
        weight = torch.nn.Parameter(torch.zeros(24, 60))
        group = {"params": [weight], "rank": 4, "update_gap": 10, "scale": scale}
        optimizer = GaLoreAdamW([group], lr=1.0)
        weight.grad = falling(24, 60)
        optimizer.step()
        moved.append(weight.detach().clone())

    torch.testing.assert_close(moved[0] * 2, moved[1])


def test_bases_are_renewed_at_their_gap_and_not_all_in_one_step() -> None:
    model, optimizer = _made(galore_update_proj_gap=4)
    matrices = [model.attn.weight, model.mlp.weight]
    renewed: list[list[int]] = [[], []]
    before: list[Any] = [None, None]
    for step in range(1, 13):
        train(model, optimizer, range(step, step + 1))
        for place, matrix in enumerate(matrices):
            basis = optimizer.state[matrix]["basis"]
            if before[place] is None or not torch.equal(basis, before[place]):
                renewed[place].append(step)
            before[place] = basis.clone()

    assert renewed[0][0] == renewed[1][0] == 1
    for steps in renewed:
        assert {after - before for before, after in pairwise(steps[1:])} == {4}
    assert set(renewed[0][1:]).isdisjoint(renewed[1][1:])


@pytest.mark.parametrize("optim", ["adamw_torch", "adamw_8bit"])
def test_ten_steps_are_five_and_a_resume_and_five_bit_for_bit(optim: str) -> None:
    straight_model, straight = _made(optim=optim)
    expected = train(straight_model, straight, range(10))
    model, optimizer = _made(optim=optim)
    losses = train(model, optimizer, range(5))

    resumed_model, resumed = _made(optim=optim, seed=99)
    resumed_model.load_state_dict(model.state_dict())
    resumed.load_state_dict(_through_a_file(optimizer.state_dict()))
    losses += train(resumed_model, resumed, range(5, 10))

    assert losses == expected
    for mine, other in zip(straight_model.parameters(), resumed_model.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_a_loaded_state_keeps_its_types_and_is_a_copy() -> None:
    model, optimizer = _made(optim="adamw_8bit", galore_rank=32)
    model.mlp.weight.grad = torch.ones_like(model.mlp.weight)
    model.embed_tokens.weight.grad = torch.ones_like(model.embed_tokens.weight)
    optimizer.step()
    saved = optimizer.state_dict()
    _, other = _made(optim="adamw_8bit", galore_rank=32)

    other.load_state_dict(saved)

    for kept, loaded in zip(saved["state"].values(), other.state.values(), strict=True):
        for name, value in kept.items():
            if isinstance(value, torch.Tensor):
                assert loaded[name].dtype == value.dtype
                assert loaded[name].data_ptr() != value.data_ptr()


def test_other_seeds_give_other_bases() -> None:
    bases = []
    for seed in (1, 2):
        weight = torch.nn.Parameter(torch.zeros(96, 100))
        group = {"params": [weight], "rank": 4, "update_gap": 10, "scale": 1.0}
        optimizer = GaLoreAdamW([group], lr=1.0, seed=seed)
        weight.grad = falling(96, 100, power=0.1)
        optimizer.step()
        bases.append(optimizer.state[weight]["basis"])

    assert not torch.equal(*bases)


def test_a_state_of_other_groups_is_refused() -> None:
    _, optimizer = _made()
    _, other = _made(galore_target_modules=["mlp"])

    with pytest.raises(ValueError, match="belongs to other parameter groups"):
        other.load_state_dict(optimizer.state_dict())


@pytest.mark.parametrize(
    ("shape", "words"),
    [((4, 60), "above the smaller side"), ((60,), "projects matrices"), ((2, 3, 9), "matrices")],
)
def test_what_can_not_be_projected_is_refused(shape: tuple[int, ...], words: str) -> None:
    group = {"params": [torch.nn.Parameter(torch.zeros(shape))], "rank": 5}

    with pytest.raises(ValueError, match=words):
        GaLoreAdamW([group | {"update_gap": 1, "scale": 1.0}], lr=1.0)


def test_a_parameter_without_a_gradient_does_not_move() -> None:
    model, optimizer = _made()
    before = model.norm.weight.clone()
    model.attn.weight.grad = torch.ones_like(model.attn.weight)

    optimizer.step()

    assert torch.equal(model.norm.weight, before)
    assert model.norm.weight not in optimizer.state
