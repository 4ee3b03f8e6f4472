"""The planner's places against the plainest possible search, on tiny clusters."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.plan import Expectation, Verb
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import Instant, Seconds
from reconciler.planning import remaining
from reconciler.planning.books import open_books
from reconciler.planning.capacity.grid import grid_of
from reconciler.planning.occupancy import Timeline
from reconciler.planning.placement import fits
from reconciler.planning.plan import plan
from reconciler.planning.shapes import Shapes
from reconciler.planning.timetable import Timetable
from reconciler.planning.topology import allocation_of, layout, shape
from tests.property.brute import Busy, earliest_start, gang_fits
from tests.property.brute_rows import Book, earliest, rows_of
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
    shapes = Shapes(snapshot.cluster, None)
    timetable = Timetable(snapshot, shapes, open_books(snapshot, shapes, None))
    planned, _ = plan(snapshot)
    busy = [
        Busy(frozenset(expected.allocation.devices()), NOW, expected.end_p50)
        for job, expected in planned.forecast.items()
        if planned.decisions[job].verb is Verb.KEEP and expected.allocation is not None
    ]

    for job, contender in timetable.contenders.items():
        place = timetable.schedule.places.get(job)
        plain = earliest_start(
            contender.spec.gpus,
            snapshot.cluster,
            busy,
            now=snapshot.now,
            duration_s=contender.left.p50,
        )
        assert (None if place is None else place.start) == plain
        if place is not None:
            pairs = frozenset(allocation_of(place.devices, shapes.where).devices())
            busy.append(Busy(pairs, place.start, place.end))


@given(queues())
def test_every_forecast_start_is_the_earliest_under_the_higher_ranks(snapshot: Snapshot) -> None:
    planned, _ = plan(snapshot)
    grid = grid_of(layout(snapshot.cluster))
    book = Book(rows_of(snapshot.cluster))

    def take(expected: Expectation) -> None:
        assert expected.allocation is not None
        for row, count in zip(*grid.rows_of(expected.allocation), strict=True):
            book.taken.append((row, count, max(expected.start_p50, NOW), expected.end_p50))

    for job, expected in planned.forecast.items():
        if planned.decisions[job].verb in (Verb.KEEP, Verb.START):
            take(expected)
    waiting = [d for d in planned.decisions.values() if d.verb is Verb.WAIT and d.rank]
    for decision in sorted(waiting, key=lambda d: d.rank or 0):
        spec = snapshot.desired.jobs[decision.job].spec
        assert spec is not None
        whole = remaining.total(spec, (), snapshot.policy)
        plain = earliest(spec.gpus, book, whole.p50, NOW + 1, spec.team, {})
        found = planned.forecast.get(decision.job)
        assert (None if found is None else found.start_p50) == plain
        if found is not None:
            take(found)
