"""Of a plan over time, the place that ends first: the first one spread, or a later one together.

The order by score asks it for every contender whose first place is further apart than need be.
What it chooses is booked like any place, so nobody ranked below can take it away.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from reconciler.domain.units import Instant, JobId
from reconciler.planning.board import Board, Contender, Place
from reconciler.planning.shapes import Shapes
from reconciler.planning.spread import Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Closer:
    """Chooses between the places of one plan over time."""

    spread: Spread
    shapes: Shapes
    patience: Mapping[JobId, Instant]
    """Until when jobs may wait for a better place that could have started spread."""

    def __call__(self, contender: Contender, found: Place, board: Board) -> Place:
        """Return the place with which the contender ends first, told with its true end."""
        request = contender.spec.gpus
        factor = self.spread.factor(request, found.devices)
        if factor <= 1.0:
            return found
        best = replace(found, end=_end(contender, found.start, factor))
        patience = self.patience.get(contender.job)
        if contender.hold is not None or (patience is not None and patience <= board.now):
            return best
        for narrower in self.spread.narrower(request):
            kept = replace(
                contender,
                spec=replace(contender.spec, gpus=narrower),
                shape=self.shapes.of(narrower),
            )
            other = board.find(kept, not_before=found.start, duration_s=contender.left.p50)
            if other is None or (patience is not None and other.start > patience):
                continue
            factor = self.spread.factor(request, other.devices)
            end = _end(contender, other.start, factor)
            if end < best.end:
                best = replace(other, end=end)
        return best

    def may_wait_until(self, contender: Contender, devices: int, now: Instant) -> Instant:
        """Return until when a job may hold off that could start on ``devices`` now: no longer
        than being spread on them would cost it, from when it first did."""
        known = self.patience.get(contender.job)
        if known is not None:
            return known
        factor = self.spread.factor(contender.spec.gpus, devices)
        return Instant(now + int(contender.left.p50 * (factor - 1.0)))


def _end(contender: Contender, start: Instant, factor: float) -> Instant:
    return Instant(start + contender.left.times(factor).p50)
