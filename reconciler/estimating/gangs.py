"""Which gang sizes a job may have, and which is the smallest that fits.

A size is legal where tensor x pipeline x context x expert ranks divide it and the global batch,
which stays the same at every size, divides over its replicas; it is possible where it fits.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from reconciler.estimating.constants import Constants
from reconciler.estimating.estimate import Estimate, estimate, resized
from reconciler.estimating.hardware import Gpu
from reconciler.estimating.training import Training


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One legal gang with what is expected of it."""

    gpus: int
    estimate: Estimate


def legal_sizes(training: Training, *, smallest: int, largest: int) -> tuple[int, ...]:
    """Return the gang sizes from ``smallest`` to ``largest`` that keep the global batch."""
    return tuple(gpus for gpus in range(smallest, largest + 1) if _is_legal(training, gpus))


def _is_legal(training: Training, gpus: int) -> bool:
    layout = training.layout
    if gpus % (layout.tensor * layout.pipeline * layout.context * layout.expert):
        return False
    try:
        resized(training, gpus)
    except ValueError:
        return False
    return True


def sizes(
    training: Training, gpu: Gpu, constants: Constants, gang: Iterable[int]
) -> tuple[Size, ...]:
    """Return an estimate for each legal size of ``gang`` that fits, smallest first."""
    found = []
    for gpus in sorted(set(gang)):
        if not _is_legal(training, gpus):
            continue
        one = estimate(resized(training, gpus), gpu, constants)
        if one.fit.fits:
            found.append(Size(gpus=gpus, estimate=one))
    return tuple(found)


def smallest_gang(
    training: Training, gpu: Gpu, constants: Constants, *, largest: int
) -> Size | None:
    """Return the smallest legal gang of at most ``largest`` GPUs that fits, or None."""
    for gpus in range(1, largest + 1):
        if _is_legal(training, gpus):
            one = estimate(resized(training, gpus), gpu, constants)
            if one.fit.fits:
                return Size(gpus=gpus, estimate=one)
    return None
