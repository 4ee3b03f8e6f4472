"""``headway queue``: who runs, who waits, in which order, and when each job starts.

Running jobs come first, then the pending ones in the order they are expected to start, then
those that wait for a person.  Finished jobs are shown with ``--all``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

import click

from reconciler.cli.items import job_item, waited_s
from reconciler.cli.options import View, reads_fleet, team_option
from reconciler.cli.output import list_text, output_option
from reconciler.cli.phrases import PHASE_STYLES, phrase, why_in_short
from reconciler.cli.places import place
from reconciler.cli.reserved import by_name, calendar_table, reservation_item
from reconciler.cli.tables import Cell, Column, render
from reconciler.cli.terminal import clean
from reconciler.cli.times import clock, duration, time_of_day, zone_name
from reconciler.cli.watching import watch
from reconciler.domain.plan import Expectation
from reconciler.domain.reason import Reason
from reconciler.domain.status import JobPhase, JobStatus
from reconciler.domain.units import Instant, JobId

_ORDER = {
    JobPhase.RUNNING: 0,
    JobPhase.STOPPING: 0,
    JobPhase.PENDING: 1,
    JobPhase.HELD: 2,
    JobPhase.SUSPENDED: 3,
    JobPhase.INVALID: 4,
}
_FINISHED = 5
_FAR = 1 << 62
_NOTHING_TO_SAY = frozenset((Reason.GPUS_FREE, Reason.GPUS_FREED_BY_VICTIM, Reason.RUNS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One job's line; ``position`` counts the pending jobs from 1 and is None for the rest."""

    position: int | None
    status: JobStatus
    expectation: Expectation | None


@click.command()
@team_option
@click.option("-a", "--all", "shows_all", is_flag=True, help="Show finished jobs too.")
@click.option("-w", "--watch", "watches", is_flag=True, help="Show it again when it changes.")
@click.option("--no-headers", is_flag=True, help="Leave out the line of heads.")
@output_option("table", "wide", "json", "yaml", "name")
@reads_fleet
def queue(
    view: View, team: str | None, shows_all: bool, watches: bool, no_headers: bool, output: str
) -> None:
    """Show who runs, who waits, and when each job is expected to start.

    START is when a running job started, or when a pending one is expected to (~), with the
    time it is nine times out of ten not later than (p90). WAIT is all the time since the job
    was submitted in which it did not run. Reservations that are open, booked or refused come
    below. With -w and -o json, each look is one line.
    """

    def show(view: View) -> str:
        every = view.branch.statuses()
        rows = rows_of(every.values(), view.branch.forecast, shows_all=shows_all, team=team)
        if output == "name":
            return "\n".join(f"job/{row.status.job}" for row in rows)
        kept = by_name(view.branch.reservations().values(), team)
        if output in ("json", "yaml"):
            form = "json line" if watches and output == "json" else output
            held = [reservation_item(each, view.now) for each in kept.values()]
            facts = {"state": view.state_item(), "reservations": held}
            return list_text("JobList", _items(rows, view), form, **facts)
        heads, lines = table(rows, view.zone, view.now, is_wide=output == "wide")
        shown = render(heads, lines, view.terminal, heads=not no_headers) if lines else ""
        hidden = 0 if shows_all else _finished(every, team)
        heads, lines = calendar_table(kept.values(), view.zone, view.now, shows_all=shows_all)
        if lines:
            calendar = render(heads, lines, view.terminal, heads=not no_headers)
            shown = f"{shown}\n\n{calendar}" if shown else calendar
        parts = (shown, view.footer(len(rows), every.values(), hidden=hidden))
        return "\n".join(part for part in parts if part)

    if watches:
        watch(view, show, is_screen=output in ("table", "wide"))
    elif text := show(view):
        view.say(text)


def _items(rows: Iterable[Row], view: View) -> list[dict[str, Any]]:
    return [
        {"position": row.position, **job_item(row.status, row.expectation, view.now)}
        for row in rows
    ]


def rows_of(
    statuses: Iterable[JobStatus],
    forecast: Mapping[JobId, Expectation],
    *,
    shows_all: bool = False,
    team: str | None = None,
) -> tuple[Row, ...]:
    """Return the rows in the order they are shown."""
    shown = [
        status
        for status in statuses
        if (shows_all or not status.phase.is_finished) and (not team or _team(status.job) == team)
    ]
    shown.sort(key=lambda status: _sort_key(status, forecast.get(status.job)))
    rows, position = [], 0
    for status in shown:
        is_pending = status.phase is JobPhase.PENDING
        position += is_pending
        rows.append(
            Row(
                position=position if is_pending else None,
                status=status,
                expectation=forecast.get(status.job),
            )
        )
    return tuple(rows)


