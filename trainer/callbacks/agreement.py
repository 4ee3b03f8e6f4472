"""A stop: asked for by a signal or by a file, agreed on by all ranks, obeyed at a step's end.

Rule kept: no rank stops alone.  The ranks add up who has heard of a stop at the end of each step,
so all save the same step and leave together, even if the signal reached only one of them.
"""

from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from trainer import processes

if TYPE_CHECKING:
    from trainer.loop import Run

STRIKES = 3
"""Steps in a row whose loss or gradient is not finite, after which training has diverged."""


class AgreementCallback(TrainerCallback):  # type: ignore[misc]
    """Ends each step with one exchange between the ranks, and acts on what it says."""

    def __init__(self, run: "Run") -> None:
        self.run = run
        self.strikes = 0

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Stop, or give up, where the ranks have agreed to."""
        run, facts = self.run, self.run.facts
        stops, bad, tokens, places = processes.summed(
            [
                float(run.stop.is_set),
                float(not facts.are_finite()),
                float(facts.tokens),
                float(facts.places),
            ]
        )
        copies = run.request.layout.copies  # these have read the same tokens
        facts.tokens, facts.places = int(tokens) // copies, int(places) // copies
        facts.begin_step()
        self.strikes = self.strikes + 1 if bad else 0
        if bad:
            run.record.warn(
                f"step {state.global_step}: loss or gradient is not finite "
                f"({self.strikes} in a row); the step was left out",
                step=state.global_step,
            )
        if self.strikes >= STRIKES:
            run.outcome = "diverged"
            control.should_training_stop = True
            control.should_save = control.should_evaluate = False
        elif stops and state.global_step < state.max_steps:
            run.outcome = "stopped"
            control.should_training_stop = control.should_save = True
            control.should_evaluate = False
