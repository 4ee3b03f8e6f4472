from reconciler.domain.job import GpuRequest, TopologyDomain
from reconciler.planning.memo import Shapes
from reconciler.planning.plan import plan
from tests.builders import a_snapshot
from tests.values import a_cluster, a_spec

SMALL, BIG = a_cluster({"n1": 4}), a_cluster({"n1": 8})


def test_a_memo_of_the_same_cluster_is_used() -> None:
    first = Shapes(BIG, None)
    shape = first.of(a_spec(gpus=8).gpus)

    second = Shapes(a_cluster({"n1": 8}), first.memo())

    assert second.of(a_spec(gpus=8).gpus) is shape
    assert second.where is first.where


def test_a_memo_of_another_cluster_is_not() -> None:
    first = Shapes(BIG, None)
    assert first.can_ever_fit(a_spec(gpus=8).gpus)

    assert not Shapes(SMALL, first.memo()).can_ever_fit(a_spec(gpus=8).gpus)


def test_a_nodes_state_alone_makes_another_cluster() -> None:
    down = a_cluster({"n1": {"gpus": 8, "state": "down"}})

    assert Shapes(down, Shapes(BIG, None).memo()).where.ready == 0


def test_requests_nobody_makes_any_more_are_forgotten() -> None:
    _, memo = plan(a_snapshot(pending={"a": {"gpus": 2}, "b": {"gpus": 4}}))
    _, memo = plan(a_snapshot(pending={"a": {"gpus": 2}}), memo)

    assert list(memo.shapes) == [GpuRequest(count=2, within=TopologyDomain.NODE)]
