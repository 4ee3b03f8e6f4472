"""The production cycle over traces: played by hand, held to every invariant in every cycle."""

from collections.abc import Sequence

import pytest

from reconciler.domain.cluster import NodeState
from reconciler.domain.policy import Order, Policy
from reconciler.domain.units import Instant
from reconciler.simulate.asks import Ask, Estimates, Overlay, asks, next_limit
from reconciler.simulate.costs import Costs
from reconciler.simulate.metrics import wait_s
from reconciler.simulate.nodes import Nodes
from reconciler.simulate.outcome import Played
from reconciler.simulate.overlay_world import OverlayWorld
from reconciler.simulate.paper_fleet import EPOCH, paper_cluster, paper_spec, paper_teams
from reconciler.simulate.play_headway import play_headway
from reconciler.simulate.readers.files import open_load
from tests.unit.simulate.paper import ask, ends, starts


def headway(jobs: Sequence[Ask], *, nodes: int = 1, order: Order = Order.VALUE) -> Played:
    return play_headway(
        jobs,
        paper_cluster(nodes, 8),
        gpus_per_node=8,
        tor_size=None,
        costs=Costs.times(1),
        policy=Policy(order=order),
        check_every=1,
    )


def test_jobs_that_fit_start_when_they_come_and_the_next_when_one_ends() -> None:
    jobs = (ask("a", 0, 8, 100), ask("b", 50, 8, 100), ask("c", 1000, 4, 10))
    found = headway(jobs)
    assert starts(found) == {"a": 0, "b": 100, "c": 1000}
    assert ends(found) == {"a": 100, "b": 200, "c": 1010}


@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize("estimates", [Estimates.E2, Estimates.E3])
def test_every_job_of_a_made_up_load_ends_and_no_cycle_breaks_an_invariant(
    order: Order, estimates: Estimates
) -> None:
    load = open_load("synthetic:36,per_hour=60,median=900,sigma=1.1,widest=16", seed=5)
    jobs = asks(load, overlay=Overlay.FULL, estimates=estimates, seed=5)
    found = headway(jobs, nodes=3, order=order)
    assert len(found.outcomes) == len(jobs)
    assert not found.notes
    assert all(each.ended_s >= each.ask.submit_s + each.ask.duration_s for each in found.outcomes)
    held = sum(stay.gpus * (stay.ended_s - stay.began_s) for stay in found.stays)
    assert held >= sum(job.gpus * job.duration_s for job in jobs)


def test_a_job_near_its_limit_gets_a_longer_one_instead_of_being_stopped() -> None:
    jobs = (ask("runs over", 0, 8, 7200, limit_s=3600),)
    found = headway(jobs)
    assert not found.notes
    assert ends(found) == {"runs over": 7200}
    assert next_limit(3600) == 4 * 3600


def test_a_victim_resumes_where_it_was_stopped_and_pays_for_it() -> None:
    jobs = (
        ask("victim", 0, 8, 20_000, priority=3, limit_s=50_000),
        ask("urgent", 5000, 8, 600, priority=0, preemptible=False, deadline_s=6500),
    )
    found = headway(jobs)
    victim, urgent = found.outcomes
    assert victim.preemptions == 1
    assert urgent.first_start_s <= 5000 + 60
    assert wait_s(victim) == pytest.approx(600 + 21 + 62 + 2, abs=5)
    assert victim.overhead_gpu_s == (21 + 62) * 8


def test_a_run_that_loses_its_node_goes_back_at_most_half_an_hour() -> None:
    jobs = (ask("lost", 0, 8, 9000, limit_s=20_000),)
    specs = [paper_spec(job, 8) for job in jobs]
    world = OverlayWorld(
        jobs,
        specs,
        paper_cluster(2, 8),
        policy=Policy(),
        teams=paper_teams({"a": None}, None),
        costs=Costs.times(1),
        counts=Nodes(2, 8),
        gpus=16,
    )
    from reconciler.cycle import run_cycle

    world.advance(world.now)
    memo = run_cycle(world).memo
    world.advance(Instant(EPOCH + 4000))
    world.set_node(world._attempts[next(iter(world._attempts))].place[0][0], NodeState.DOWN)
    while world.unfinished:
        memo = run_cycle(world, memo).memo
        world.advance(world.next_event_at() or Instant(world.now + 60))
    (fate,) = world.fates
    assert fate.lost == 1
    assert fate.ended_s is not None
    assert 9000 + 62 <= fate.ended_s <= 9000 + 62 + 1800 + 200


def test_an_elastic_gang_starts_smaller_where_it_is_done_sooner_so() -> None:
    jobs = (
        ask("blocks", 0, 4, 40_000, limit_s=50_000, preemptible=False),
        ask("elastic", 100, 8, 4000, limit_s=20_000, prediction_s=4000, min_gpus=4, max_gpus=16),
    )
    found = headway(jobs)
    elastic = found.outcomes[1]
    assert elastic.first_start_s < 1000
    assert elastic.ended_s == pytest.approx(elastic.first_start_s + 4000 * 2**0.9, abs=2)
