"""``headway eta-report``: every published prediction beside what came of it."""

from collections.abc import Sequence
from typing import Any

import click

from reconciler.cli.options import View, complete_job, job_of, reads_history
from reconciler.cli.output import emit, instant, output_option
from reconciler.cli.phrases import count
from reconciler.cli.predictions import Calibration, Scored, calibration, predictions_at
from reconciler.cli.tables import Cell, Column, render
from reconciler.cli.terminal import clean
from reconciler.cli.times import duration, parse_since, time_of_day

WORST_SHOWN = 5
HEADS = (
    Column("PREDICTED"),
    Column("NUMBER", "right"),
    Column("ERROR P50", "right"),
    Column("ERROR P90", "right"),
    Column("BIAS", "right"),
    Column("BY P50", "right"),
    Column("BY P90", "right"),
)


@click.command("eta-report")
@click.argument("job", required=False, shell_complete=complete_job)
@click.option("--since", metavar="WHEN", help="How long ago (2d), a date, or RFC 3339.")
@output_option("table", "json", "yaml")
@reads_history
def eta_report(view: View, job: str | None, since: str | None, output: str) -> None:
    """Say how good the published starts and ends were, of JOB (TEAM/NAME) or of everyone.

    Each version of the forecast on the status branch is a prediction, scored when the job starts
    or ends. BY P50 is exact at 50 %, BY P90 at 90 %; a BIAS above 0 means later than predicted.
    """
    name = job_of(job) if job else None
    found, is_open, published = predictions_at(
        view.repository.git_dir,
        view.branch.ref.commit,
        job=name,
        since=parse_since(since, view.zone, view.now) if since else None,
    )
    rows = calibration(found)
    if output != "table":
        emit(
            {
                "kind": "EtaReport",
                "state": view.state_item(),
                "versions": published,
                "open": is_open,
                "calibration": [row_item(row) for row in rows],
                "predictions": [scored_item(each) for each in found],
            },
            output,
        )
        return
    if rows:
        view.say(render(HEADS, [_cells(row) for row in rows], view.terminal))
        view.say("\n".join(_worst(view, found)))
    if not view.is_quiet:
        line = (
            f"{count(len(found), 'prediction')} scored, {is_open} still open, from"
            f" {count(published, 'version')} of the forecast"
        )
        view.say(view.terminal.paint(line, "dim"))


def _cells(row: Calibration) -> list[str | Cell]:
    return [
        row.name,
        str(row.predictions),
        duration(row.error_p50_s),
        duration(row.error_p90_s),
        signed(row.bias_s),
        f"{row.by_p50:.0%}",
        f"{row.by_p90:.0%}",
    ]


def signed(seconds: int) -> str:
    """Return ``+12m``, ``-3h05m`` or ``0s``."""
    return ("" if seconds == 0 else "-" if seconds < 0 else "+") + duration(abs(seconds))


def _worst(view: View, found: Sequence[Scored]) -> list[str]:
    worst = sorted(found, key=lambda each: (-abs(each.error_s), each.job, each.published_at))
    lines = ["Furthest off:"]
    for each in worst[:WORST_SHOWN]:
        said = time_of_day(each.published_at, view.zone, view.now)
        lines.append(
            f"  {clean(each.job)}: {each.of.value} {signed(each.error_s)} from what was said"
            f" {said} ({duration(each.lead_s)} ahead)"
        )
    return lines


def row_item(row: Calibration) -> dict[str, Any]:
    """Return one group as JSON."""
    return {
        "predicted": row.name.strip(),
        "predictions": row.predictions,
        "error_p50_s": row.error_p50_s,
        "error_p90_s": row.error_p90_s,
        "bias_s": row.bias_s,
        "by_p50": round(row.by_p50, 4),
        "by_p90": round(row.by_p90, 4),
    }


def scored_item(each: Scored) -> dict[str, Any]:
    """Return one prediction as JSON."""
    return {
        "job": each.job,
        "of": each.of.value,
        "published_at": instant(each.published_at),
        "p50": instant(each.p50),
        "p90": instant(each.p90),
        "actual": instant(each.actual),
        "error_s": each.error_s,
        "is_covered": each.is_covered,
    }
