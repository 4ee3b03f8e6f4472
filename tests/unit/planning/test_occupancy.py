from reconciler.domain.units import Instant, Seconds
from reconciler.planning.occupancy import Timeline
from reconciler.planning.topology import layout, shape
from tests.values import a_cluster, a_spec

T = Instant(1000)
WHERE = layout(a_cluster({"n1": 4}))
ALL = 0b1111


def at(offset: int) -> Instant:
    return Instant(T + offset)


def a_timeline(*busy: tuple[int, int, int]) -> Timeline:
    """Return a timeline with (devices, from, until) busy, offsets from T."""
    timeline = Timeline(T, ALL)
    for devices, start, end in busy:
        timeline.occupy(devices, at(start), at(end))
    return timeline


def earliest(timeline: Timeline, gpus: int, duration: int, not_before: int = 0) -> object:
    found = timeline.earliest(
        shape(a_spec(gpus=gpus).gpus, WHERE),
        WHERE,
        duration_s=Seconds(duration),
        not_before=at(not_before),
    )
    return None if found is None else (found[0] - T, found[1])


def test_everything_is_free_at_first() -> None:
    assert a_timeline().free_at(T) == ALL
    assert earliest(a_timeline(), 4, 10) == (0, ALL)


def test_busy_devices_are_free_again_at_their_end() -> None:
    timeline = a_timeline((0b0011, 0, 10))

    assert timeline.free_at(at(9)) == 0b1100
    assert timeline.free_at(at(10)) == ALL
    assert timeline.free_between(at(5), at(15)) == 0b1100


def test_what_ended_before_now_is_not_there() -> None:
    timeline = a_timeline((ALL, -10, 0), (0b1, -10, 5))

    assert timeline.free_at(T) == 0b1110


def test_a_gang_waits_until_all_of_it_is_free() -> None:
    timeline = a_timeline((0b0001, 0, 10), (0b0010, 0, 20))

    assert earliest(timeline, 3, 100) == (10, 0b1101)
    assert earliest(timeline, 4, 100) == (20, ALL)


def test_a_gap_too_short_is_passed_over() -> None:
    timeline = a_timeline((0b0111, 10, 20))

    assert earliest(timeline, 4, 10) == (0, ALL)
    assert earliest(timeline, 4, 11) == (20, ALL)
    assert earliest(timeline, 1, 99) == (0, 0b1000)


def test_not_before_is_kept_even_between_changes() -> None:
    assert earliest(a_timeline((ALL, 0, 10)), 1, 5, not_before=17) == (17, 0b0001)
    assert earliest(a_timeline((ALL, 0, 10)), 1, 5, not_before=4) == (10, 0b0001)


def test_what_never_fits_has_no_start() -> None:
    assert earliest(a_timeline(), 5, 1) is None


def test_devices_not_usable_are_never_given() -> None:
    timeline = Timeline(T, 0b0011)

    assert earliest(timeline, 3, 1) is None
    assert earliest(timeline, 2, 1) == (0, 0b0011)


def test_a_quota_moves_the_start() -> None:
    def allowed(start: Instant, end: Instant) -> int:
        return ALL if start >= at(10) else 0

    timeline = a_timeline((0b0001, 0, 10), (0b0010, 0, 30))
    found = timeline.earliest(
        shape(a_spec(gpus=1).gpus, WHERE),
        WHERE,
        duration_s=Seconds(5),
        not_before=T,
        allowed=allowed,
    )

    assert found is not None
    assert found[0] == at(10)
