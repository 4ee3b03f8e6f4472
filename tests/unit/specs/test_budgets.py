"""A budget's periods are calendar periods of its own time zone."""

import pytest

from reconciler.domain.units import TeamName, from_rfc3339, rfc3339
from reconciler.specs.budgets import budgets_at
from reconciler.specs.platform import Budget


def periods(period: str, zone: str, now: str) -> list[str]:
    declared = Budget(
        name="q4",
        limit_gpu_hours=200.0,
        period=period,
        timezone=zone,
        teams=(TeamName("support"),),
    )
    found = budgets_at({"q4": declared}, from_rfc3339(now))["q4"]
    assert all(a.end == b.start for a, b in zip(found.periods, found.periods[1:], strict=False))
    return [rfc3339(each.start) for each in found.periods]


@pytest.mark.parametrize(
    ("period", "now", "first"),
    [
        ("month", "2026-11-30T15:59:59Z", "2026-10-31T16:00:00Z"),
        ("month", "2026-11-30T16:00:00Z", "2026-11-30T16:00:00Z"),
        ("quarter", "2026-11-30T09:00:00Z", "2026-09-30T16:00:00Z"),
        ("year", "2026-11-30T09:00:00Z", "2025-12-31T16:00:00Z"),
    ],
)
def test_the_present_period_is_first_and_begins_at_local_midnight(
    period: str, now: str, first: str
) -> None:
    assert periods(period, "Asia/Shanghai", now)[0] == first


def test_the_periods_reach_over_the_days_that_are_booked_ahead() -> None:
    assert periods("month", "UTC", "2026-11-30T09:00:00Z") == [
        "2026-11-01T00:00:00Z",
        "2026-12-01T00:00:00Z",
        "2027-01-01T00:00:00Z",
    ]


def test_a_period_keeps_local_midnight_over_a_change_of_the_clocks() -> None:
    assert periods("month", "America/New_York", "2026-10-30T00:00:00Z") == [
        "2026-10-01T04:00:00Z",
        "2026-11-01T04:00:00Z",
        "2026-12-01T05:00:00Z",
    ]


def test_a_midnight_that_the_clocks_skip_is_the_first_instant_there_is() -> None:
    # Asuncion put its clocks forward at midnight of 2023-10-01
    assert periods("month", "America/Asuncion", "2023-10-15T00:00:00Z")[0] == "2023-10-01T04:00:00Z"


def test_a_limit_is_in_gpu_seconds_from_here_on() -> None:
    declared = Budget(name="q4", limit_gpu_hours=0.5, period="month", timezone="UTC")

    assert budgets_at({"q4": declared}, from_rfc3339("2026-11-30T09:00:00Z"))["q4"].limit_gpu_s == (
        1800
    )
