"""Shows the demo as it happens: a live table on a terminal, plain lines elsewhere."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from reconciler.domain.status import JobPhase
from tests.demo.watch import Change, Watch

COLOURS = {
    JobPhase.RUNNING: "green",
    JobPhase.STOPPING: "yellow",
    JobPhase.SUCCEEDED: "blue",
    JobPhase.INVALID: "red",
    JobPhase.FAILED: "red",
}
PLAIN_EVERY_S = 10.0


class Display:
    """Prints headings, changes and progress; the table exists only on a terminal."""

    def __init__(self, watch: Watch) -> None:
        self.console = Console(highlight=False)
        self._watch = watch
        self._began = time.monotonic()
        self._live = (
            Live(console=self.console, refresh_per_second=4, transient=True)
            if self.console.is_terminal
            else None
        )
        self._last_plain = 0.0

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """Print one line of the story with its time since the start."""
        elapsed = time.monotonic() - self._began
        self.console.print(f"[{elapsed:5.0f}s] {text}", markup=False, soft_wrap=True)

    def changed(self, change: Change) -> None:
        """Print one phase change."""
        attempt = change.status.attempts[-1] if change.status.attempts else None
        which = f"  attempt {attempt.number}" if attempt else ""
        before = change.before or "new"
        self.say(
            f"  {change.job}: {before} -> {change.status.phase} ({change.status.reason}){which}"
        )

    def refresh(self) -> None:
        """Redraw the table, or print progress lines now and then where there is none."""
        if self._live is not None:
            self._live.update(self._table())
            return
        now = time.monotonic()
        if now - self._last_plain < PLAIN_EVERY_S:
            return
        self._last_plain = now
        for job, status in self._watch.statuses.items():
            if status.phase is JobPhase.RUNNING:
                seen = self._watch.progress(job)
                loss = "-" if seen.loss is None else f"{seen.loss:.3f}"
                self.say(f"  {job}: step {seen.step} of {seen.total_steps}, loss {loss}")

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for head in ("JOB", "PRIO", "GPUS", "STATE", "ATTEMPT", "PROGRESS", "LOSS", "REASON"):
            table.add_column(head, justify="right" if head in ("GPUS", "LOSS") else "left")
        for job, status in self._watch.statuses.items():
            seen = self._watch.progress(job)
            summary = status.summary
            colour = COLOURS.get(status.phase, "default")
            table.add_row(
                job,
                summary.priority.name if summary else "-",
                str(summary.gpus) if summary else "-",
                f"[{colour}]{status.phase}[/]",
                str(status.attempts_made or "-"),
                bar(seen.step, seen.total_steps),
                "-" if seen.loss is None else f"{seen.loss:.3f}",
                str(status.reason),
            )
        return table


def bar(step: int, total: int, width: int = 16) -> str:
    """Return a progress bar with its numbers; a dash before anything is known."""
    if not total:
        return "-"
    filled = round(width * step / total)
    return f"{'#' * filled}{'.' * (width - filled)} {step}/{total}"
