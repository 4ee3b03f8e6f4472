"""Clock times become instants, never in silence; what could never be held is refused by name."""

import pytest

from reconciler.domain.problem import Severity
from reconciler.domain.units import Instant, from_rfc3339, rfc3339
from reconciler.specs.reservations import expanded
from tests.unit.specs.fleet_files import codes, entry, said


def a_reservation(**fields: str) -> str:
    given = {
        "start": "2026-12-07T08:00:00+08:00",
        "duration": "72h",
        "gpus": "4",
        **fields,
    }
    lines = [f"{key}: {value}" for key, value in given.items()]
    return "\n".join(["api_version: headway/v1", "kind: Reservation", *lines, ""])


def occurrences(**fields: str) -> list[tuple[str, str]]:
    held = entry(a_reservation(**fields)).reservation
    assert held is not None
    return [(rfc3339(start), rfc3339(end)) for start, end in held.occurrences]


def test_a_sound_reservation_is_read() -> None:
    read = entry(a_reservation(gpu_type="cpu", budget_group="q4-innovation"))

    assert codes(read.problems) == []
    assert read.spec is None
    assert read.reservation is not None
    assert (read.reservation.gpus.count, read.reservation.exclusive) == (4, True)
    assert read.reservation.budget_group == "q4-innovation"


def test_a_start_with_an_offset_is_one_instant() -> None:
    assert occurrences() == [("2026-12-07T00:00:00Z", "2026-12-10T00:00:00Z")]


def test_a_duration_is_elapsed_time_over_a_change_of_the_clocks() -> None:
    found = occurrences(start="2026-10-31T20:00", timezone="America/New_York")

    # 72 elapsed hours: 19:00 local on the third day, not 20:00
    assert found == [("2026-11-01T00:00:00Z", "2026-11-04T00:00:00Z")]


def test_a_local_time_that_comes_twice_is_refused_with_both_spellings() -> None:
    refused = entry(a_reservation(start="2026-11-01T01:30", timezone="America/New_York"))

    assert codes(refused.problems) == ["HW066"]
    assert "2026-11-01T01:30-04:00 or 2026-11-01T01:30-05:00" in said(refused.problems)
    assert refused.problems[0].line == 3


def test_an_offset_says_which_of_the_two_is_meant() -> None:
    zone = "America/New_York"

    first = occurrences(start="2026-11-01T01:30-04:00", timezone=zone)
    second = occurrences(start="2026-11-01T01:30-05:00", timezone=zone)

    assert first[0][0] == "2026-11-01T05:30:00Z"
    assert second[0][0] == "2026-11-01T06:30:00Z"


def test_a_local_time_that_never_comes_is_refused_with_the_next_one() -> None:
    refused = entry(a_reservation(start="2026-03-08T02:30", timezone="America/New_York"))

    assert codes(refused.problems) == ["HW066"]
    assert "2026-03-08T03:00-04:00" in said(refused.problems)


def test_a_weekly_recurrence_keeps_local_clock_time_and_comes_once_a_week() -> None:
    found = occurrences(
        start="2026-10-25T09:00", timezone="America/New_York", duration="2h", every="weekly"
    )

    assert [start for start, _ in found] == [
        "2026-10-25T13:00:00Z",
        "2026-11-01T14:00:00Z",
        "2026-11-08T14:00:00Z",
        "2026-11-15T14:00:00Z",
        "2026-11-22T14:00:00Z",
        "2026-11-29T14:00:00Z",
    ]


def test_a_recurrence_over_a_skipped_or_doubled_hour_still_comes_exactly_once() -> None:
    zone = "America/New_York"
    skipped = occurrences(start="2026-03-01T02:30", timezone=zone, duration="1h", every="weekly")
    doubled = occurrences(start="2026-10-25T01:30", timezone=zone, duration="1h", every="weekly")

    assert [start for start, _ in skipped][:3] == [
        "2026-03-01T07:30:00Z",
        "2026-03-08T07:00:00Z",
        "2026-03-15T06:30:00Z",
    ]
    assert [start for start, _ in doubled][:2] == ["2026-10-25T05:30:00Z", "2026-11-01T05:30:00Z"]


