"""What is measured of a step: one line in events.jsonl, and the numbers of the heartbeat."""

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from trainer import footprint, processes

if TYPE_CHECKING:
    from trainer.loop import Run

NAMES = {"loss": "loss", "grad_norm": "grad_norm", "learning_rate": "learning_rate"}


class MetricsCallback(TrainerCallback):  # type: ignore[misc]
    """Turns the loop's logs into events.  Runs after ``AgreementCallback``."""

    def __init__(self, run: "Run") -> None:
        self.run = run
        self.started = time.perf_counter()
        self.tokens = self.places = self.steps = 0
        self.total_tokens = self.total_places = self.total_steps = 0
        self.training_s = self.data_wait_s = self.checkpoint_s = 0.0
        self.parts: dict[str, int] = {}
        self.peak_flops: float | None = None
        self.arithmetic: footprint.Arithmetic | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Start the clock."""
        self.peak_flops = footprint.peak_flops()
        self.started = time.perf_counter()

    def on_step_end(
        self,
        args: Any,  # noqa: ARG002
        state: Any,
        control: Any,  # noqa: ARG002
        model: Any = None,
        optimizer: Any = None,
        **_: Any,
    ) -> None:
        """Note how far training is."""
        progress, facts = self.run.record.progress, self.run.facts
        progress.step = state.global_step
        progress.samples_seen = state.global_step * self.run.request.global_batch
        self.tokens += facts.tokens
        self.places += facts.places
        facts.tokens = facts.places = 0
        self.steps += 1
        if not self.parts:  # the optimizer has its states from the first step on
            self.parts = footprint.parts(model, optimizer)

    def on_log(
        self,
        args: Any,  # noqa: ARG002
        state: Any,
        control: Any,  # noqa: ARG002
        logs: dict[str, Any] | None = None,
        model: Any = None,
        **_: Any,
    ) -> None:
        """Report the steps since the last report."""
        state.log_history.clear()  # would grow without end inside every checkpoint
        logs = logs or {}
        if "loss" in logs:
            self._report_step(state, logs, model)
        elif any(name.startswith("eval_") for name in logs):
            self._report_evaluation(logs)

    def _report_step(self, state: Any, logs: dict[str, Any], model: Any) -> None:
        run, facts = self.run, self.run.facts
        now = time.perf_counter()
        elapsed_s = max(now - self.started, 1e-9)
        self.started = now
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
        steps = max(self.steps, 1)
        run.record.event(
            "step",
            step=state.global_step,
            loss=progress.loss,
            grad_norm=_number(logs.get("grad_norm")),
            learning_rate=_number(logs.get("learning_rate")),
            tokens_per_s=progress.tokens_per_s,
            raw_tokens_per_s=round(self.places / elapsed_s, 1),
            fill=_share(self.tokens, self.places),
            step_s=round(elapsed_s / steps, 4),
            data_wait_s=round(facts.data_wait_s / steps, 4),
            samples_seen=progress.samples_seen,
            epoch=round(progress.samples_seen / run.samples, 4),
            **self._arithmetic(model, elapsed_s),
            **extra,
        )
        self.total_tokens += self.tokens
        self.total_places += self.places
        self.total_steps += self.steps
        self.training_s += elapsed_s
        self.data_wait_s += facts.data_wait_s
        facts.data_wait_s = 0.0
        self.tokens = self.places = self.steps = 0

    def _arithmetic(self, model: Any, elapsed_s: float) -> dict[str, float | None]:
        """Return the model's operations a second and their share of all devices' peak."""
        request = self.run.request
        samples = max(self.steps, 1) * request.global_batch
        if self.arithmetic is None:
            self.arithmetic = footprint.arithmetic(
                model, trains_all=request.train["tuner_type"] == "full"
            )
            if request.layout.pipeline > 1:  # every process has looked at its own stage
                whole = processes.summed([self.arithmetic.weights])[0]
                self.arithmetic = replace(self.arithmetic, weights=whole)
        speed = self.tokens * self.arithmetic.per_token(self.tokens / samples) / elapsed_s
        peak = self.peak_flops
        return {
            "model_tflops": round(speed / 1e12, 4),
            "mfu": None if peak is None else round(speed / peak / request.world_size, 4),
        }

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Keep the time of saving out of the speed of training."""
        self.started += self.run.saver.seconds
        self.checkpoint_s += self.run.saver.seconds

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
        """Return the metrics of the result; every process must call this.

        Memory is that of the process that held most.
        """
        trained_s, steps = self.training_s, self.total_steps
        names = ("weights_bytes", "gradients_bytes", "optimizer_bytes")
        held = [footprint.peak_bytes(), *(self.parts.get(name, 0) for name in names)]
        most = processes.largest([float(number) for number in held])
        return {
            "wall_s": round(time.perf_counter() - self.run.record.began, 3),
            "training_s": round(trained_s, 3),
            "steps": float(steps),
            "tokens": float(self.total_tokens),
            "tokens_per_s": round(self.total_tokens / trained_s, 1) if trained_s else None,
            "raw_tokens_per_s": round(self.total_places / trained_s, 1) if trained_s else None,
            "fill": _share(self.total_tokens, self.total_places),
            "data_wait_s": round(self.data_wait_s, 3),
            "checkpoint_s": round(self.checkpoint_s, 3),
            **dict(zip(("peak_memory_bytes", *names), most, strict=True)),
        }


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
