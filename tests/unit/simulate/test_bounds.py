"""No schedule beats the bound, and the bound is what theory says where theory says it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.simulate.asks import Ask
from reconciler.simulate.baselines.ordered import Easy, FifoSkip
from reconciler.simulate.baselines.rounds import Srtf
from reconciler.simulate.bounds import bound
from reconciler.simulate.metrics import jct_s, mean
from tests.unit.simulate.paper import ask, played

loads = st.lists(
    st.tuples(st.integers(0, 3000), st.sampled_from([1, 2, 4, 8, 16]), st.integers(1, 2000)),
    min_size=1,
    max_size=14,
).map(
    lambda rows: tuple(
        ask(f"j{number}", submit, gpus, duration)
        for number, (submit, gpus, duration) in enumerate(sorted(rows))
    )
)


@given(loads)
def test_no_policy_beats_the_bound(jobs: tuple[Ask, ...]) -> None:
    found = bound(jobs, 16, steps=3)
    for policy in (Easy(), FifoSkip(), Srtf(60)):
        outcomes = played(policy, jobs, nodes=2).outcomes
        assert mean([jct_s(each) for each in outcomes]) >= found.best_s * (1 - 1e-9)


def test_one_job_alone_is_bounded_by_its_duration() -> None:
    found = bound((ask("alone", 50, 4, 1000),), 8)
    assert found.best_s == pytest.approx(1000, rel=1e-3)


def test_two_gangs_of_the_whole_cluster_are_bounded_exactly() -> None:
    found = bound((ask("short", 0, 8, 100), ask("long", 0, 8, 300)), 8)
    assert found.srpt_s == pytest.approx((100 + 400) / 2)
    assert found.busy_time_s == pytest.approx((100 + 400) / 2)
    assert found.best_s == pytest.approx(250, rel=2e-3)


def test_a_later_short_job_is_worked_on_first_by_the_fluid_machine() -> None:
    found = bound((ask("long", 0, 8, 1000), ask("short", 100, 8, 10)), 8)
    assert found.srpt_s == pytest.approx((1010 + 10) / 2)
