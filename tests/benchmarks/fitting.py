"""Fits a few named numbers to measurements: coordinate descent on logarithms, with priors.

Every number starts from what a person derived or read (the default of its class) and moves
only as far as the measurements pay for it; ``WIDTHS`` says how sure that start is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

CLIP = 0.35
"""Errors beyond this (in logarithms) count the same: an odd row does not steer the fit."""
PRIOR = 0.012
"""Cost of moving every number by one width, in units of mean absolute log error."""
FIRST_STEP, LAST_STEP = 0.4, 0.03


@dataclass(frozen=True)
class Fitted:
    """The values found and the mean clipped error they leave."""

    values: Mapping[str, float]
    error: float


def fit(
    start: Mapping[str, float],
    widths: Mapping[str, float],
    residuals: Callable[[Mapping[str, float]], Sequence[float]],
) -> Fitted:
    """Return values near ``start`` that make ``residuals`` (log ratios) small."""
    names = sorted(start)
    moves = dict.fromkeys(names, 0.0)

    def values() -> dict[str, float]:
        return {name: start[name] * exp(moves[name]) for name in names}

    def cost() -> float:
        errors = residuals(values())
        prior = sum((moves[name] / widths.get(name, 0.5)) ** 2 for name in names) / len(names)
        return sum(min(abs(error), CLIP) for error in errors) / len(errors) + PRIOR * prior

    best, step = cost(), FIRST_STEP
    while step >= LAST_STEP:
        improved = False
        for name in names:
            for change in (step, -step):
                moves[name] += change
                found = cost()
                if found < best - 1e-6:
                    best, improved = found, True
                    break
                moves[name] -= change
        if not improved:
            step /= 2
    return Fitted(values=values(), error=best)


def log_ratio(predicted: float, measured: float) -> float:
    """Return log(predicted / measured)."""
    return log(predicted / measured)


def numbers_of(value: Any) -> dict[str, float]:
    """Return the fields of a constants value."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least ``share`` of ``values`` do not exceed."""
    ordered = sorted(values)
    index = min(int(share * len(ordered)), len(ordered) - 1)
    return ordered[index]
