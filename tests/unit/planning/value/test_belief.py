from math import exp, log

import pytest

from reconciler.domain.value_state import Learned
from reconciler.planning.value.belief import Beliefs, is_due, learn, rung, size_class
from tests.unit.planning.value.worlds import job


def taught(*pairs: tuple[int, int], gpus: int = 1, predicted: int = 0) -> Learned:
    learned = Learned()
    for limit, served in pairs:
        learned = learn(learned, job("x", gpus, limit=limit, predicted=predicted), served)
    return learned


def test_with_nothing_learned_the_median_is_half_an_hour() -> None:
    mean, var = Beliefs(Learned()).of(job("x", limit=0, predicted=0))
    assert exp(mean) == pytest.approx(1800, rel=1e-6)
    assert var == pytest.approx(4.0)


def test_a_class_of_short_jobs_is_believed_short() -> None:
    beliefs = Beliefs(taught(*[(0, 60)] * 200, gpus=4))
    assert exp(beliefs.of(job("x", 4, limit=0, predicted=0))[0]) < 120
    assert exp(beliefs.of(job("x", 64, limit=0, predicted=0))[0]) < 200  # the population's


def test_sizes_share_a_class_up_to_the_next_power_of_two() -> None:
    assert [size_class(gpus) for gpus in (1, 2, 3, 4, 5, 8, 9)] == [*"124488", "16"]


def test_each_limit_rung_learns_its_own_error() -> None:
    learned = taught(*[(3600, 60)] * 100, *[(86_400, 43_200)] * 100)
    beliefs = Beliefs(learned)
    short = beliefs.told(job("x", limit=3600, predicted=0))[0]
    long = beliefs.told(job("x", limit=86_400, predicted=0))[0]
    assert exp(short) == pytest.approx(60, rel=0.6)
    assert exp(long) == pytest.approx(43_200, rel=0.1)
    assert rung(3600) != rung(14_400)


def test_a_biased_prediction_is_corrected_by_what_it_missed() -> None:
    learned = taught(*[(0, 7200)] * 300, predicted=3600)
    mean, _ = Beliefs(learned).told(job("x", limit=0, predicted=36_000))
    assert exp(mean) == pytest.approx(72_000, rel=0.1)


def test_a_precise_source_outweighs_a_vague_one() -> None:
    learned = Learned()
    for step in range(200):
        served = 3600
        noise = 8 if step % 2 else 1
        facts = job("x", limit=14_400, predicted=served * noise // 2)
        learned = learn(learned, facts, served)
    mean, _ = Beliefs(learned).told(job("x", limit=14_400, predicted=200_000))
    assert abs(mean - log(3600)) < 1.0  # the limit is always four times too long


def test_what_is_learned_does_not_depend_on_the_order_of_ends() -> None:
    pairs = [(3600, 10), (86_400, 50_000), (3600, 3000), (14_400, 77)]
    assert taught(*pairs) == taught(*reversed(pairs))


def test_beliefs_are_published_at_the_first_end_and_then_each_two_per_cent() -> None:
    one = taught((3600, 60))
    assert is_due(one, Learned())
    hundred = taught(*[(3600, 60)] * 100)
    assert not is_due(taught(*[(3600, 60)] * 102), hundred)
    assert is_due(taught(*[(3600, 60)] * 103), hundred)


def test_a_job_that_says_nothing_is_believed_by_the_prior_in_the_shadow_too() -> None:
    beliefs = Beliefs(Learned())
    facts = job("x", limit=0, predicted=0)
    assert beliefs.told(facts) == beliefs.of(facts)
