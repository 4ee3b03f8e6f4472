"""When exactly are GPUs kept?  A reservation's clock times become instants, never in silence.

A local time that the clocks show twice is refused unless an offset says which; one they skip is
refused with the next one there is.  A duration is elapsed time.  Recurrences keep local clock
time: an occurrence whose time is skipped starts at the next minute there is, one whose time comes
twice takes the first, so there is exactly one a week.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from reconciler.domain.reservation import Every, Reservation
from reconciler.domain.units import Instant, JobId, JobName, TeamName, rfc3339
from reconciler.specs.capacity import Capacity
from reconciler.specs.codes import Code
from reconciler.specs.convert import gpu_request
from reconciler.specs.durations import (
    FIRST_YEAR,
    LAST_YEAR,
    format_duration,
    parse_duration,
    parse_instant,
)
from reconciler.specs.findings import Finding, KeyPath
from reconciler.specs.names import nearest

WEEK_S = 7 * 86400
AHEAD_S = 35 * 86400
"""Recurrences are expanded this far past their start."""


class _FaultError(ValueError):
    def __init__(self, path: KeyPath, code: Code, message: str, hint: str) -> None:
        super().__init__(message)
        self.finding = Finding(path, code, message, hint)


def convert_reservation(
    job: JobId, document: Mapping[str, Any], capacity: Capacity
) -> tuple[Reservation | None, list[Finding]]:
    """Return the reservation of a document that has the right shape, and what is wrong with it.

    Of a recurrence it has the occurrences of the first weeks; :func:`expanded` gives others.
    """
    team, name = job.split("/")
    zone = document.get("timezone", "UTC")
    length = parse_duration(document["duration"])
    idle = document.get("release_if_idle")
    every = Every(document["every"]) if "every" in document else None
    try:
        _check_zone(zone)
        start = _instant(document["start"], document.get("timezone"), ("start",))
        until = None
        if "until" in document:
            until = _instant(document["until"], document.get("timezone"), ("until",))
        _check_length(start, length)
        _check_recurrence(start, every, until)
    except _FaultError as fault:
        return None, [fault.finding]
    keys = ("gpus", "gpu_type", "min_gpu_memory", "within")
    gang = {key: document[key] for key in keys if key in document}
    held = Reservation(
        team=TeamName(team),
        name=JobName(name),
        gpus=gpu_request(gang, capacity),
        occurrences=tuple((at, Instant(at + length)) for at in _starts(start, every, until, zone)),
        timezone=zone,
        every=every,
        until=until,
        for_jobs=tuple(JobId(other) for other in document.get("for", ())),
        exclusive=document.get("exclusive", True),
        release_if_idle_s=None if idle is None else parse_duration(idle),
        budget_group=document.get("budget_group"),
    )
    return held, []


def expanded(held: Reservation, now: Instant) -> Reservation:
    """Return a reservation with the occurrences from a week before ``now`` to 35 days after.

    Local clock time is kept by the tz database in use, whose version is recorded with each
    decision.  One that does not recur is returned as it is.
    """
    if held.every is None or not held.occurrences:
        return held
    start, end = held.occurrences[0]
    first = max((now - WEEK_S - end) // WEEK_S, 0)
    found = []
    for at in _starts(start, held.every, held.until, held.timezone, first_week=first):
        if at > now + AHEAD_S:
            break
        if at + (end - start) > now - WEEK_S:
            found.append((at, Instant(at + (end - start))))
    return replace(held, occurrences=tuple(found))


def _check_zone(zone: str) -> None:
    from zoneinfo import ZoneInfo, available_timezones

    known = available_timezones()
    if zone in known and ("/" in zone or zone == "UTC"):
        ZoneInfo(zone)
        return
    areas = sorted(name for name in known if "/" in name)
    city = zone.rpartition("/")[2]
    same = [name for name in areas if name.rpartition("/")[2] == city]
    close = same[0] if same else nearest(zone, areas)
    raise _FaultError(
        ("timezone",),
        Code.BAD_INSTANT,
        f"`{zone}` is not a time zone of the form Area/City",
        f"did you mean `{close}`?" if close else "write a zone such as Asia/Shanghai",
    )


def _instant(text: str, zone: str | None, path: KeyPath) -> Instant:
    """Return the instant of a time with offset, or of a local time in ``zone``."""
    try:
        return parse_instant(text)
    except ValueError:
        pass
    try:
        local = datetime.fromisoformat(text)
    except ValueError as error:
        raise _FaultError(
            path,
            Code.BAD_INSTANT,
            f"{path[0]}: `{text}` is not a time: {error}",
            "write 2026-12-02T18:00:00+08:00, or a local time with timezone",
        ) from None
    if local.tzinfo is not None or len(text) < len("2026-12-02T18:00"):
        raise _FaultError(
            path,
            Code.BAD_INSTANT,
            f"{path[0]}: `{text}` has no date and time of day to the minute",
            "write 2026-12-02T18:00:00+08:00, or a local time with timezone",
        )
    if zone is None:
        raise _FaultError(
            path,
            Code.BAD_INSTANT,
            f"{path[0]}: `{text}` has no offset, and there is no timezone",
            "add an offset such as +08:00, or `timezone: Area/City`",
        )
    if not FIRST_YEAR <= local.year <= LAST_YEAR:
        raise _FaultError(path, Code.BAD_INSTANT, f"{path[0]}: the year {local.year}?", "")
    return _local_instant(local, zone, path)


def _local_instant(local: datetime, zone: str, path: KeyPath) -> Instant:
    first, second = _readings(local, zone)
    if first == second:
        return first
    shown = local.strftime("%Y-%m-%dT%H:%M")
    if first > second:  # the clocks were put forward over this time
        nxt = _clock(_after_gap(local, zone), zone)
        raise _FaultError(
            path,
            Code.CLOCK_CHANGE,
            f"{path[0]}: {shown} never happens in {zone}: the clocks go forward over it",
            f"the next minute there is {nxt}",
        )
    raise _FaultError(
        path,
        Code.CLOCK_CHANGE,
        f"{path[0]}: {shown} happens twice in {zone}: the clocks go back over it",
        f"write {_clock(first, zone)} or {_clock(second, zone)}",
    )


def _readings(local: datetime, zone: str) -> tuple[Instant, Instant]:
    """Return the instant of a local time before and after a change of the clocks; equal where
    there is none, the first later than the second where the clocks skip the time."""
    from zoneinfo import ZoneInfo

    stamps = [
        Instant(int(local.replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp())) for fold in (0, 1)
    ]
    return stamps[0], stamps[1]


def _after_gap(local: datetime, zone: str) -> Instant:
    """Return the first instant after the gap that holds ``local``."""
    moved = local.replace(second=0, microsecond=0)
    first, second = _readings(moved, zone)
    while first > second:
        moved += timedelta(minutes=1)
        first, second = _readings(moved, zone)
    return first


def _clock(instant: Instant, zone: str) -> str:
    from zoneinfo import ZoneInfo

    return datetime.fromtimestamp(instant, ZoneInfo(zone)).isoformat(timespec="minutes")


def _check_length(start: Instant, length: int) -> None:
    if length <= WEEK_S:
        return
    parts = -(-length // WEEK_S)
    each = -(-length // parts // 3600) * 3600
    proposal = "; ".join(
        f"start {rfc3339(Instant(start + number * each))} "
        f"duration {format_duration(min(each, length - number * each))}"
        for number in range(parts)
    )
    raise _FaultError(
        ("duration",),
        Code.RESERVATION_TOO_LONG,
        f"{format_duration(length)} is longer than 7 days",
        f"split it into {parts} documents: {proposal}",
    )


def _check_recurrence(start: Instant, every: Every | None, until: Instant | None) -> None:
    if until is not None and every is None:
        raise _FaultError(
            ("until",),
            Code.TIMES_DISAGREE,
            "until ends a recurrence, and there is no `every`",
            "add `every: weekly`, or remove until",
        )
    if until is not None and until <= start:
        raise _FaultError(
            ("until",),
            Code.TIMES_DISAGREE,
            "until is not after start: there would be no occurrence",
            "until is exclusive",
        )


def _starts(
    start: Instant, every: Every | None, until: Instant | None, zone: str, *, first_week: int = 0
) -> Iterator[Instant]:
    """Yield the starts from the ``first_week``-th on, a few weeks past the 35 days."""
    if first_week == 0:
        yield start
    if every is None:
        return
    from zoneinfo import ZoneInfo

    local = datetime.fromtimestamp(start, UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    weeks = AHEAD_S // WEEK_S + (1 if first_week == 0 else 4)
    for week in range(max(first_week, 1), first_week + weeks):
        moved = local + timedelta(weeks=week)
        first, second = _readings(moved, zone)
        at = first if first <= second else _after_gap(moved, zone)
        if until is not None and at >= until:
            return
        yield at
