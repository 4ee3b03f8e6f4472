"""``headway audit``: who asked for what, what was decided, when and why, from ``git log`` alone."""

from collections.abc import Sequence
from datetime import tzinfo
from typing import Any

import click

from reconciler.cli.history import JobChange, Wish, Wishes, change_words, job_changes, wishes_of
from reconciler.cli.options import View, complete_job, job_of, reads_history, team_option
from reconciler.cli.output import emit_items, instant, output_option
from reconciler.cli.phrases import count, style_of, why_in_short
from reconciler.cli.tables import Cell, Column, render
from reconciler.cli.terminal import clean
from reconciler.cli.times import clock_s, parse_since, zone_name
from reconciler.domain.status import JobStatus
from reconciler.domain.units import Instant
from reconciler.errors import NotFoundError


@click.command()
@click.argument("job", required=False, shell_complete=complete_job)
@team_option
@click.option("--since", metavar="WHEN", help="How long ago (2d), a date, or RFC 3339.")
@click.option("-n", "--limit", type=click.IntRange(min=1), metavar="N", help="Newest N changes.")
@click.option("--no-headers", is_flag=True, help="Leave out the line of heads.")
@output_option("table", "json", "yaml")
@reads_history
def audit(
    view: View,
    job: str | None,
    team: str | None,
    since: str | None,
    limit: int | None,
    no_headers: bool,
    output: str,
) -> None:
    """Show what was decided about JOB (TEAM/NAME; every job without it), newest first.

    ASKED BY is who wrote the newest commit of main behind the decision that touched the job's
    file, and who merged it where that is somebody else. All of it is in commits: the status
    branch says what and why, main says who.
    """
    name = job_of(job) if job else None
    changes = [
        change
        for change in job_changes(
            view.repository.git_dir,
            view.branch.ref.commit,
            job=name,
            since=parse_since(since, view.zone, view.now) if since else None,
        )
        if change.is_transition and (not team or change.job.partition("/")[0] == team)
    ]
    if name and not changes and not since:
        raise NotFoundError(f"{name}: no commit of {view.branch.ref.name} ever named this job")
    shown = changes[:limit]
    wishes = wishes_of(view.repository.git_dir, shown)
    if output in ("json", "yaml"):
        items = [item(change, wishes) for change in shown]
        emit_items("AuditList", items, output, state=view.state_item())
        return
    heads, rows = table(shown, wishes, view.zone, view.now)
    if rows:
        view.say(render(heads, rows, view.terminal, heads=not no_headers))
    if not view.is_quiet:
        older = f"newest {len(shown)} of " if len(shown) < len(changes) else ""
        line = f"{older}{count(len(changes), 'change')} on {view.branch.ref.name}"
        view.say(view.terminal.paint(line, "dim"))


def table(
    changes: Sequence[JobChange], wishes: Wishes, zone: tzinfo, now: Instant
) -> tuple[list[Column], list[list[str | Cell]]]:
    """Return the heads and cells, one change a row, newest first."""
    heads = [
        Column(f"WHEN ({zone_name(zone)})"), Column("COMMIT"), Column("JOB"), Column("CHANGE"),
        Column("WHY"), Column("ASKED BY"),
    ]  # fmt: skip
    rows: list[list[str | Cell]] = []
    for change in changes:
        after = change.after
        wish = wishes.behind(change.recorded.desired, change.job)
        rows.append(
            [
                clock_s(change.recorded.at, zone, now),
                change.recorded.commit[:7],
                clean(change.job),
                Cell(change_words(change), style_of(after) if after else None),
                clean(why_in_short(after)) if after else "its status was deleted",
                clean(asked_by(wish)) if wish else "",
            ]
        )
    return heads, rows


def asked_by(wish: Wish) -> str:
    """Return ``Ann Lee: Add qwen3-dpo (9f02ab7, merged by Bo Chen)``."""
    merged = f", merged by {wish.merged_by}" if wish.merged_by else ""
    return f"{wish.author}: {wish.subject} ({wish.commit[:7]}{merged})"


def item(change: JobChange, wishes: Wishes) -> dict[str, Any]:
    """Return one change as JSON."""
    recorded, before, after = change.recorded, change.before, change.after
    attempts = after.attempts if isinstance(after, JobStatus) else ()
    attempt = attempts[-1] if attempts else None
    wish = wishes.behind(recorded.desired, change.job)
    return {
        "at": instant(recorded.at),
        "job": change.job,
        "before": str(before.phase) if before else None,
        "after": str(after.phase) if after else None,
        "reason": str(after.reason) if after else None,
        "message": after.message if after else "",
        "attempt": attempt.id if attempt else None,
        "commit": recorded.commit,
        "desired": recorded.desired,
        "recorded_by": recorded.by,
        "epoch": recorded.epoch,
        "plan": recorded.plan,
        "asked_by": wish_item(wish) if wish else None,
    }


def wish_item(wish: Wish) -> dict[str, Any]:
    """Return the commit of main behind a decision as JSON."""
    return {
        "commit": wish.commit,
        "author": wish.author,
        "email": wish.email,
        "authored_at": instant(wish.authored_at),
        "subject": wish.subject,
        "merged_by": wish.merged_by or None,
    }
