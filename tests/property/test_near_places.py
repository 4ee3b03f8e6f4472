"""What lies where changes places and nothing else."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.cluster import Allocation, Caches, Cluster
from reconciler.domain.job import WorkloadFacts
from reconciler.domain.plan import Decision, Verb
from reconciler.domain.policy import Order
from reconciler.domain.snapshot import DesiredJob, Snapshot
from reconciler.domain.units import JobId
from reconciler.planning.caches import cached_on
from reconciler.planning.invariants import check
from reconciler.planning.placement import place, shape_for
from reconciler.planning.plan import plan
from reconciler.planning.statuses import next_statuses
from reconciler.planning.topology import layout, shape
from reconciler.planning.value.counts import NOWHERE, FreeCounts
from reconciler.planning.value.fleet import Nodes, Within
from tests.builders import a_snapshot
from tests.property.lives import Life
from tests.strategies import PRIORITIES, Step, clusters, lives, orders, requests, snapshots
from tests.values import a_cluster, a_spec

MODELS = ("", "m", "n")
DATA: tuple[tuple[str, ...], ...] = ((), ("d",), ("d", "e"))
caches = st.builds(
    Caches, models=st.sampled_from(((), ("m",), ("m", "n"))), data=st.sampled_from(DATA)
)
facts = st.builds(WorkloadFacts, model=st.sampled_from(MODELS), data=st.sampled_from(DATA))


def without_caches(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, cluster=with_caches(snapshot.cluster, []))


def with_caches(cluster: Cluster, said: list[Caches]) -> Cluster:
    more = [*said, *[Caches()] * len(cluster.nodes)]
    nodes = (replace(node, caches=each) for node, each in zip(cluster.nodes, more, strict=False))
    return replace(cluster, nodes=tuple(nodes))


@st.composite
def cached(draw: st.DrawFn, world: st.SearchStrategy[Snapshot]) -> Snapshot:
    """A snapshot whose jobs read something, and whose nodes have some of it."""
    snapshot = draw(world)

    def reading(job: DesiredJob) -> DesiredJob:
        return job if job.spec is None else replace(job, spec=replace(job.spec, facts=draw(facts)))

    jobs = {name: reading(job) for name, job in snapshot.desired.jobs.items()}
    count = len(snapshot.cluster.nodes)
    return replace(
        snapshot,
        cluster=with_caches(snapshot.cluster, draw(st.lists(caches, max_size=count))),
        desired=replace(snapshot.desired, jobs=jobs),
    )


@st.composite
def one_asks(draw: st.DrawFn) -> Snapshot:
    """A moment at which at most one job has no attempt."""
    snapshot = draw(cached(snapshots()))
    live = {job for job, status in snapshot.statuses.items() if status.live_attempt is not None}
    others = sorted((snapshot.desired.jobs.keys() | snapshot.statuses.keys()) - live)
    kept = live | ({draw(st.sampled_from(others))} if others else set())
    jobs = {job: each for job, each in snapshot.desired.jobs.items() if job in kept}
    return replace(
        snapshot,
        desired=replace(snapshot.desired, jobs=jobs),
        statuses={job: each for job, each in snapshot.statuses.items() if job in kept},
    )


@st.composite
def alike_nodes(draw: st.DrawFn) -> Snapshot:
    """Equal nodes in one rack, work on some of them that stays, and jobs: none is urgent, and
    either all or none can be stopped.  What is free and what stays is all there is to a node.
    """
    count = draw(st.integers(2, 4))
    running: dict[str, Any] = {}
    for number in range(count):
        gpus = draw(st.integers(0, 4))
        if gpus:
            running[f"r{number}"] = {"gpus": gpus, "node": f"n{number}", "preemptible": False}
    may_stop = draw(st.booleans())
    classes = st.sampled_from(PRIORITIES[1:])
    pending = {
        name: draw(requests()) | {"types": (), "preemptible": may_stop, "priority": draw(classes)}
        for name in draw(st.lists(st.sampled_from("abcdef"), unique=True, max_size=6))
    }
    nodes = {f"n{number}": 4 for number in range(count)}
    return a_snapshot(nodes=nodes, running=running, pending=pending, policy={"order": "value"})


def beside_places(decision: Decision) -> tuple[object, ...]:
    """Return all of a decision but where."""
    attempt, hold = decision.attempt, decision.hold
    return (
        decision.verb,
        decision.reason,
        decision.victims,
        decision.for_job,
        None if attempt is None else (attempt.id, attempt.gpus, len(attempt.allocation.shares)),
        None if hold is None else hold.gpus,
    )


def worth(snapshot: Snapshot, job: JobId, where: Allocation) -> int:
    spec = snapshot.desired.jobs[job].spec
    assert spec is not None  # it starts
    near = cached_on(snapshot.cluster.nodes).near(spec.facts.model, spec.facts.data)
    return sum(near.get(share.node, 0) for share in where.shares)


@given(cached(snapshots()))
def test_a_plan_by_caches_keeps_the_invariants(snapshot: Snapshot) -> None:
    check(snapshot, plan(snapshot)[0])


@given(cached(snapshots()), cached(snapshots()))
def test_a_memo_of_other_caches_changes_no_plan(one: Snapshot, other: Snapshot) -> None:
    for before in (other, without_caches(one), one):
        _, memo = plan(before)
        planned, memo = plan(one, memo)

        assert planned == plan(one)[0]
        assert memo.update == next_statuses(one, planned)


@given(
    clusters(),
    lives(),
    orders(),
    st.lists(caches, min_size=4, max_size=4),
    st.lists(facts, min_size=5, max_size=5),
)
def test_every_cycle_of_a_life_with_caches_plans_as_if_it_were_the_first(
    nodes: dict[str, Any],
    steps: list[Step],
    order: Order,
    said: list[Caches],
    reads: list[WorkloadFacts],
) -> None:
    for node, has in zip(nodes.values(), said, strict=False):
        node |= {"models": has.models, "data": has.data}
    steps = [
        replace(step, fields={**step.fields, "model": read.model, "data": read.data})
        for number, step in enumerate(steps)
        for read in (reads[number % len(reads)],)
    ]
    for report in Life(nodes, {}, steps, order).cycles(rest_s=3600):
        check(report.snapshot, report.plan)
        assert report.plan == plan(report.snapshot)[0]


@given(one_asks())
def test_caches_change_no_start_and_no_stop(snapshot: Snapshot) -> None:
    planned, plain = plan(snapshot)[0], plan(without_caches(snapshot))[0]

    assert {job: beside_places(each) for job, each in planned.decisions.items()} == {
        job: beside_places(each) for job, each in plain.decisions.items()
    }
    for job, decision in planned.decisions.items():
        attempt, before = decision.attempt, plain.decisions[job].attempt
        if decision.verb is Verb.START and attempt is not None and before is not None:
            near, far = (worth(snapshot, job, each.allocation) for each in (attempt, before))
            assert near >= far


@given(cached(alike_nodes()))
def test_where_nodes_are_alike_the_same_jobs_start(snapshot: Snapshot) -> None:
    planned, plain = plan(snapshot)[0], plan(without_caches(snapshot))[0]

    assert {job: each.verb for job, each in planned.decisions.items()} == {
        job: each.verb for job, each in plain.decisions.items()
    }


@given(cached(snapshots()))
def test_what_nobody_reads_changes_nothing(snapshot: Snapshot) -> None:
    nodes = snapshot.cluster.nodes
    of_others = [Caches(models=("x",), data=("y",))] * len(nodes)
    other = replace(snapshot, cluster=with_caches(snapshot.cluster, of_others))

    assert plan(other)[0] == plan(without_caches(snapshot))[0]


@given(
    clusters(),
    requests(),
    st.lists(caches, min_size=4, max_size=4),
    facts,
    st.integers(0, 2**32 - 1),
)
def test_a_near_place_is_as_good_as_any(
    nodes: dict[str, Any],
    asked: dict[str, Any],
    said: list[Caches],
    read: WorkloadFacts,
    busy: int,
) -> None:
    where = layout(with_caches(a_cluster(nodes), said))
    wanted, free = shape(a_spec(**asked).gpus, where), where.ready & ~busy
    found, plain = (place(each, free, where) for each in (shape_for(wanted, read, where), wanted))

    def cost(devices: int) -> tuple[int, int, int]:
        on = [position for position, node in enumerate(where.nodes) if node.all & devices]
        kinds = [fitting for _, fitting in wanted.per_type if fitting & devices]
        left = sum((where.nodes[p].all & free & kinds[0]).bit_count() for p in on)
        return len(on), sum(not set(on).isdisjoint(rack) for rack in where.racks), left

    assert (found is None) == (plain is None)
    if found is not None and plain is not None:
        near = where.caches.near(read.model, read.data)

        def worth_of(devices: int) -> int:
            return sum(near.get(node.name, 0) for node in where.nodes if node.all & devices)

        assert cost(found) == cost(plain)
        assert worth_of(found) >= worth_of(plain)


@st.composite
def counted(draw: st.DrawFn) -> FreeCounts:
    count = draw(st.integers(3, 8))
    sizes = tuple(draw(st.lists(st.sampled_from((2, 4, 4)), min_size=count, max_size=count)))
    free = [size if draw(st.integers(0, 3)) else draw(st.integers(0, size)) for size in sizes]
    width = draw(st.sampled_from((1, 1, 2)))
    nodes = Nodes(
        names=tuple(f"n{row}" for row in range(count)),
        sizes=sizes,
        pool=tuple(draw(st.sampled_from((0, 0, 1))) for _ in range(count)),
        pools=("a", "b"),
        rack=tuple(row // (2 * width) for row in range(count)),
        node=tuple(row // width for row in range(count)),
    )
    return FreeCounts(nodes, free)


@given(
    counted(),
    st.sampled_from((1, 2, 3, 4, 6, 8, 10)),
    st.sampled_from((-1, -1, 1, 2)),
    st.sampled_from((Within.POOL, Within.POOL, Within.RACK, Within.NODE, Within.UNIT)),
    st.sampled_from((NOWHERE, NOWHERE, frozenset({0, 1}))),
    st.lists(st.integers(0, 3), min_size=8, max_size=8).map(lambda worth: dict(enumerate(worth))),
)
def test_near_rows_are_as_good_as_any(
    counts: FreeCounts,
    gpus: int,
    pools: int,
    within: Within,
    avoid: frozenset[int],
    near: dict[int, int],
) -> None:
    plain = counts.place(gpus, pools, within, avoid)
    found = counts.place_near(gpus, pools, within, avoid, near)

    assert (found is None) == (plain is None)
    if found is not None and plain is not None:
        of = counts.nodes
        costs = [
            (
                len({of.node[row] for row, _ in held}),
                len({of.rack[row] for row, _ in held}),
                sum(counts.free[row] - count for row, count in held),
                sum(count for _, count in held),
            )
            for held in (found, plain)
        ]
        assert costs[0] == costs[1]
        assert avoid.isdisjoint(row for row, _ in found)
        assert all(counts.free[row] >= count for row, count in found)
        values = [sum(near.get(row, 0) for row, _ in held) for held in (found, plain)]
        assert values[0] >= values[1]
        if len(found) == 1:
            others = range(len(of.names))
            alike = [r for r in others if counts.free[r] == counts.free[plain[0][0]]]
            alike = [r for r in alike if r not in avoid and pools >> of.pool[r] & 1]
            assert near.get(found[0][0], 0) == max(near.get(row, 0) for row in alike)
    assert counts.place_near(gpus, pools, within, NOWHERE, {}) == counts.place(gpus, pools, within)
