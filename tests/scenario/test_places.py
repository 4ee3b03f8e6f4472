"""Where jobs are put after what happened there before, on virtual time."""

import pytest

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


def _nodes(world: SimWorld, name: str) -> list[str]:
    """Return the node of each attempt of a job."""
    attempts = world.statuses[a_job_id(name)].attempts
    return [str(attempt.allocation.shares[0].node) for attempt in attempts]
