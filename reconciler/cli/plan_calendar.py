"""What a preview says of reservations and budgets, in words and as JSON."""

from datetime import tzinfo
from typing import Any

from reconciler.cli.output import instant
from reconciler.cli.places import place
from reconciler.cli.reserved import occurrence_item, why
from reconciler.cli.tables import Cell
from reconciler.cli.times import clock
from reconciler.domain.budget import BudgetUse
from reconciler.domain.reservation import ReservationPhase
from reconciler.domain.units import Instant
from reconciler.preview.calendar import ReservationChange

_STYLES = {"+": "good", "~": "wait", "-": "bad"}


def reserved_row(change: ReservationChange, zone: tzinfo, now: Instant) -> list[str | Cell]:
    """Return one row of the plan's table: change, asks for, start, end, GPU-hours, place."""
    held = change.after or change.before
    assert held is not None  # a change has a document on one side
    first = change.occurrences[0] if change.occurrences else None
    start, end = (first.start, first.end) if first else held.occurrences[0]
    word = "refused reservation" if change.is_refused else "reservation"
    style = "bad" if change.is_refused else _STYLES[change.sign]
    gpus = f"{held.gpus.count} GPU" + ("" if held.gpus.count == 1 else "s")
    asked = f"{held.gpus.count}x {'/'.join(held.gpus.types)}" if held.gpus.types else gpus
    if change.sign == "-":
        return [Cell(f"- reservation {change.name}", style), asked, "", "", "", ""]
    return [
        Cell(f"{change.sign} {word} {change.name}", style),
        asked,
        clock(start, zone, now),
        clock(end, zone, now),
        f"{change.gpu_hours:.1f}" if change.gpu_hours else "",
        place(first.devices) if first else "",
    ]


def calendar_lines(change: ReservationChange, zone: tzinfo, now: Instant) -> list[str]:
    """Return a line for each refused occurrence, with when it would fit, and one for many."""
    lines = [
        f"{change.name}: refused for {clock(each.start, zone, now)}, {why(each, zone, now)}"
        for each in change.occurrences
        if each.phase is ReservationPhase.REFUSED
    ]
    booked = len(change.occurrences) - len(lines)
    if booked > 1:
        last = clock(change.occurrences[-1].end, zone, now)
        lines.append(f"{change.name}: {booked} occurrences would be booked, the last until {last}")
    return lines


def budget_line(use: BudgetUse, zone: tzinfo, now: Instant) -> str:
    """Return how a budget stands with the change."""
    figures = (use.used_gpu_s + use.running_gpu_s, use.committed_gpu_s, use.limit_gpu_s)
    used, promised, limit = (f"{gpu_s / 3600:.1f}" for gpu_s in figures)
    return (
        f"budget {use.name}: {used} used + {promised} promised of {limit} GPU-hours until"
        f" {clock(use.period.end, zone, now)}; {use.left_gpu_s / 3600:.1f} left after this"
    )


def reserved_item(change: ReservationChange, now: Instant) -> dict[str, Any]:
    """Return a reservation's change for machines."""
    return {
        "reservation": change.name,
        "change": {"+": "add", "~": "change", "-": "remove"}[change.sign],
        "gpus": change.after.gpus.count if change.after else None,
        "gpu_hours": round(change.gpu_hours, 3),
        "occurrences": [occurrence_item(each, now) for each in change.occurrences],
    }


def budget_item(use: BudgetUse) -> dict[str, Any]:
    """Return a budget's figures for machines."""
    return {
        "budget": use.name,
        "limit_gpu_s": use.limit_gpu_s,
        "used_gpu_s": use.used_gpu_s,
        "running_gpu_s": use.running_gpu_s,
        "promised_gpu_s": use.committed_gpu_s,
        "left_gpu_s": use.left_gpu_s,
        "period_end": instant(use.period.end),
    }
