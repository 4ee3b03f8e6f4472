"""How sure a memory estimate is, and whether it fits: quantiles of measured error by class.

A flat 10 or 15 % is not a safety bound: on published runs the plain formulas miss that in a
third of all cases.  The margins here are quantiles that ``make calibrate`` measured.
"""

from dataclasses import dataclass
from enum import StrEnum

from reconciler.estimating.constants import Margin, Margins
from reconciler.estimating.hardware import Gpu
from reconciler.estimating.memory import Memory
from reconciler.estimating.training import Lengths, Offload, Sharding, Training


class Evidence(StrEnum):
    """Classes of runs whose errors were measured apart."""

    SINGLE = "single"
    """One GPU: nothing is gathered, reduced or sent, so its errors are the smallest."""
    EXACT = "exact"
    SHARDED = "sharded"
    VARIABLE = "variable"


class Verdict(StrEnum):
    FITS = "fits"
    TIGHT = "tight"
    """The p50 fits, the p90 does not: likely to run, not sure."""
    DOES_NOT_FIT = "does_not_fit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A verdict with the two numbers it rests on, GiB per GPU."""

    verdict: Verdict
    p50_gib: float
    p90_gib: float
    usable_gib: float
    factor: float
    """k of the class: refused where p50 x k is more than usable."""

    @property
    def fits(self) -> bool:
        """Return whether the run is expected to fit."""
        return self.verdict is not Verdict.DOES_NOT_FIT


ZERO = frozenset({Sharding.ZERO1, Sharding.ZERO2, Sharding.ZERO3})


def evidence(training: Training) -> Evidence:
    """Return the class a training's errors belong to."""
    if training.lengths is not Lengths.FIXED:
        return Evidence.VARIABLE
    if training.layout.gpus == 1 and training.offload is Offload.NONE:
        return Evidence.SINGLE
    return Evidence.SHARDED if training.layout.sharding in ZERO else Evidence.EXACT


def margin(training: Training, margins: Margins) -> Margin:
    """Return the margin of the training's class."""
    chosen: Margin = getattr(margins, evidence(training).value)
    return chosen


def fit(training: Training, estimate: Memory, gpu: Gpu, margins: Margins) -> Fit:
    """Return whether the estimated peak fits on ``gpu``, and how surely."""
    chosen = margin(training, margins)
    p50 = estimate.device_gib
    p90 = p50 * chosen.p90
    verdict = Verdict.FITS if p90 <= gpu.memory_gib else Verdict.TIGHT
    if p50 * chosen.fits > gpu.memory_gib:
        verdict = Verdict.DOES_NOT_FIT
    return Fit(
        verdict=verdict,
        p50_gib=p50,
        p90_gib=p90,
        usable_gib=gpu.memory_gib,
        factor=chosen.fits,
    )
