"""The forecast keeps off what is reserved, and lets in whom a reservation names."""

import pytest

from reconciler.domain.plan import Expectation
from reconciler.domain.units import JobId
from reconciler.planning.plan import plan
from tests.builders import a_snapshot
from tests.values import NOW

HOUR = 3600


def expected(order: str) -> dict[JobId, Expectation]:
    snapshot = a_snapshot(
        nodes={"n1": 4},
        policy={"order": order},
        pending={
            "named": {"gpus": 4, "estimate": "1h"},
            "vision/long": {"gpus": 4, "preemptible": False, "limit": "6h", "estimate": "6h"},
        },
        reservations={
            "demo": {
                "gpus": 4,
                "start_in": "2h",
                "duration": "3h",
                "for": ["named"],
                "booked": {"n1": [0, 1, 2, 3]},
            }
        },
    )
    return dict(plan(snapshot)[0].forecast)


@pytest.mark.parametrize("order", ["score", "value"])
def test_a_named_job_is_expected_at_the_start_of_its_reservation(order: str) -> None:
    assert expected(order)[JobId("research/named")].start_p50 == NOW + 2 * HOUR


@pytest.mark.parametrize("order", ["score", "value"])
def test_long_work_of_others_is_expected_after_the_window(order: str) -> None:
    assert expected(order)[JobId("vision/long")].start_p50 == NOW + 5 * HOUR
