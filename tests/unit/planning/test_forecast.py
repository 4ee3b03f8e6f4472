from dataclasses import replace

import pytest

from reconciler.domain.plan import Expectation
from reconciler.domain.units import Instant, JobId
from reconciler.planning.forecast import forecast_moved
from tests.values import NOW, a_cluster, devices_of

HOUR = 3600
JOB = JobId("research/job")
ON = devices_of(a_cluster(), {"n1": [0, 1]})
OLD = Expectation(
    job=JOB,
    start_p50=Instant(NOW + 10 * HOUR),
    start_p90=Instant(NOW + 12 * HOUR),
    end_p50=Instant(NOW + 20 * HOUR),
    end_p90=Instant(NOW + 24 * HOUR),
    allocation=ON,
)


def moved(**changed: object) -> bool:
    new = replace(OLD, **changed)  # type: ignore[arg-type]
    return forecast_moved({JOB: OLD}, {JOB: new}, NOW)


def test_the_same_forecast_has_not_moved() -> None:
    assert not moved()


@pytest.mark.parametrize(("by_s", "told"), [(HOUR, False), (HOUR + 1, True), (-HOUR - 1, True)])
def test_a_far_start_moves_by_a_tenth_of_the_wait(by_s: int, told: bool) -> None:
    assert moved(start_p50=Instant(OLD.start_p50 + by_s)) is told


@pytest.mark.parametrize(("by_s", "told"), [(600, False), (601, True)])
def test_a_near_start_moves_by_ten_minutes(by_s: int, told: bool) -> None:
    near = replace(OLD, start_p50=Instant(NOW + 60), start_p90=Instant(NOW + 60))
    new = replace(near, start_p50=Instant(NOW + 60 + by_s), start_p90=Instant(NOW + 60 + by_s))

    assert forecast_moved({JOB: near}, {JOB: new}, NOW) is told


def test_an_end_alone_is_no_move() -> None:
    assert not moved(end_p50=Instant(OLD.end_p50 + 5 * HOUR))


def test_another_node_is_a_move_and_another_device_of_it_is_none() -> None:
    two = a_cluster({"n1": 8, "n2": 8})

    assert moved(allocation=devices_of(two, {"n2": [0, 1]}))
    assert moved(allocation=devices_of(two, {"n1": [0], "n2": [1]}))
    assert not moved(allocation=devices_of(two, {"n1": [0, 2]}))


def test_a_job_that_came_or_went_is_a_move() -> None:
    assert forecast_moved({}, {JOB: OLD}, NOW)
    assert forecast_moved({JOB: OLD}, {}, NOW)
