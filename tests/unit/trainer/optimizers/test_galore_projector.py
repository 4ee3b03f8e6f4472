"""The random basis is nearly as good as that of a full SVD, and always the same one."""

import pytest

torch = pytest.importorskip("torch")

from tests.unit.trainer.optimizers.worlds import falling  # noqa: E402
from trainer.optimizers.galore_projector import (  # noqa: E402
    captured_energy,
    dominant_basis,
    exact_basis,
    overlap,
    project,
    project_back,
)


def _random(seed: int = 5) -> "torch.Generator":
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("shape", [(96, 300), (300, 96), (96, 96)])
@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_random_basis_holds_nearly_what_the_best_one_holds(
    shape: tuple[int, int], power: float
) -> None:
    gradient = falling(*shape, power=power)

    basis = dominant_basis(gradient, 12, generator=_random())

    best = captured_energy(gradient, exact_basis(gradient, 12))
    assert captured_energy(gradient, basis) >= 0.985 * best


def test_more_power_iterations_come_closer() -> None:
    gradient = falling(96, 300, power=0.5)

    energies = [
        captured_energy(
            gradient, dominant_basis(gradient, 12, generator=_random(), power_iterations=count)
        )
        for count in (0, 1, 2)
    ]

    assert energies == sorted(energies)
    assert energies[2] > energies[0] + 0.02


@pytest.mark.parametrize(("rank", "shape"), [(12, (96, 300)), (40, (96, 300)), (96, (300, 96))])
def test_the_columns_are_orthonormal(rank: int, shape: tuple[int, int]) -> None:
    basis = dominant_basis(falling(*shape), rank, generator=_random())

    assert basis.shape == (96, rank)
    torch.testing.assert_close(basis.T @ basis, torch.eye(rank), atol=2e-5, rtol=0)


def test_a_wide_sketch_is_replaced_by_the_exact_basis() -> None:
    gradient = falling(64, 100)
    random = _random()
    before = random.get_state()

    basis = dominant_basis(gradient, 32, generator=random)

    assert overlap(basis, exact_basis(gradient, 32)) == pytest.approx(1, abs=1e-4)
    assert torch.equal(random.get_state(), before)


def test_the_strongest_direction_comes_first() -> None:
    gradient = falling(96, 300)

    inside = project(gradient, dominant_basis(gradient, 12, generator=_random()))

    norms = inside.norm(dim=1)
    assert torch.equal(norms, norms.sort(descending=True).values)


def test_equal_generators_give_equal_bases_and_others_do_not() -> None:
    gradient = falling(96, 300, power=0.2)

    first, again = (dominant_basis(gradient, 12, generator=_random(5)) for _ in range(2))
    other = dominant_basis(gradient, 12, generator=_random(6))

    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("shape", [(20, 60), (60, 20)])
def test_what_lies_in_the_basis_survives_the_way_there_and_back(shape: tuple[int, int]) -> None:
    gradient = falling(*shape)
    basis = exact_basis(gradient, 20)

    back = project_back(project(gradient, basis), basis, gradient.shape)

    torch.testing.assert_close(back, gradient, atol=1e-5, rtol=0)


def test_turning_and_flipping_columns_leaves_the_overlap_at_one() -> None:
    basis = exact_basis(falling(40, 60), 6)
    turn = torch.linalg.qr(torch.randn((6, 6), generator=_random())).Q

    assert overlap(basis @ turn, -basis) == pytest.approx(1, abs=1e-5)
    assert overlap(basis, exact_basis(falling(40, 60, seed=1), 6)) == pytest.approx(6 / 40, abs=0.1)


def test_a_gradient_of_zeros_and_one_of_a_short_type_have_a_basis() -> None:
    for gradient in (torch.zeros(96, 300), falling(96, 300).bfloat16()):
        basis = dominant_basis(gradient, 12, generator=_random())
        assert bool(torch.isfinite(basis).all())
