"""Reservations and budgets in tables, in words and as JSON: the same in every verb."""

from collections.abc import Iterable, Mapping
from datetime import tzinfo
from typing import Any

from reconciler.cli.output import allocation, instant
from reconciler.cli.phrases import RESERVATION_STYLES, phrase
from reconciler.cli.places import place
from reconciler.cli.tables import Cell, Column
from reconciler.cli.terminal import clean
from reconciler.cli.times import clock, duration, time_of_day, zone_name
from reconciler.domain.reservation import (
    FeasibleStart,
    Occurrence,
    ReservationPhase,
    ReservationStatus,
)
from reconciler.domain.units import Instant

Rows = list[list[str | Cell]]


def reservation_item(status: ReservationStatus, now: Instant) -> dict[str, Any]:
    """Return what lists show of a reservation: instants in UTC, durations in seconds."""
    team, _, name = status.reservation.partition("/")
    told = status.summary
    return {
        "reservation": status.reservation,
        "team": team,
        "name": name,
        "phase": str(status.phase),
        "reason": str(status.reason),
        "reason_text": phrase(status.reason),
        "message": status.message,
        "gpus": told.gpus if told else None,
        "gpu_types": list(told.gpu_types) if told else [],
        "for": list(told.for_jobs) if told else [],
        "exclusive": told.exclusive if told else None,
        "release_if_idle_s": told.release_if_idle_s if told else None,
        "budget_group": told.budget_group if told else None,
        "timezone": told.timezone if told else None,
        "every": str(told.every) if told and told.every else None,
        "since": instant(status.since),
        "idle_gpu_s": idle_gpu_s(status, now),
        "occurrences": [occurrence_item(each, now) for each in status.occurrences],
    }


def occurrence_item(occurrence: Occurrence, now: Instant) -> dict[str, Any]:
    """Return one occurrence."""
    return {
        "start": instant(occurrence.start),
        "end": instant(occurrence.end),
        "phase": str(occurrence.phase),
        "reason": str(occurrence.reason),
        "message": occurrence.message,
        "allocation": allocation(occurrence.devices),
        "idle_gpu_s": occurrence.idle_gpu_s_at(now),
        "windows": [
            {"first": instant(each.first), "last": instant(each.last)}
            for each in occurrence.windows
        ],
    }


def idle_gpu_s(status: ReservationStatus, now: Instant) -> int:
    """Return the GPU-seconds that were reserved and idle so far: they are the team's."""
    open_now = (o for o in status.occurrences if o.phase is ReservationPhase.ACTIVE)
    return status.past_idle_gpu_s + sum(each.idle_gpu_s_at(now) for each in open_now)


def is_ahead(occurrence: Occurrence, now: Instant) -> bool:
    """True for what is open or planned, and for a refusal whose time has not passed."""
    is_refused = occurrence.phase is ReservationPhase.REFUSED
    return occurrence.phase.is_firm or (is_refused and occurrence.end > now)


def calendar_table(
    statuses: Iterable[ReservationStatus], zone: tzinfo, now: Instant, *, shows_all: bool
) -> tuple[list[Column], Rows]:
    """Return heads and rows, one an occurrence, by start; without ``shows_all`` those ahead."""
    heads = [
        Column("RESERVATION"), Column("PHASE"), Column("GPUS", "right"),
        Column(f"FROM ({zone_name(zone)})"), Column("UNTIL"), Column("PLACE"),
        Column("IDLE GPU-H", "right"), Column("FOR"), Column("WHY"),
    ]  # fmt: skip
    listed = sorted(
        (
            (occurrence.start, status.reservation, occurrence, status)
            for status in statuses
            for occurrence in status.occurrences
            if shows_all or is_ahead(occurrence, now)
        ),
        key=lambda row: row[:2],
    )
    rows: Rows = [
        [
            clean(name),
            Cell(str(each.phase), RESERVATION_STYLES[each.phase]),
            str(status.summary.gpus) if status.summary else "",
            clock(each.start, zone, now),
            time_of_day(each.end, zone, each.start),
            place(each.devices),
            f"{each.idle_gpu_s_at(now) / 3600:.1f}",
            clean(_for(status)),
            clean(why(each, zone, now)),
        ]
        for _, name, each, status in listed
    ]
    return heads, rows


def _for(status: ReservationStatus) -> str:
    if status.summary is None or not status.summary.for_jobs:
        return "its team"
    return ", ".join(job.partition("/")[2] for job in status.summary.for_jobs)


def why(occurrence: Occurrence, zone: tzinfo, now: Instant) -> str:
    """Return the reason of an occurrence, and for a refused one when it would fit."""
    said = phrase(occurrence.reason)
    if occurrence.message:
        said += f": {occurrence.message}"
    if offered := offers(occurrence.windows, zone, now):
        said += f"; {offered}"
    return said


def offers(windows: Iterable[FeasibleStart], zone: tzinfo, now: Instant) -> str:
    """Return ``earliest in 3h (Mon 17:22), then Tue 08:00 to Tue 12:00``; empty without any."""
    parts: list[str] = []
    for each in windows:
        first = clock(each.first, zone, now)
        if not parts:
            ahead_s = each.first - now
            said = f"earliest in {duration(ahead_s)} ({first}" if ahead_s > 60 else "earliest now ("
            parts.append(said + _until(each, zone, now) + ")")
        else:
            parts.append(f"then {first}{_until(each, zone, now)}")
    return ", ".join(parts)


def _until(window: FeasibleStart, zone: tzinfo, now: Instant) -> str:
    if window.last is None:
        return " or later"
    if window.last == window.first:
        return ""
    return f" to {clock(window.last, zone, now)}"


def reservation_facts(
    status: ReservationStatus, zone: tzinfo, now: Instant
) -> list[tuple[str, str]]:
    """Return (name, value) of what ``describe`` says of a reservation."""
    told = status.summary
    since = f", since {clock(status.since, zone, now)}" if status.since else ""
    pairs = [
        ("Reservation", status.reservation),
        ("Phase", f"{status.phase}{since}"),
        ("Reason", f"{phrase(status.reason)} ({status.reason})"),
    ]
    if status.message:
        pairs[-1] = ("Reason", f"{pairs[-1][1]}: {status.message}")
    refused = [o for o in status.occurrences if o.phase is ReservationPhase.REFUSED]
    if refused and (offered := offers(refused[-1].windows, zone, now)):
        pairs.append(("Would fit", offered))
    if told:
        types = f" of {' or '.join(told.gpu_types)}" if told.gpu_types else ""
        pairs.append(("GPUs", f"{told.gpus}{types}" + ("" if told.exclusive else ", shared")))
        pairs.append(("For", ", ".join(told.for_jobs) or "every job of its team"))
        if told.every:
            pairs.append(("Comes", f"{told.every}, clock time of {told.timezone}"))
        if told.release_if_idle_s is not None:
            pairs.append(("Handed back", f"when idle for {duration(told.release_if_idle_s)}"))
        if told.budget_group:
            pairs.append(("Budget", told.budget_group))
    pairs.append(("Idle", f"{idle_gpu_s(status, now) / 3600:.1f} GPU-hours, charged to its team"))
    if status.absent_since:
        pairs.append(("File gone", f"since {clock(status.absent_since, zone, now)}"))
    return pairs


def by_name(
    statuses: Iterable[ReservationStatus], team: str | None
) -> Mapping[str, ReservationStatus]:
    """Return reservations (of one team) by name, sorted."""
    found = {
        each.reservation: each
        for each in statuses
        if not team or each.reservation.partition("/")[0] == team
    }
    return dict(sorted(found.items()))
