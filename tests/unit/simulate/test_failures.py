"""Nodes die by hash, and every policy gets its jobs through."""

import pytest

from reconciler.simulate.arena import BASELINES, Setup, play_baseline
from reconciler.simulate.asks import Overlay
from reconciler.simulate.baselines.ordered import Fifo
from reconciler.simulate.costs import Costs
from reconciler.simulate.counted import CountedFleet
from reconciler.simulate.failures import REPAIR_S, Failure, failures
from reconciler.simulate.load import TraceJob
from reconciler.simulate.readers.files import open_load
from reconciler.simulate.shares import WEEK_S, quotas, within_budgets
from tests.unit.simulate.paper import ask

DAY_S = 86400


def test_a_node_fails_once_in_sixty_days_on_the_mean_and_is_back_in_an_hour() -> None:
    found = failures(200, first_s=0, last_s=120 * DAY_S, seed=1)
    assert len(found) == pytest.approx(400, rel=0.15)
    assert list(found) == sorted(found)
    assert found[0].repaired_s == found[0].at_s + REPAIR_S
    assert found == failures(200, first_s=0, last_s=120 * DAY_S, seed=1)


def test_a_job_on_a_node_that_dies_comes_back_elsewhere_with_what_was_saved() -> None:
    jobs = (ask("lost", 0, 8, 9000),)
    fleet = CountedFleet(
        jobs,
        nodes=2,
        gpus_per_node=8,
        costs=Costs.flat(60),
        failures=(Failure(4000, 0),),
    )
    fleet.run(Fifo())
    (outcome,) = fleet.played("fifo", 0.0).outcomes
    assert outcome.lost == 1
    assert 9060 <= outcome.ended_s <= 9060 + 1800
    assert outcome.overhead_gpu_s == pytest.approx((outcome.ended_s - 9000) * 8)


@pytest.mark.parametrize("policy", BASELINES)
def test_every_policy_ends_every_job_of_the_full_overlay(policy: str) -> None:
    load = open_load("synthetic:150,per_hour=30,median=7200,widest=16", seed=2)
    setup = Setup(nodes=8, overlay=Overlay.FULL, seed=4)
    found = play_baseline(policy, load, setup)
    assert len(found.outcomes) == len(load)
    for each in found.outcomes:
        assert each.first_start_s >= each.ask.submit_s
        assert each.ended_s >= each.first_start_s + each.ask.duration_s - 1e-6
    assert _most_held(found.stays) <= 64


def _most_held(stays: object) -> float:
    changes = []
    for stay in stays:  # type: ignore[attr-defined]
        changes += [(stay.began_s, 1, stay.gpus), (stay.ended_s, 0, -stay.gpus)]
    held = most = 0
    for _, _, change in sorted(changes):
        held += change
        most = max(most, held)
    return most


def test_quotas_follow_demand_and_hold_the_whole_cluster_together() -> None:
    jobs = (ask("a", 0, 8, 3000, team="big"), ask("b", 0, 8, 1000, team="small"))
    found = quotas(jobs, 16)
    assert found == {"big": 15, "small": 5}
    assert sum(found.values()) >= 16


def test_a_job_over_its_teams_budget_comes_a_week_later_for_everybody() -> None:
    rush = [ask(f"rush-{n}", n, 8, 1000, team="a") for n in range(10)]
    late = ask("late", 3 * WEEK_S, 8, 1000, team="a")
    admitted, deferred = within_budgets((*rush, late))
    assert deferred > 0
    assert len(admitted) == 11
    assert [job.submit_s for job in admitted] == sorted(job.submit_s for job in admitted)
    moved = [job for job in admitted if job.id.startswith("rush") and job.submit_s >= WEEK_S]
    assert len(moved) == deferred
    assert all(job.submit_s % WEEK_S == 0 for job in moved)


def test_a_lone_job_above_the_budget_is_admitted_first_thing_in_a_week() -> None:
    jobs = (ask("giant", 0, 8, 90_000), ask("small", 1, 1, 10), ask("end", 2 * WEEK_S, 1, 10))
    admitted, _ = within_budgets(jobs)
    assert next(job for job in admitted if job.id == "giant").submit_s == 0


def test_a_bare_load_has_neither_failures_nor_budgets() -> None:
    load = (TraceJob(id="a", submit_s=0, duration_s=10, gpus=1),)
    assert play_baseline("fifo", load, Setup(nodes=1)).node_failures == 0