def test_until_is_exclusive() -> None:
    found = occurrences(every="weekly", until="2026-12-21T08:00:00+08:00", duration="1h")

    assert [start for start, _ in found] == ["2026-12-07T00:00:00Z", "2026-12-14T00:00:00Z"]


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"start": "2026-12-07T08:00"}, "HW046", "no offset, and there is no timezone"),
        ({"timezone": "Asia/Beijing"}, "HW046", "is not a time zone"),
        ({"timezone": "EST"}, "HW046", "Area/City"),
        ({"timezone": "Europe/Shanghai"}, "HW046", "did you mean `Asia/Shanghai`?"),
        ({"start": "10:00"}, "HW015", "base 60"),
        ({"start": "09:00"}, "HW015", "base 60"),
        ({"start": "'10:00'"}, "HW046", "is not a time"),
        ({"start": "2026-12-07"}, "HW046", "no date and time of day"),
        ({"duration": "8d"}, "HW065", "split it into 2 documents"),
        ({"duration": "72:00:00"}, "HW015", "72h"),
        ({"until": "2026-12-21T08:00:00+08:00"}, "HW067", "there is no `every`"),
        ({"every": "weekly", "until": "2026-12-01T08:00:00Z"}, "HW067", "not after start"),
        ({"every": "daily"}, "HW042", "weekly"),
        ({"gpus": '"*"'}, "HW069", "whole number"),
        ({"gpus": "-1"}, "HW069", "got -1"),
        ({"gpu_count": "4"}, "HW040", "did you mean `gpus`?"),
        ({"for": "support/x"}, "HW042", "must be a list"),
        ({"train": "{}"}, "HW040", "unknown key `train`"),
    ],
)
def test_what_is_wrong_with_a_reservation_is_said(
    fields: dict[str, str], code: str, words: str
) -> None:
    refused = entry(a_reservation(**fields))

    assert code in codes(refused.problems), said(refused.problems)
    assert words in said(refused.problems)
    assert refused.reservation is None


def test_the_proposed_split_covers_the_time_asked_for() -> None:
    hint = entry(a_reservation(duration="10d")).problems[0].hint

    assert "start 2026-12-07T00:00:00Z duration 5d" in hint
    assert "start 2026-12-12T00:00:00Z duration 5d" in hint


def test_a_reservation_survives_the_cache() -> None:
    text = a_reservation(every="weekly", **{"for": "[support/x]", "release_if_idle": "30m"})

    first, second = entry(text), entry(text)

    assert first == second
    assert second.reservation is not None
    assert second.reservation.for_jobs == ("support/x",)
    assert second.reservation.release_if_idle_s == 1800
    assert second.reservation.occurrences[0][0] == Instant(1_796_601_600)


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"gpus": "9"}, "HW057", "never fit"),
        ({"gpus": "20000"}, "HW069", "absurd"),
        ({"budget_group": "q5"}, "HW062", "there is no budget `q5`"),
        ({"budget_group": "q4-innovation", "duration": "150h"}, "HW062", "600 GPU-hours are more"),
        ({"for": "[search/t2-intents]"}, "HW068", "is not of team support"),
    ],
)
def test_what_could_never_be_held_is_refused(fields: dict[str, str], code: str, words: str) -> None:
    refused = entry(a_reservation(**fields))

    assert code in codes(refused.problems), said(refused.problems)
    assert words in said(refused.problems)


def test_a_reservation_for_a_job_that_does_not_exist_is_a_warning() -> None:
    read = entry(a_reservation(**{"for": "[support/nobody]"}))

    assert codes(read.problems) == ["HW068"]
    assert "there is no job support/nobody yet" in said(read.problems)
    assert read.problems[0].severity is Severity.WARNING
    assert read.reservation is not None


def test_a_recurrence_is_expanded_around_now_and_no_further() -> None:
    held = entry(
        a_reservation(start="2026-03-02T09:00", timezone="America/New_York", duration="2h",
                      every="weekly")
    ).reservation  # fmt: skip
    assert held is not None

    found = expanded(held, from_rfc3339("2026-10-29T00:00:00Z"))

    assert [rfc3339(start) for start, _ in found.occurrences] == [
        "2026-10-26T13:00:00Z",  # a week back: an open one is known by it
        "2026-11-02T14:00:00Z",  # after the clocks went back
        "2026-11-09T14:00:00Z",
        "2026-11-16T14:00:00Z",
        "2026-11-23T14:00:00Z",
        "2026-11-30T14:00:00Z",
    ]


def test_a_recurrence_ends_at_until_whenever_it_is_looked_at() -> None:
    held = entry(
        a_reservation(every="weekly", until="2026-12-21T08:00:00+08:00", duration="1h")
    ).reservation
    assert held is not None

    late = expanded(held, from_rfc3339("2026-12-15T00:00:00Z"))

    assert [rfc3339(start) for start, _ in late.occurrences] == ["2026-12-14T00:00:00Z"]


def test_what_does_not_recur_is_not_expanded() -> None:
    held = entry(a_reservation()).reservation
    assert held is not None

    assert expanded(held, Instant(0)) is held