def _sort_key(status: JobStatus, expectation: Expectation | None) -> tuple[int, int, int, int, str]:
    place_in = _ORDER.get(status.phase, _FINISHED)
    summary = status.summary
    urgency = int(summary.priority) if summary else _FAR
    submitted = summary.submitted_at if summary else Instant(_FAR)
    if place_in == 0:
        return place_in, _started(status) or Instant(0), urgency, submitted, status.job
    if place_in == _FINISHED:
        return place_in, -(status.since or 0), urgency, submitted, status.job
    expected = expectation.start_p50 if expectation else Instant(_FAR)
    return place_in, expected, urgency, submitted, status.job


def _started(status: JobStatus) -> Instant | None:
    if not status.attempts:
        return None
    return status.attempts[-1].started_at or status.attempts[-1].decided_at


def _team(job: JobId) -> str:
    return job.partition("/")[0]


def _finished(statuses: Mapping[JobId, JobStatus], team: str | None) -> int:
    return sum(
        status.phase.is_finished and (not team or _team(job) == team)
        for job, status in statuses.items()
    )


def table(
    rows: Sequence[Row], zone: tzinfo, now: Instant, *, is_wide: bool = False
) -> tuple[list[Column], list[list[str | Cell]]]:
    """Return the heads and the cells; the reason is last, because it may be cut."""
    heads = [
        Column("POS", "right"),
        Column("JOB"),
        Column("TEAM", is_repeated=True),
        Column("PRIO"),
        Column("GPUS", "right"),
        Column("STATE"),
        Column(f"START ({zone_name(zone)})"),
        Column("WAIT", "right"),
    ]
    if is_wide:
        heads += [
            Column("ATTEMPT"), Column("DEVICES"), Column("MODEL"), Column("SUBMITTED"),
        ]  # fmt: skip
    heads.append(Column("REASON"))
    return heads, [_cells(row, zone, now, is_wide) for row in rows]


def _cells(row: Row, zone: tzinfo, now: Instant, is_wide: bool) -> list[str | Cell]:
    status, summary = row.status, row.status.summary
    waited = None if status.live_attempt else waited_s(status, now)
    cells: list[str | Cell] = [
        "" if row.position is None else str(row.position),
        status.job,
        _team(status.job),
        summary.priority.name if summary else "",
        str(summary.gpus) if summary else "",
        Cell(str(status.phase), PHASE_STYLES[status.phase]),
        start(row, zone, now),
        "" if waited is None else duration(waited),
    ]
    if is_wide:
        live = status.live_attempt
        cells += [
            live.id if live else "",
            place(live.allocation) if live else "",
            clean(summary.model) if summary else "",
            clock(summary.submitted_at, zone, now) if summary else "",
        ]
    return [*cells, clean(reason(row, zone, now))]


def start(row: Row, zone: tzinfo, now: Instant) -> str:
    """Return when the job started, or ``~Mon 21:40 (p90 23:05)`` when it is expected to."""
    status, expected = row.status, row.expectation
    if status.phase is not JobPhase.PENDING or status.live_attempt:
        started = _started(status)
        return clock(started, zone, now) if started else ""
    if expected is None:
        return ""
    if expected.start_p90 <= now:
        return "~now"
    soon = "~now" if expected.start_p50 <= now else f"~{clock(expected.start_p50, zone, now)}"
    if expected.start_p90 == expected.start_p50:
        return soon
    return f"{soon} (p90 {time_of_day(expected.start_p90, zone, expected.start_p50)})"


def reason(row: Row, zone: tzinfo, now: Instant) -> str:
    """Return where a job runs and until when, or why it does not, in plain words."""
    status, live = row.status, row.status.live_attempt
    if live is None:
        return why_in_short(status)
    parts = [place(live.allocation)]
    if row.expectation:
        parts.append(f"ends ~{time_of_day(row.expectation.end_p50, zone, now)}")
    if status.reason not in _NOTHING_TO_SAY:
        parts.append(phrase(status.reason))
    return ", ".join(parts)
