"""``headway why``: why a job waits, runs or ended, who is ahead, and what a person can do.

The answer is made from the status branch and its forecast.  For a job that waits, the conditions
of a start are checked one by one by the planner's own explanation, over the snapshot at the last
commit the reconciler acted on; only then specs are read, and only where they are not cached.
"""

from collections.abc import Sequence
from typing import Any

import click

from reconciler.cli.advice import advice
from reconciler.cli.commands.describe import expected
from reconciler.cli.commands.queue import Row, rows_of
from reconciler.cli.items import forecast_item, job_item, waited_s
from reconciler.cli.options import View, complete_job, reads_history
from reconciler.cli.output import emit, output_option
from reconciler.cli.phrases import PHASE_STYLES, phrase
from reconciler.cli.places import place
from reconciler.cli.terminal import clean, wrap
from reconciler.cli.times import duration, time_of_day, zone_name
from reconciler.domain.status import JobPhase, JobStatus

AHEAD_SHOWN = 5


@click.command()
@click.argument("job", shell_complete=complete_job)
@output_option("text", "json", "yaml", default="text")
@reads_history
def why(view: View, job: str, output: str) -> None:
    """Say why JOB (TEAM/NAME) waits, runs or ended.

    For a job that waits: what it waits for, when that is expected, and who is ahead. For any
    other: how it came to where it is, and what to do about it.
    """
    status = view.status_of(job)
    ahead = _ahead(view, status) if status.phase is JobPhase.PENDING else ()
    if output != "text":
        emit(_document(view, status, ahead), output)
        return
    lines = [_headline(view, status), *_body(view, status, ahead)]
    if what_to_do := advice(status):
        lines.append(f"What to do: {what_to_do}.")
    view.say("\n".join(wrap(line, view.terminal.width, "    ") for line in lines))


def _document(view: View, status: JobStatus, ahead: Sequence[Row]) -> dict[str, Any]:
    expectation = view.branch.forecast.get(status.job)
    rests_on = expectation.rests_on if expectation else ()
    return {
        "kind": "Why",
        "state": view.state_item(),
        **job_item(status, expectation, view.now),
        "rests_on": [
            {"job": each, "forecast": forecast_item(view.branch.forecast[each])}
            for each in rests_on
            if each in view.branch.forecast
        ],
        "ahead": [row.status.job for row in ahead],
        "advice": advice(status),
    }


def _ahead(view: View, status: JobStatus) -> tuple[Row, ...]:
    """Return the pending jobs that are expected to start before this one."""
    rows = rows_of(view.branch.statuses().values(), view.branch.forecast)
    pending = [row for row in rows if row.position is not None]
    before = [row for row in pending if row.status.job == status.job]
    return tuple(pending[: pending.index(before[0])]) if before else ()


def _headline(view: View, status: JobStatus) -> str:
    phase = view.terminal.paint(status.phase, PHASE_STYLES[status.phase])
    if status.phase is JobPhase.PENDING:
        summary = status.summary
        since = summary.submitted_at if summary else status.since
        waited = waited_s(status, view.now) or 0
        when = f" since {time_of_day(since, view.zone, view.now)}" if since else ""
        return f"{status.job} is {phase}{when}, {duration(waited)} in all{_zone(view)}."
    if status.since is None:
        return f"{status.job} is {phase}."
    long = duration(view.now - status.since)
    when = time_of_day(status.since, view.zone, view.now)
    if status.phase.is_finished:
        was = "was " if status.phase is JobPhase.CANCELLED else ""
        return f"{status.job} {was}{phase} at {when}, {long} ago{_zone(view)}."
    return f"{status.job} is {phase} since {when}, {long}{_zone(view)}."


def _zone(view: View) -> str:
    return f" ({zone_name(view.zone)})"


def _body(view: View, status: JobStatus, ahead: Sequence[Row]) -> list[str]:
    said = f"{phrase(status.reason)} ({status.reason})"
    if status.message:
        said += f": {clean(status.message)}"
    if status.phase is JobPhase.PENDING:
        return [f"  x  {said}", *_next(view, status), *_start(view, status), _ahead_line(ahead)]
    lines = [f"  {said}"]
    live = status.live_attempt
    if live:
        lines.append(f"  attempt {live.number} on {place(live.allocation)}")
        if expectation := view.branch.forecast.get(status.job):
            lines.append(f"  {expected(view, status, expectation)}")
    elif status.attempts:
        last = status.attempts[-1]
        lines.append(
            f"  attempt {last.number} {last.phase} after {duration(last.running_s(view.now))}"
            + (f" at step {last.step}" if last.step is not None else "")
        )
    return lines


def _next(view: View, status: JobStatus) -> list[str]:
    """Return one line for each job whose end this one's start rests on."""
    expectation = view.branch.forecast.get(status.job)
    lines = []
    for job, held in view.branch.statuses(expectation.rests_on if expectation else ()).items():
        ends = view.branch.forecast.get(job)
        when = f", ends ~{time_of_day(ends.end_p50, view.zone, view.now)}" if ends else ""
        where = f" on {place(held.live_attempt.allocation)}" if held.live_attempt else ""
        lines.append(f"     next: {clean(job)} ({held.phase}{where}{when})")
    return lines


def _start(view: View, status: JobStatus) -> list[str]:
    expectation = view.branch.forecast.get(status.job)
    if expectation is None:
        return ["No start is forecast yet."]
    text = expected(view, status, expectation)
    return [f"It {text}."]


def _ahead_line(ahead: Sequence[Row]) -> str:
    if not ahead:
        return "Ahead of it: nothing."
    named = [
        f"{row.status.job} ({row.status.summary.priority.name if row.status.summary else '-'})"
        for row in ahead[:AHEAD_SHOWN]
    ]
    more = f" and {len(ahead) - AHEAD_SHOWN} more" if len(ahead) > AHEAD_SHOWN else ""
    return f"Ahead of it: {', '.join(named)}{more}."
