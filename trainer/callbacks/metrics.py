"""What is measured of a step: one line in events.jsonl, and the numbers of the heartbeat."""

import math
import time
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

if TYPE_CHECKING:
    from trainer.loop import Run

NAMES = {"loss": "loss", "grad_norm": "grad_norm", "learning_rate": "learning_rate"}


class MetricsCallback(TrainerCallback):  # type: ignore[misc]
    """Turns the loop's logs into events.  Runs after ``AgreementCallback``."""

    def __init__(self, run: "Run") -> None:
        self.run = run
        self.started = time.perf_counter()
        self.tokens = 0
        self.steps = 0
        self.total_tokens = 0
        self.training_s = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Start the clock."""
        self.started = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Note how far training is."""
        progress = self.run.record.progress
        progress.step = state.global_step
        progress.samples_seen = state.global_step * self.run.request.global_batch
        self.tokens += self.run.facts.tokens
        self.run.facts.tokens = 0
        self.steps += 1

    def on_log(
        self,
        args: Any,  # noqa: ARG002
        state: Any,
        control: Any,  # noqa: ARG002
        logs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Report the steps since the last report."""
        state.log_history.clear()  # would grow without end inside every checkpoint
        logs = logs or {}
        if "loss" in logs:
            self._report_step(state, logs)
        elif any(name.startswith("eval_") for name in logs):
            self._report_evaluation(logs)

    def _report_step(self, state: Any, logs: dict[str, Any]) -> None:
        run = self.run
        now = time.perf_counter()
        elapsed_s = max(now - self.started, 1e-9)
        self.started = now
        self.total_tokens += self.tokens
        self.training_s += elapsed_s
        progress = run.record.progress
        progress.loss = _number(logs["loss"])
        if progress.loss is not None and math.isfinite(progress.loss):
            run.last_finite_loss = progress.loss
        progress.tokens_per_s = round(self.tokens / elapsed_s, 1)
        extra = {
            name.replace("/", "_"): _number(value)
            for name, value in logs.items()
            if name not in NAMES and name not in ("epoch", "num_tokens")
        }
        run.record.event(
            "step",
            step=state.global_step,
            loss=progress.loss,
            grad_norm=_number(logs.get("grad_norm")),
            learning_rate=_number(logs.get("learning_rate")),
            tokens_per_s=progress.tokens_per_s,
            step_s=round(elapsed_s / max(self.steps, 1), 4),
            data_wait_s=round(run.facts.data_wait_s / max(self.steps, 1), 4),
            samples_seen=progress.samples_seen,
            epoch=round(progress.samples_seen / run.samples, 4),
            **extra,
        )
        run.facts.data_wait_s = 0.0
        self.tokens = self.steps = 0

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Keep the time of saving out of the speed of training."""
        self.started += self.run.saver.seconds

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Keep the time of evaluating out of the speed of training."""
        self.started = time.perf_counter()

    def _report_evaluation(self, logs: dict[str, Any]) -> None:
        self.run.record.event(
            "eval",
            **{
                name.replace("/", "_"): _number(value)
                for name, value in logs.items()
                if name.startswith("eval_") and not name.endswith("_per_second")
            },
        )

    def summary(self) -> dict[str, float | None]:
        """Return the metrics of the result."""
        speed = self.total_tokens / self.training_s if self.training_s else None
        return {
            "training_s": round(self.training_s, 3),
            "tokens": float(self.total_tokens),
            "tokens_per_s": None if speed is None else round(speed, 1),
        }


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
