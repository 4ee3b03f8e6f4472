"""Whether samples that share a row see each other: tried on the model itself, before step 0.

Two samples are put in a row.  Then the first is exchanged for another of the same length: if the
second notices, samples leak into each other.  The shapes are the same both times, so where nothing
leaks the difference is exactly zero in every number type, and no tolerance can hide a small leak.
The second sample is also read alone: a row whose positions do not restart reads it otherwise.

Rule kept: packing never runs on trust.  Attentions that look only at an attention mask, models
with a state that runs along the row (convolutions, linear attention) and rows packed without
borders are refused, with what was measured.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from trainer.config import RequestError

FIRST, SECOND = 19, 13
"""Tokens of the two samples: odd, so that no block of a kernel ends at their border."""
LEAK = 1e-6
"""Largest change of a probability (natural logarithm) that counts as none."""
DRIFT = 1e-4
"""Change that rounding alone may make, where products have other shapes..."""
DRIFT_SHARE = 0.05
"""...or this share of what reading the samples as one would make: 16-bit numbers round more."""

Read = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""(token ids, positions), each of one row -> logits of the row, float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """What was measured, as largest differences of log probabilities."""

    leak: float
    """Of the second sample when the first is another one."""
    drift: float
    """Of the second sample in the row and alone."""
    mixed: float
    """Of the second sample where positions do not restart: what a leak would look like."""

    @property
    def holds(self) -> bool:
        """Whether samples are apart, and read as if they were alone."""
        return self.leak < LEAK and self.drift < max(DRIFT, DRIFT_SHARE * self.mixed)


def measure(read: Read, vocabulary: int, *, device: Any = "cpu") -> Isolation:
    """Return how far apart two samples of a row are kept by ``read``."""
    draw = torch.Generator().manual_seed(20)
    first, other, second = (
        torch.randint(vocabulary, (length,), generator=draw) for length in (FIRST, FIRST, SECOND)
    )
    restarting = torch.cat([torch.arange(FIRST), torch.arange(SECOND)])

    def of_second(before: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        row = torch.cat([before, second]).to(device)
        return read(row, positions.to(device))[len(before) :].log_softmax(-1)

    together = of_second(first, restarting)
    return Isolation(
        leak=_most(together - of_second(other, restarting)),
        drift=_most(together - of_second(first[:0], torch.arange(SECOND))),
        mixed=_most(together - of_second(first, torch.arange(FIRST + SECOND))),
    )


def _most(difference: torch.Tensor) -> float:
    largest = float(difference.detach().abs().max())
    return largest if largest == largest else float("inf")


def reader(model: Any) -> Read:
    """Return how the trainer reads a packed row: positions, and no attention mask."""

    def read(ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = model(
            input_ids=ids[None], position_ids=positions[None], use_cache=False
        ).logits[0]
        return logits.float()

    return read


def prove(model: Any, *, attention: str, read: Read | None = None) -> Isolation:
    """Return the measurement of this model and attention; raise RequestError where it fails."""
    parameter = next(model.parameters())
    was_training = model.training
    model.eval()
    try:
        found = measure(
            read or reader(model),
            model.config.get_text_config().vocab_size,
            device=parameter.device,
        )
    finally:
        model.train(was_training)
    if not found.holds:
        refuse(model, found, attention=attention)
    return found


def refuse(model: Any, found: Isolation, *, attention: str) -> NoReturn:
    """Raise RequestError with what was measured."""
    raise RequestError(
        f"train.packing: with attn_impl {attention} this {model.config.model_type} model does "
        "not keep the samples of a row apart: exchanging one sample changes the log "
        f"probabilities of the next by {found.leak:.2g} (limit {LEAK:g}), and they differ by "
        f"{found.drift:.2g} from those of the sample alone; nearest: packing: false"
    )
