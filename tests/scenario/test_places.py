"""Where jobs are put after what happened there before, on virtual time."""

from dataclasses import replace

import pytest

from reconciler.domain.job import WorkloadFacts
from reconciler.domain.units import Seconds
from reconciler.simulate.runs import Behaviour, Fault, Trouble
from reconciler.simulate.world import SimWorld
from tests.values import NOW, a_cluster, a_job_id, a_policy, a_spec


@pytest.mark.parametrize("order", ["score", "value"])
def test_a_lost_job_is_not_tried_again_on_the_node_that_keeps_losing_jobs(order: str) -> None:
    """kubernetes-sigs/kueue#15369: what was lost on a bad node is started there again and again.

    Two jobs get lost on n1, which is up again at once.  Both go on elsewhere, and so does a third;
    only when nothing else is left is n1 used again.
    """
    world = SimWorld(a_cluster({"n1": 4, "n2": 8}), now=NOW, policy=a_policy(order=order))
    for name in ("a", "b"):
        lost = Trouble(fault=Fault.LOST, after_s=Seconds(600))
        world.behaviours[a_job_id(name)] = Behaviour(work_s=Seconds(7200), troubles={0: lost})
        world.main.write(a_spec(name, gpus=2, estimate="2h"), now=world.now)
    list(world.cycles(300))
    first = {name: _nodes(world, name) for name in ("a", "b")}

    list(world.cycles(1500))
    for name, gpus in (("c", 4), ("d", 4)):
        world.behaviours[a_job_id(name)] = Behaviour(work_s=Seconds(7200))
        world.main.write(a_spec(name, gpus=gpus, estimate="2h"), now=world.now)
        list(world.cycles(60))

    assert first == {"a": ["n1"], "b": ["n1"]}
    assert {name: _nodes(world, name)[-1] for name in "abcd"} == {
        "a": "n2",
        "b": "n2",
        "c": "n2",
        "d": "n1",
    }


@pytest.mark.parametrize("order", ["score", "value"])
def test_long_sequences_get_the_fast_links(order: str) -> None:
    """By value best fit puts a gang of four on the four cards without NVLink; over long sequences
    it takes the node that has it, and the cards without only once nothing else is left.  By score
    fewer islands go before the best fit for everybody."""
    nodes = {"n1": {"gpus": 4, "islands": 0}, "n2": {"gpus": 8, "islands": 1}}
    found = {}
    for tokens in (4_096, 65_536):
        world = SimWorld(a_cluster(nodes), now=NOW, policy=a_policy(order=order))
        for name in "abc":
            world.behaviours[a_job_id(name)] = Behaviour(work_s=Seconds(7200))
            spec = replace(a_spec(name, gpus=4), facts=WorkloadFacts(max_length=tokens))
            world.main.write(spec, now=world.now)
            list(world.cycles(60))
        found[tokens] = [_nodes(world, name)[0] for name in "abc"]
    assert found[65_536] == ["n2", "n2", "n1"]
    assert order == "score" or found[4_096] == ["n1", "n2", "n2"]


@pytest.mark.parametrize("order", ["score", "value"])
def test_wide_gangs_over_long_sequences_go_where_rdma_is(order: str) -> None:
    nodes = {f"n{n}": {"gpus": 8, "rack": f"r{n // 2}", "rdma": n >= 2} for n in range(4)}
    found = []
    for tokens in (4_096, 65_536):
        world = SimWorld(a_cluster(nodes), now=NOW, policy=a_policy(order=order))
        world.behaviours[a_job_id("wide")] = Behaviour(work_s=Seconds(7200))
        asked = a_spec("wide", gpus=16, within="rack")
        world.main.write(replace(asked, facts=WorkloadFacts(max_length=tokens)), now=world.now)
        list(world.cycles(60))
        found.append(_nodes(world, "wide"))
    assert found == [["n0"], ["n2"]]


def _nodes(world: SimWorld, name: str) -> list[str]:
    """Return the node of each attempt of a job."""
    attempts = world.statuses[a_job_id(name)].attempts
    return [str(attempt.allocation.shares[0].node) for attempt in attempts]
