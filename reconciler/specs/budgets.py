"""Which calendar periods does a budget have around an instant?

Months, quarters and years begin at midnight of their first day in the budget's time zone; where
the clocks skip that midnight, at the first instant there is.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from reconciler.domain.budget import Budget, Period
from reconciler.domain.units import Instant
from reconciler.specs import platform

MONTHS = {"month": 1, "quarter": 3, "year": 12}
AHEAD_S = 35 * 86400
"""Reservations are booked this far ahead, and must find the period that pays for them."""


def budgets_at(declared: Mapping[str, platform.Budget], now: Instant) -> dict[str, Budget]:
    """Return the budgets of conf with their periods at ``now``, sorted by name.

    The present period is the first; those after it reach over the 35 days of the calendar.
    """
    return {name: _budget(declared[name], now) for name in sorted(declared)}


def _budget(declared: platform.Budget, now: Instant) -> Budget:
    zone, months = ZoneInfo(declared.timezone), MONTHS[declared.period]
    today = datetime.fromtimestamp(now, zone)
    first = (today.year * 12 + today.month - 1) // months * months
    starts = [_start(first, zone)]
    while starts[-1] <= now + AHEAD_S:
        first += months
        starts.append(_start(first, zone))
    if len(starts) == 2:
        starts.append(_start(first + months, zone))
    return Budget(
        name=declared.name,
        limit_gpu_s=round(declared.limit_gpu_hours * 3600),
        periods=tuple(Period(start=start, end=end) for start, end in pairwise(starts)),
        teams=declared.teams,
        words=declared.period,
    )


def _start(month: int, zone: ZoneInfo) -> Instant:
    """Return when a month begins; months count from the year 0."""
    midnight = datetime(month // 12, month % 12 + 1, 1, tzinfo=zone)
    moved = datetime.fromtimestamp(midnight.timestamp(), zone)
    if moved.day != 1:  # the clocks go forward over midnight, and the earlier reading was taken
        moved += timedelta(hours=1)
    return Instant(int(moved.timestamp()))
