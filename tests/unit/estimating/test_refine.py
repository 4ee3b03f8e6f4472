"""A fleet's own runs move the estimates, few runs little and many runs much."""

import pytest

from reconciler.estimating.constants import Constants, Refinement
from reconciler.estimating.estimate import estimate
from reconciler.estimating.refine import FleetRun, refined
from tests.unit.estimating.trainings import a_gpu, a_training, constants

TRAINING = a_training(lora_rank=8)


def runs(count: int, *, memory: float = 1.0, speed: float = 1.0) -> list[FleetRun]:
    """Return runs that measured these multiples of what the shipped constants predict."""
    one = estimate(TRAINING, a_gpu(), constants())
    return [
        FleetRun(
            training=TRAINING,
            gpu=a_gpu(),
            peak_gib=memory * one.p50_gib,
            tokens_per_s_per_gpu=speed * one.speed.tokens_per_s_per_gpu,
        )
    ] * count


def ratio(given: Constants) -> tuple[float, float]:
    """Return how memory and speed of the training changed."""
    before = estimate(TRAINING, a_gpu(), constants())
    after = estimate(TRAINING, a_gpu(), given)
    return (
        after.p50_gib / before.p50_gib,
        after.speed.tokens_per_s_per_gpu / before.speed.tokens_per_s_per_gpu,
    )


def test_without_runs_nothing_changes() -> None:
    assert refined(constants(), []) == constants()


def test_three_runs_do_not_overrule_two_hundred() -> None:
    memory, speed = ratio(refined(constants(), runs(3, memory=1.3, speed=0.7)))

    assert memory == pytest.approx(1.3 ** (3 / 23))
    assert speed == pytest.approx(0.7 ** (3 / 23))


def test_many_runs_do() -> None:
    memory, speed = ratio(refined(constants(), runs(400, memory=1.3, speed=0.7)))

    assert memory == pytest.approx(1.3, rel=0.02)
    assert speed == pytest.approx(0.7, rel=0.02)


def test_one_odd_run_counts_as_a_factor_of_two() -> None:
    memory, _ = ratio(refined(constants(), runs(1, memory=50.0)))

    assert memory == pytest.approx(2 ** (1 / 21))


def test_a_refinement_replaces_an_earlier_one() -> None:
    once = refined(constants(), runs(5, memory=1.2))
    twice = refined(once, runs(5, memory=1.2))

    assert once == twice
    assert once.refinement.runs == 5


def test_classes_and_gpu_types_are_refined_apart() -> None:
    given = refined(constants(), runs(5, memory=1.2, speed=0.8))

    assert set(given.refinement.memory) == {"single"}
    assert set(given.refinement.speed) == {"A100-80GB"}
    other = a_gpu("H100-80GB")
    assert estimate(TRAINING, other, given).speed == estimate(TRAINING, other, constants()).speed


def test_what_a_refinement_adds_is_shown_as_runtime() -> None:
    before = estimate(TRAINING, a_gpu(), constants())
    given = refined(constants(), runs(50, memory=1.2))

    after = estimate(TRAINING, a_gpu(), given)

    assert after.memory.parts.weights == before.memory.parts.weights
    assert after.memory.parts.total() == pytest.approx(after.p50_gib)


def test_runs_that_measured_nothing_teach_nothing() -> None:
    found = refined(constants(), [FleetRun(training=TRAINING, gpu=a_gpu())])

    assert found.refinement == Refinement()
