"""A preview in words and as JSON: who is added, changed, removed, displaced, asked to leave."""

from collections.abc import Sequence
from datetime import tzinfo
from typing import Any

from reconciler.cli.explanation import suggestion_item, suggestion_words
from reconciler.cli.needs_words import needs_item, needs_line, rests_on
from reconciler.cli.output import allocation, instant
from reconciler.cli.phrases import count
from reconciler.cli.places import place
from reconciler.cli.plan_calendar import (
    budget_item,
    budget_line,
    calendar_lines,
    reserved_item,
    reserved_row,
)
from reconciler.cli.tables import Cell, Column
from reconciler.cli.times import clock, duration
from reconciler.domain.plan import Expectation
from reconciler.domain.units import Instant
from reconciler.planning.compare import Shift
from reconciler.preview.changes import JobChange, Preview, Stopped
from reconciler.preview.edits import request_words

NOW_S = 60
"""A start within this is ``~now``."""
STYLES = {"+": "good", "~": "wait", "-": "bad"}
HEADS = [Column("CHANGE"), Column("ASKS FOR"), Column("START"), Column("END"),
         Column("GPU-H", align="right"), Column("PLACE")]  # fmt: skip


class Words:
    """Words for one preview, in one zone."""

    def __init__(self, preview: Preview, zone: tzinfo) -> None:
        self._preview = preview
        self._zone = zone

    def rows(self) -> list[list[str | Cell]]:
        """Return one row a changed job, in the order of :data:`HEADS`."""
        now = self._preview.now
        return [
            *(self._row(each) for each in self._preview.jobs),
            *(reserved_row(each, self._zone, now) for each in self._preview.reservations),
        ]

    def notes(self) -> list[str]:
        """Return what has to be said about single jobs, one line each."""
        said = []
        for each in self._preview.jobs:
            if each.edits:
                said.append(f"{each.job}: {'; '.join(each.edits)}{self._moved(each)}")
            if each.note:
                said.append(f"{each.job}: {each.note}")
            if each.needs:
                said.append(needs_line(each.job, each.needs))
            if each.suggestions:
                told = "; ".join(suggestion_words(one, self._at) for one in each.suggestions)
                said.append(f"{each.job} would start sooner, as planned for each alone: {told}")
        for kept in self._preview.reservations:
            said += calendar_lines(kept, self._zone, self._preview.now)
        said += [budget_line(use, self._zone, self._preview.now) for use in self._preview.budgets]
        said += [
            f"{path}: main changed it too since this branch left; the merge will conflict"
            for path in self._preview.change.contested
        ]
        return said

    def effects(self) -> list[str]:
        """Return who is displaced, asked to leave, left without a place, or goes sooner."""
        preview = self._preview
        lines = [
            _listed("Displaced", [self._displaced(each) for each in preview.displaced]),
            _listed("Preempted", [self._stopped(each) for each in preview.stopped]),
        ]
        if preview.without_place:
            lines.append(_listed("Without a start", list(preview.without_place)))
        if preview.sooner:
            lines.append(_listed("Sooner", [self._sooner(each) for each in preview.sooner]))
        return lines

    def summary(self, state: str) -> str:
        """Return the last line: counts, base commit, state."""
        preview = self._preview
        counts = ", ".join(
            f"{preview.count(sign)} to {word}"
            for sign, word in (("+", "add"), ("~", "change"), ("-", "remove"))
        )
        told = rests_on((each.needs for each in preview.jobs), preview.learned_runs)
        return f"Plan: {counts}. Base {preview.change.base[:10]}, {state}. Advisory.{told}"

    def _row(self, change: JobChange) -> list[str | Cell]:
        when = change.expected if change.after else change.was
        spec = change.after or change.before
        hours = change.gpu_hours
        return [
            Cell(f"{change.sign} job {change.job}", STYLES[change.sign]),
            request_words(spec) if spec else "",
            "" if change.sign == "-" else self._when(when.start_p50 if when else None, "no start"),
            self._end(when, is_removed=change.sign == "-"),
            f"{hours:.1f}" if hours is not None and change.sign != "-" else "",
            place(when.allocation) if when else "",
        ]

    def _end(self, when: Expectation | None, *, is_removed: bool) -> str:
        if when is None or is_removed:
            return ""
        return f"{self._when(when.end_p50)} (p90 {self._when(when.end_p90)})"

    def _when(self, at: Instant | None, otherwise: str = "") -> str:
        if at is None:
            return otherwise
        if at - self._preview.now <= NOW_S:
            return "~now"
        return f"~{clock(at, self._zone, self._preview.now)}"

    def _at(self, at: Instant) -> str:
        return clock(at, self._zone, self._preview.now)

    def _moved(self, change: JobChange) -> str:
        if change.was is None or change.expected is None:
            return ""
        by_s = change.expected.start_p50 - change.was.start_p50
        if abs(by_s) < NOW_S:
            return ""
        return f"; starts {duration(abs(by_s))} {'later' if by_s > 0 else 'earlier'}"

    def _displaced(self, shift: Shift) -> str:
        """Return who, by how much, and its new start (or end, where only that moves)."""
        by_s, late_s = shift.start_by_s, shift.after.start_p90 - shift.before.start_p90
        what, at = "starts", shift.after.start_p50
        if by_s < NOW_S:
            by_s, what, at = shift.end_by_s, "ends", shift.after.end_p50
            late_s = shift.after.end_p90 - shift.before.end_p90
        return f"{shift.job} {_by(by_s)} (p90 {_by(late_s)}), {what} {self._when(at)}"

    def _stopped(self, stopped: Stopped) -> str:
        told = stopped.preempted
        cost = f"{stopped.cost_gpu_s / 3600:.2f} GPU-h lost"
        back = f"resumes {self._when(told.resumes.start_p50)}" if told.resumes else "resumes later"
        return f"{told.job} for {told.for_job} ({cost}, {back})"

    def _sooner(self, shift: Shift) -> str:
        by_s = min(shift.start_by_s, shift.end_by_s)
        return f"{shift.job} {_by(by_s)}"


