"""``headway budgets``: what every budget group has used, promised and left in its period."""

from collections.abc import Iterable, Mapping
from typing import Any

import click

from reconciler.cli.options import View, reads_fleet
from reconciler.cli.output import emit_items, emit_names, instant, output_option
from reconciler.cli.tables import Cell, Column, render
from reconciler.cli.terminal import clean
from reconciler.cli.times import clock, zone_name
from reconciler.domain.budget import BudgetUse
from reconciler.domain.reservation import ReservationPhase
from reconciler.domain.status import JobStatus
from reconciler.domain.units import Instant

NEARLY = 0.95
"""A budget used or promised to this share is painted as a warning."""


@click.command()
@click.argument("names", nargs=-1, metavar="[BUDGET]...")
@click.option("--no-headers", is_flag=True, help="Leave out the line of heads.")
@output_option("table", "json", "yaml", "name")
@reads_fleet
def budgets(view: View, names: tuple[str, ...], no_headers: bool, output: str) -> None:
    """Show the GPU-hours of every budget, or of BUDGET, in its present period.

    USED is of attempts that ended and of reservations that idled, RUNNING what runs now took so
    far, PROMISED the bounds of what runs, waits with a promise or is reserved. What is neither
    is LEFT: a job or reservation that needs more waits or is refused.
    """
    kept = view.branch.budgets
    uses = kept.uses if kept else ()
    rows = [
        _now(use, kept.at, view)
        for use in uses
        if kept is not None and (not names or use.name in names)
    ]
    for name in names:
        if name not in {row["budget"] for row in rows}:
            from reconciler.errors import NotFoundError

            known = ", ".join(use.name for use in uses) or "none yet"
            raise NotFoundError(f"no budget {name} on {view.branch.ref.name}; there are: {known}")
    if output == "name":
        emit_names(f"budget/{row['budget']}" for row in rows)
    elif output in ("json", "yaml"):
        emit_items("BudgetList", [_item(row) for row in rows], output, state=view.state_item())
    elif rows:
        heads, cells = _table(rows, view)
        view.say(render(heads, cells, view.terminal, heads=not no_headers))
    else:
        view.note("no budgets: conf/budgets/ declares them, the next decision counts them")


def _now(use: BudgetUse, at: Instant, view: View) -> dict[str, Any]:
    """Return how a budget stands at this moment: what runs has gone on since the decision."""
    now = min(view.now, use.period.end)
    since_s = max(now - at, 0)
    taken_s = _gpus_running(use.name, view.branch.statuses().values()) * since_s
    idle_s = sum(
        occurrence.idle_gpus * max(min(now, occurrence.end) - at, 0)
        for status in view.branch.reservations().values()
        if status.summary is not None and status.summary.budget_group == use.name
        for occurrence in status.occurrences
        if occurrence.phase is ReservationPhase.ACTIVE
    )
    running = use.running_gpu_s + taken_s + idle_s
    promised = max(use.committed_gpu_s - taken_s - idle_s, 0)
    return {
        "budget": use.name,
        "period": use.words,
        "start": use.period.start,
        "end": use.period.end,
        "teams": list(use.teams),
        "limit_gpu_s": use.limit_gpu_s,
        "used_gpu_s": use.used_gpu_s,
        "running_gpu_s": running,
        "promised_gpu_s": promised,
        "left_gpu_s": use.limit_gpu_s - use.used_gpu_s - running - promised,
    }


def _gpus_running(budget: str, statuses: Iterable[JobStatus]) -> int:
    lives = (status.live_attempt for status in statuses)
    return sum(live.gpus for live in lives if live is not None and live.budget_group == budget)


def _item(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "start": instant(row["start"]), "end": instant(row["end"])}


def _table(rows: Iterable[Mapping[str, Any]], view: View) -> tuple[list[Column], list[list[Any]]]:
    heads = [
        Column("BUDGET"), Column("PERIOD"), Column(f"ENDS ({zone_name(view.zone)})"),
        Column("LIMIT GPU-H", "right"), Column("USED", "right"), Column("RUNNING", "right"),
        Column("PROMISED", "right"), Column("LEFT", "right"), Column("TEAMS"),
    ]  # fmt: skip
    cells = [
        [
            clean(row["budget"]),
            row["period"],
            clock(row["end"], view.zone, view.now),
            *(
                f"{row[key] / 3600:.1f}"
                for key in ("limit_gpu_s", "used_gpu_s", "running_gpu_s", "promised_gpu_s")
            ),
            Cell(f"{row['left_gpu_s'] / 3600:.1f}", _style(row)),
            clean(", ".join(row["teams"]) or "every team"),
        ]
        for row in rows
    ]
    return heads, cells


def _style(row: Mapping[str, Any]) -> str | None:
    if row["left_gpu_s"] <= 0:
        return "bad"
    return "wait" if row["left_gpu_s"] < (1 - NEARLY) * row["limit_gpu_s"] else None
