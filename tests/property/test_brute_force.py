"""The planner's places against the plainest possible search, on tiny clusters."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.plan import Verb
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import Instant, Seconds
from reconciler.planning import remaining
from reconciler.planning.occupancy import Timeline
from reconciler.planning.placement import fits
from reconciler.planning.plan import plan
from reconciler.planning.topology import allocation_of, layout, shape
from tests.property.brute import Busy, earliest_start, gang_fits
from tests.strategies import clusters, queues, requests
from tests.values import NOW, a_cluster, a_spec

bookings = st.lists(
    st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 30), st.integers(1, 30)), max_size=6
)


@given(clusters(), requests(), bookings, st.integers(1, 40))
def test_the_earliest_start_is_the_earliest(
    nodes: dict[str, Any], asked: dict[str, Any], made: list[tuple[int, int, int]], duration: int
) -> None:
    cluster = a_cluster(nodes)
    where = layout(cluster)
    request = a_spec(**asked).gpus
    timeline = Timeline(NOW, where.ready)
    busy = []
    for bits, start, length in made:
        devices = bits & ((1 << len(where.devices)) - 1)
        timeline.occupy(devices, Instant(NOW + start), Instant(NOW + start + length))
        pairs = frozenset(allocation_of(devices, where).devices())
        busy.append(Busy(pairs, NOW + start, NOW + start + length))

    found = timeline.earliest(
        shape(request, where), where, duration_s=Seconds(duration), not_before=NOW
    )

    plain = earliest_start(request, cluster, busy, now=NOW, duration_s=duration)
    assert (None if found is None else found[0]) == plain


@given(clusters(), requests(), st.integers(0, 2**32 - 1))
def test_a_gang_fits_where_it_fits(nodes: dict[str, Any], asked: dict[str, Any], bits: int) -> None:
    cluster = a_cluster(nodes)
    where = layout(cluster)
    request = a_spec(**asked).gpus
    taken = bits & ((1 << len(where.devices)) - 1)

    plain = gang_fits(request, cluster, set(allocation_of(taken, where).devices()))

    assert fits(shape(request, where), where.ready & ~taken, where) == plain


@given(queues())
def test_every_place_is_the_earliest_under_the_higher_ranks(snapshot: Snapshot) -> None:
    planned, _ = plan(snapshot)
    busy = [
        Busy(frozenset(expected.allocation.devices()), NOW, expected.end_p50)
        for job, expected in planned.forecast.items()
        if planned.decisions[job].verb is Verb.KEEP and expected.allocation is not None
    ]
    ranked = sorted(
        (d for d in planned.decisions.values() if d.rank is not None), key=lambda d: d.rank or 0
    )

    for decision in ranked:
        spec = snapshot.desired.jobs[decision.job].spec
        assert spec is not None
        whole = remaining.total(spec, (), snapshot.policy)
        plain = earliest_start(
            spec.gpus, snapshot.cluster, busy, now=snapshot.now, duration_s=whole.p50
        )
        expected = planned.forecast.get(decision.job)
        assert (None if expected is None else expected.start_p50) == plain
        if expected is not None and expected.allocation is not None:
            pairs = frozenset(expected.allocation.devices())
            busy.append(Busy(pairs, expected.start_p50, expected.end_p50))