def _by(seconds: int) -> str:
    return f"{'-' if seconds < 0 else '+'}{duration(abs(seconds))}"


def _listed(head: str, parts: Sequence[str]) -> str:
    return f"{head}: {'; '.join(parts) if parts else 'none'}."


def item(preview: Preview, state: dict[str, Any] | None) -> dict[str, Any]:
    """Return the whole preview for machines."""
    return {
        "kind": "Plan",
        "now": instant(preview.now),
        "base": preview.change.base,
        "head": preview.change.head,
        "state": state,
        "summary": {
            "add": preview.count("+"),
            "change": preview.count("~"),
            "remove": preview.count("-"),
        },
        "jobs": [_job_item(each) for each in preview.jobs],
        "displaced": [_shift_item(each) for each in preview.displaced],
        "sooner": [_shift_item(each) for each in preview.sooner],
        "reservations": [reserved_item(each, preview.now) for each in preview.reservations],
        "budgets": [budget_item(use) for use in preview.budgets],
        "preempted": [
            {
                "job": each.preempted.job,
                "for": each.preempted.for_job,
                "cost_gpu_s": each.cost_gpu_s,
                "resumes": _when_item(each.preempted.resumes),
            }
            for each in preview.stopped
        ],
        "without_start": list(preview.without_place),
        "contested": list(preview.change.contested),
        "problems": len(preview.problems),
        "learned_runs": preview.learned_runs,
    }


def _job_item(change: JobChange) -> dict[str, Any]:
    return {
        "job": change.job,
        "change": {"+": "add", "~": "change", "-": "remove"}[change.sign],
        "gpus": change.after.gpus.count if change.after else None,
        "before": _when_item(change.was),
        "after": _when_item(change.expected),
        "gpu_hours": None if change.gpu_hours is None else round(change.gpu_hours, 3),
        "edits": list(change.edits),
        "note": change.note,
        "needs": needs_item(change.needs),
        "suggestions": [suggestion_item(each) for each in change.suggestions],
    }


def _shift_item(shift: Shift) -> dict[str, Any]:
    return {
        "job": shift.job,
        "start_later_s": shift.start_by_s,
        "end_later_s": shift.end_by_s,
        "before": _when_item(shift.before),
        "after": _when_item(shift.after),
    }


def _when_item(when: Expectation | None) -> dict[str, Any] | None:
    if when is None:
        return None
    return {
        "start_p50": instant(when.start_p50),
        "start_p90": instant(when.start_p90),
        "end_p50": instant(when.end_p50),
        "end_p90": instant(when.end_p90),
        "place": allocation(when.allocation),
    }


def state_words(age_s: int | None, cluster: str | None) -> str:
    """Return ``state 38s old of lab``, or that there is none yet."""
    if age_s is None:
        return "no status branch yet: planned on an empty fleet"
    return f"state of {cluster} {duration(age_s)} old"


def nothing(edited: int) -> str:
    """Return the line for a change that moves nobody."""
    return f"No change to the schedule ({count(edited, 'file')} under conf/ and jobs/ touched)."
