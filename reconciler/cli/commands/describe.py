"""``headway describe``: everything known about one job, in the order people ask for it."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from reconciler.cli.commands.audit import asked_by, item, wish_item
from reconciler.cli.history import JobChange, Wish, Wishes, change_words, job_changes, wishes_of
from reconciler.cli.items import gpu_seconds, job_detail, waited_s
from reconciler.cli.options import View, complete_job, job_of, reads_history
from reconciler.cli.output import emit, output_option
from reconciler.cli.phrases import PHASE_STYLES, count, phrase, phrase_and_code, why_in_short
from reconciler.cli.places import place
from reconciler.cli.reserved import calendar_table, reservation_facts, reservation_item
from reconciler.cli.runs import heartbeat, local_folder
from reconciler.cli.tables import Cell, Column, fields, render
from reconciler.cli.terminal import clean, wrap
from reconciler.cli.times import clock, clock_s, duration, time_of_day, zone_name
from reconciler.domain.attempt import Attempt, AttemptPhase
from reconciler.domain.plan import Expectation
from reconciler.domain.reservation import ReservationStatus
from reconciler.domain.status import JobStatus
from reconciler.domain.units import JobId
from reconciler.errors import GitError

NEWEST_CHANGES = 5
_COMMITS_LOOKED_AT = 40
"""Bookkeeping commits lie between the changes that are shown."""


@click.command()
@click.argument("job", shell_complete=complete_job)
@output_option("text", "json", "yaml", default="text")
@reads_history
def describe(view: View, job: str, output: str) -> None:
    """Show everything known about JOB (TEAM/NAME or job/TEAM/NAME).

    Its phase and why, the forecast, its attempts, what is kept free for it, and the newest
    changes with the commits that recorded them. A reservation is shown with its occurrences.
    """
    kept = view.branch.reservations((job_of(job),))
    if kept:
        _describe_reservation(view, next(iter(kept.values())), output)
        return
    status = view.status_of(job)
    expectation = view.branch.forecast.get(status.job)
    changes, wishes, wish = _newest(view, status.job)
    if output != "text":
        emit(_document(view, status, expectation, changes, wishes, wish), output)
        return
    parts = [
        _facts(view, status, expectation, wish),
        _attempts(view, status),
        _holds(status),
        _changes(view, changes),
    ]
    view.say("\n\n".join(part for part in parts if part))


def _newest(view: View, name: JobId) -> tuple[list[JobChange], Wishes, Wish | None]:
    """Return the newest changes of a job or reservation, and who wished them."""
    git_dir, tip = view.repository.git_dir, view.branch.ref.commit
    try:
        looked_at = job_changes(git_dir, tip, job=name, limit=_COMMITS_LOOKED_AT)
    except GitError as error:
        view.note(f"warning: its newest changes cannot be told: {error}")
        looked_at = ()
    changes = [change for change in looked_at if change.is_transition][:NEWEST_CHANGES]
    wishes = wishes_of(git_dir, changes)
    return changes, wishes, wishes.behind(changes[0].recorded.desired, name) if changes else None


def _describe_reservation(view: View, status: ReservationStatus, output: str) -> None:
    changes, wishes, wish = _newest(view, status.reservation)
    if output != "text":
        document = {
            "kind": "Reservation",
            "state": view.state_item(),
            **reservation_item(status, view.now),
            "asked_by": wish_item(wish) if wish else None,
            "changes": [item(change, wishes) for change in changes],
        }
        emit(document, output)
        return
    pairs = reservation_facts(status, view.zone, view.now)
    if wish:
        pairs.append(("Asked by", asked_by(wish)))
    heads, rows = calendar_table((status,), view.zone, view.now, shows_all=True)
    parts = [
        fields([(name, clean(value)) for name, value in pairs]),
        render(heads, rows, view.terminal),
        _changes(view, changes),
    ]
    view.say("\n\n".join(part for part in parts if part))


def _document(
    view: View,
    status: JobStatus,
    expectation: Expectation | None,
    changes: Sequence[JobChange],
    wishes: Wishes,
    wish: Wish | None,
) -> dict[str, Any]:
    return {
        "kind": "Job",
        "state": view.state_item(),
        **job_detail(status, expectation, view.now),
        "asked_by": wish_item(wish) if wish else None,
        "changes": [item(change, wishes) for change in changes],
    }


def _facts(
    view: View, status: JobStatus, expectation: Expectation | None, wish: Wish | None
) -> str:
    zone, now, summary = view.zone, view.now, status.summary
    said = phrase_and_code(status.reason)
    since = (
        f", since {clock(status.since, zone, now)} ({duration(now - status.since)})"
        if status.since
        else ""
    )
    pairs = [
        ("Job", status.job),
        ("Phase", view.terminal.paint(status.phase, PHASE_STYLES[status.phase]) + since),
        ("Reason", f"{said}: {status.message}" if status.message else said),
    ]
    if expectation and not status.phase.is_finished:
        pairs.append(("Expected", expected(view, status, expectation)))
    if progress := _progress(view, status):
        pairs.append(("Progress", progress))
    if summary:
        types = f" of {' or '.join(summary.gpu_types)}" if summary.gpu_types else ""
        pairs += [
            ("Priority", summary.priority.name),
            ("GPUs", f"{summary.gpus}{types}"),
            ("Model", summary.model),
            (
                "Submitted",
                f"{clock(summary.submitted_at, zone, now)} ({zone_name(zone)}), "
                f"commit {status.submission[:7]}",
            ),
        ]
    if wish:
        pairs.append(("Asked by", asked_by(wish)))
    waited = waited_s(status, now)
    if waited is not None:
        pairs.append(("Waited", duration(waited)))
    pairs.append(("Used", _used(view, status)))
    pairs.append(("Generation", str(status.generation)))
    if status.retry_at and status.retry_at > now:
        pairs.append(("Next try", clock(status.retry_at, zone, now)))
    if status.absent_since:
        pairs.append(("File gone", f"since {clock(status.absent_since, zone, now)}"))
    room = max(len(name) for name, _ in pairs) + 2
    shown = [
        (name, wrap(_shown(name, value), view.terminal.width, " " * room, first=room))
        for name, value in pairs
    ]
    return fields(shown)


def _shown(name: str, value: str) -> str:
    return value if name == "Phase" else clean(value)


def expected(view: View, status: JobStatus, expectation: Expectation) -> str:
    """Return when the job is expected to start and end, where, and what that rests on."""
    zone, now = view.zone, view.now
    parts = []
    if not status.live_attempt:
        start = clock(expectation.start_p50, zone, now)
        late = time_of_day(expectation.start_p90, zone, expectation.start_p50)
        parts.append(f"starts ~{start} (p90 {late})")
        if expectation.allocation:
            parts.append(f"on {place(expectation.allocation)}")
        if expectation.rests_on:
            parts.append(f"when {', '.join(expectation.rests_on)} leaves")
    end = clock(expectation.end_p50, zone, now)
    late = time_of_day(expectation.end_p90, zone, expectation.end_p50)
    parts.append(f"ends ~{end} (p90 {late})")
    return ", ".join(parts)


def _progress(view: View, status: JobStatus) -> str:
    live = status.live_attempt
    folder = local_folder(status, live, view.branch.cursor) if live else None
    beat = heartbeat(folder) if folder else None
    if not beat:
        return ""
    step, total = beat.get("step"), beat.get("total_steps")
    parts = [f"step {step} of {total}" if total else f"step {step}"]
    if isinstance(beat.get("loss"), int | float):
        parts.append(f"loss {beat['loss']:.4g}")
    if isinstance(beat.get("tokens_per_s"), int | float):
        parts.append(f"{beat['tokens_per_s']:.0f} tokens/s")
    if isinstance(beat.get("written_at"), int | float):
        parts.append(f"told {duration(int(view.now - beat['written_at']))} ago")
    return ", ".join(parts)


def _used(view: View, status: JobStatus) -> str:
    live = status.live_attempt
    ran = status.ran_s + (live.running_s(view.now) if live else 0)
    hours = gpu_seconds(status, view.now) / 3600
    if not status.attempts_made:
        return "nothing yet"
    parts = [
        f"{hours:.1f} GPU-hours",
        f"ran {duration(ran)} in {count(status.attempts_made, 'attempt')}",
    ]
    for number, what in (
        (status.tries_used, "failed"), (status.preemptions, "preempted"), (status.lost, "lost"),
    ):  # fmt: skip
        if number:
            parts.append(f"{number} {what}")
    return ", ".join(parts)


def _attempts(view: View, status: JobStatus) -> str:
    if not status.attempts:
        return ""
    heads = [
        Column("ATTEMPT", "right"), Column("PHASE"), Column("GPUS", "right"), Column("PLACE"),
        Column("STARTED"), Column("RAN", "right"), Column("STEP", "right"),
        Column("CHECKPOINT", "right"), Column("EXIT", "right"), Column("REASON"),
    ]  # fmt: skip
    rows = [attempt_cells(view, attempt) for attempt in status.attempts]
    text = render(heads, rows, view.terminal)
    older = status.attempts_made - len(status.attempts)
    return (
        f"{text}\n({older} older ones are in `headway audit {status.job}`)" if older > 0 else text
    )


def attempt_cells(view: View, attempt: Attempt) -> list[str | Cell]:
    """Return the cells of one attempt, as ``describe`` and ``get attempts`` show them."""
    reason = phrase(attempt.reason) if attempt.reason else ""
    if not reason and attempt.stop_cause:
        reason = f"asked to stop ({attempt.stop_cause})"
    return [
        str(attempt.number),
        Cell(str(attempt.phase), _ATTEMPT_STYLES[attempt.phase]),
        str(attempt.gpus),
        place(attempt.allocation),
        clock(attempt.started_at, view.zone, view.now) if attempt.started_at else "",
        duration(attempt.running_s(view.now)) if attempt.started_at else "",
        "" if attempt.step is None else str(attempt.step),
        "" if attempt.checkpoint_step is None else str(attempt.checkpoint_step),
        "" if attempt.exit_status is None else str(attempt.exit_status),
        reason,
    ]


_ATTEMPT_STYLES: Mapping[AttemptPhase, str] = {
    AttemptPhase.LAUNCHING: "busy",
    AttemptPhase.RUNNING: "good",
    AttemptPhase.STOPPING: "busy",
    AttemptPhase.SUCCEEDED: "dim",
    AttemptPhase.FAILED: "bad",
    AttemptPhase.PREEMPTED: "wait",
    AttemptPhase.CANCELLED: "dim",
    AttemptPhase.LOST: "bad",
    AttemptPhase.DIVERGED: "bad",
}


def _holds(status: JobStatus) -> str:
    lines = [
        f"{place(hold.devices)} is kept for it until {', '.join(hold.victims)} has left"
        for hold in status.holds
    ]
    return "\n".join(lines)


def _changes(view: View, changes: Sequence[JobChange]) -> str:
    if not changes:
        return ""
    heads = [
        Column(f"WHEN ({zone_name(view.zone)})"),
        Column("COMMIT"),
        Column("CHANGE"),
        Column("WHY"),
    ]
    rows: list[list[str | Cell]] = [
        [
            clock_s(change.recorded.at, view.zone, view.now),
            change.recorded.commit[:7],
            change_words(change),
            clean(why_in_short(change.after)) if change.after else "",
        ]
        for change in changes
    ]
    return render(heads, rows, view.terminal)
