"""Progress for people: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from typing import TYPE_CHECKING, Any

from tqdm import tqdm  # type: ignore[import-untyped]
from transformers import TrainerCallback

from trainer.record import say

if TYPE_CHECKING:
    from trainer.loop import Run

LINE_EVERY_S = 1.0


class ProgressCallback(TrainerCallback):  # type: ignore[misc]
    """Shows rank 0's steps on standard error."""

    def __init__(self, run: "Run") -> None:
        self.run = run
        self.shows = run.record.rank == 0
        self.bar: Any = None
        self.said_at = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Open the bar at the step that training starts from."""
        if self.shows and sys.stderr.isatty():
            self.bar = tqdm(
                total=state.max_steps, initial=state.global_step, unit="step", leave=True
            )

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Move the bar."""
        if self.bar is not None:
            self.bar.update(state.global_step - self.bar.n)

    def on_log(
        self,
        args: Any,  # noqa: ARG002
        state: Any,
        control: Any,  # noqa: ARG002
        logs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Show the loss, on a line of its own at most once a second, and for the last step."""
        progress = self.run.record.progress
        if not self.shows or progress.loss is None or "loss" not in (logs or {}):
            return
        if self.bar is not None:
            self.bar.set_postfix(loss=f"{progress.loss:.4f}")
            return
        now = time.monotonic()
        if now - self.said_at >= LINE_EVERY_S or state.global_step == state.max_steps:
            say(
                f"step {state.global_step}/{state.max_steps}  loss {progress.loss:.4f}  "
                f"{progress.tokens_per_s or 0:.0f} tokens/s"
            )
            self.said_at = now

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Close the bar."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None
