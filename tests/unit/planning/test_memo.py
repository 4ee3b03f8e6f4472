from reconciler.domain.job import GpuRequest, TopologyDomain
from reconciler.planning.shapes import FORGET_OVER, Shapes
from tests.values import a_cluster, a_spec

SMALL, BIG = a_cluster({"n1": 4}), a_cluster({"n1": 8})


def test_a_memo_of_the_same_cluster_is_used() -> None:
    first = Shapes(BIG, None)
    shape = first.of(a_spec(gpus=8).gpus)

    second = Shapes(a_cluster({"n1": 8}), first.known())

    assert second.of(a_spec(gpus=8).gpus) is shape
    assert second.where is first.where


def test_a_memo_of_another_cluster_is_not() -> None:
    first = Shapes(BIG, None)
    assert first.can_ever_fit(a_spec(gpus=8).gpus)

    assert not Shapes(SMALL, first.known()).can_ever_fit(a_spec(gpus=8).gpus)


def test_a_nodes_state_alone_makes_another_cluster() -> None:
    down = a_cluster({"n1": {"gpus": 8, "state": "down"}})

    assert Shapes(down, Shapes(BIG, None).known()).where.ready == 0


def test_more_requests_than_are_worth_keeping_are_forgotten() -> None:
    known = Shapes(BIG, None).known()
    for count in range(1, FORGET_OVER + 2):
        shapes = Shapes(BIG, known)
        shapes.of(a_spec(gpus=count).gpus)
        known = shapes.known()

    assert list(known.shapes) == [GpuRequest(count=count, within=TopologyDomain.NODE)]
