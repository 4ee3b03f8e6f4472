"""Clock times and durations in words."""

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from reconciler.cli import times
from reconciler.domain.units import Instant, from_rfc3339
from reconciler.errors import UsageError

SHANGHAI = ZoneInfo("Asia/Shanghai")
NOW = from_rfc3339("2026-11-30T06:22:45Z")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0s"), (0, "0s"), (38, "38s"), (60, "1m"), (3599, "59m"), (3600, "1h"),
        (5 * 3600 + 12 * 60, "5h12m"), (5 * 3600 + 2 * 60, "5h02m"), (47 * 3600, "47h"),
        (48 * 3600, "2d"), (76 * 3600, "3d4h"),
    ],
)  # fmt: skip
def test_a_duration_has_at_most_two_units(seconds: int, words: str) -> None:
    assert times.duration(seconds) == words


@pytest.mark.parametrize(
    ("instant", "words"),
    [
        ("2026-11-30T13:40:00Z", "Mon 21:40"),
        ("2026-12-03T00:00:00Z", "Thu 08:00"),
        ("2026-11-27T00:00:00Z", "Fri 08:00"),
        ("2026-12-04T00:00:00Z", "2026-12-04 08:00"),
        ("2025-11-30T00:00:00Z", "2025-11-30 08:00"),
    ],
)
def test_a_weekday_is_used_only_where_it_can_be_meant_once(instant: str, words: str) -> None:
    assert times.clock(from_rfc3339(instant), SHANGHAI, NOW) == words


def test_today_needs_no_day() -> None:
    assert times.time_of_day(from_rfc3339("2026-11-30T13:40:00Z"), SHANGHAI, NOW) == "21:40"
    assert times.time_of_day(from_rfc3339("2026-11-30T16:01:00Z"), SHANGHAI, NOW) == "Tue 00:01"


def test_the_zone_asked_for_wins_over_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    assert times.zone_name(times.find_zone("Asia/Shanghai")) == "Asia/Shanghai"
    assert times.zone_name(times.find_zone()) == "America/New_York"
    monkeypatch.setenv("TZ", ":Europe/Paris")
    assert times.zone_name(times.find_zone()) == "Europe/Paris"


def test_a_machine_that_names_no_zone_counts_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "nonsense/nowhere")
    monkeypatch.setattr(times, "_linked_zone", lambda: "")
    assert times.find_zone() is UTC


def test_a_zone_that_does_not_exist_is_refused() -> None:
    for name in ("Mars/Base", "../etc/passwd", "/etc/localtime"):
        with pytest.raises(UsageError, match="Area/City"):
            times.find_zone(name)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2h", NOW - 7200),
        ("1d12h", NOW - 36 * 3600),
        ("2026-11-30", from_rfc3339("2026-11-29T16:00:00Z")),
        ("2026-11-30T09:00", from_rfc3339("2026-11-30T01:00:00Z")),
        ("2026-11-30T09:00:00+01:00", from_rfc3339("2026-11-30T08:00:00Z")),
        ("2026-11-30T09:00:00Z", from_rfc3339("2026-11-30T09:00:00Z")),
    ],
)
def test_since_takes_how_long_ago_a_date_or_an_instant(text: str, instant: int) -> None:
    assert times.parse_since(text, SHANGHAI, NOW) == Instant(instant)


def test_since_refuses_other_text_with_examples() -> None:
    with pytest.raises(UsageError, match="90m"):
        times.parse_since("yesterday", SHANGHAI, NOW)
