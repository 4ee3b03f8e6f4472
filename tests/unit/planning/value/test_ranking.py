import pytest

from reconciler.domain.value_state import FirmPlace, Learned
from reconciler.planning.value.belief import Beliefs
from reconciler.planning.value.ranking import ranked
from tests.unit.planning.value.worlds import NOW, job, runs, valuation

BELIEFS = Beliefs(Learned())


def order(*waiting, firm=(), **changes) -> list[str]:
    value = valuation(beliefs=BELIEFS, **changes)
    places = {facts.job: FirmPlace(since=0) for facts in waiting if facts.job in firm}
    return [facts.job for facts in ranked(list(waiting), value, places)[0]]


def test_less_gpu_time_goes_first() -> None:
    short, long = job("a", predicted=600, limit=3600), job("b", predicted=90_000, limit=604_800)
    assert order(long, short) == ["t/a", "t/b"]
    assert order(job("b", 1), job("a", 8)) == ["t/b", "t/a"]


def test_twice_the_weight_counts_like_half_the_gpus() -> None:
    value = valuation(beliefs=BELIEFS)
    plain, heavy = job("a", 2), job("b", 4, weight=2.0)
    assert value.score(plain) == pytest.approx(value.score(heavy))


def test_a_job_moves_forward_as_its_delay_uses_the_budget_up() -> None:
    old, new = job("a", 8, arrived=NOW - 80_000), job("b", 1)
    assert order(new, old) == ["t/a", "t/b"]
    assert order(new, old, budget_s=864_000.0) == ["t/b", "t/a"]


def test_progress_is_no_delay() -> None:
    value = valuation(beliefs=BELIEFS)
    ran = runs("a", ((0, 4),), ran_s=50_000)
    assert value.delay(ran) == 0
    assert value.served(ran) == 50_000
    stopped = job("a", 4, arrived=NOW - 51_000, served=50_000)
    assert value.delay(stopped) == pytest.approx(1000, abs=120)


def test_jobs_in_a_rush_come_first_then_firm_ones_the_most_delayed_first() -> None:
    rush = job("r", 64, rush=True)
    late = job("l", 64, arrived=NOW - 90_000)
    later = job("m", 64, arrived=NOW - 95_000)
    assert order(job("s", 1), late, later, rush, firm=("t/l", "t/m")) == [
        "t/r", "t/m", "t/l", "t/s",
    ]  # fmt: skip


def test_a_deadline_ages_a_job_towards_its_slack() -> None:
    value = valuation(beliefs=BELIEFS)
    plain = job("a", arrived=NOW - 3000)
    left = value.left(plain)
    due = job("a", arrived=NOW - 3000, deadline=NOW - 3000 + int(left) + 4000)
    assert value.score(due) < 0.5 * value.score(plain)


def test_a_deadline_that_cannot_be_met_any_more_gives_no_advantage() -> None:
    value = valuation(beliefs=BELIEFS)
    plain, lost = job("a", arrived=NOW - 3000), job("a", arrived=NOW - 3000, deadline=NOW + 1)
    assert value.score(lost) == value.score(plain)


def test_equal_jobs_are_ordered_by_arrival_and_name_whatever_order_they_come_in() -> None:
    jobs = [job(name) for name in "cab"]
    assert order(*jobs) == order(*reversed(jobs)) == ["t/a", "t/b", "t/c"]


def test_ranks_move_only_with_the_rerank_period() -> None:
    facts = job("a", arrived=NOW - 5000)
    start = NOW - NOW % 120
    scores = {valuation(beliefs=BELIEFS, now=now).score(facts) for now in range(start, start + 120)}
    assert len(scores) == 1
