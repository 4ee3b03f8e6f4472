from math import exp, log, sqrt
from statistics import NormalDist

import pytest

from reconciler.domain.value_state import Learned
from reconciler.planning.value.belief import Beliefs
from reconciler.planning.value.index import LEAST_S, Residuals, mean_residual
from tests.unit.planning.value.worlds import job


def by_quadrature(mean: float, var: float, limit: float, served: float) -> float:
    """E[d | served < d < limit] - served by summing the density over ln d."""
    normal = NormalDist(mean, sqrt(var))
    low, high = log(max(served, 1e-9)), log(limit)
    steps = 20_000
    low = max(low, mean - 12 * sqrt(var))
    mass = weight = 0.0
    for step in range(steps):
        x = low + (high - low) * (step + 0.5) / steps
        density = normal.pdf(x)
        mass += density
        weight += density * exp(x)
    return weight / mass - served


@pytest.mark.parametrize("served", [0, 600, 5000, 20_000, 80_000])
def test_the_closed_form_agrees_with_a_sum_over_the_density(served: int) -> None:
    mean, var, limit = log(3600.0), 2.0, 86_400.0
    expected = by_quadrature(mean, var, limit, served)
    assert mean_residual(mean, var, limit, served) == pytest.approx(expected, rel=0.01)


def test_without_a_limit_it_is_the_mean_of_the_log_normal() -> None:
    assert mean_residual(log(1000.0), 1.0, 0, 0) == pytest.approx(1000 * exp(0.5), rel=1e-6)


def test_it_grows_with_service_while_the_limit_is_far() -> None:
    values = [mean_residual(log(600.0), 4.0, 0, served) for served in (0, 600, 6000, 60_000)]
    assert values[1:] == sorted(values[1:])


def test_it_is_never_more_than_the_limit_leaves() -> None:
    assert mean_residual(log(1e6), 4.0, 3600, 3000) <= 600


def test_a_job_past_its_limit_is_expected_to_need_a_tenth_of_what_it_ran() -> None:
    assert mean_residual(log(600.0), 1.0, 3600, 7200) == 720


def test_a_job_beyond_all_belief_is_finite_and_positive() -> None:
    assert LEAST_S <= mean_residual(log(10.0), 0.01, 0, 1e8) < 1e9


def test_a_value_does_not_depend_on_when_it_was_asked_for_before() -> None:
    beliefs = Beliefs(Learned())
    often, once = Residuals(beliefs), Residuals(beliefs)
    facts = job("x")
    for served in range(0, 5000, 7):
        often.of(facts, served)
    assert often.of(facts, 4996) == once.of(facts, 4996)


def test_other_facts_of_the_same_job_are_valued_anew() -> None:
    residuals = Residuals(Beliefs(Learned()))
    before = residuals.of(job("x", limit=3600, predicted=0), 0)
    assert residuals.of(job("x", limit=604_800, predicted=0), 0) > before
