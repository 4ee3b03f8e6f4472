"""How much longer must a job run, given how long it ran already?

The mean residual life of a log-normal duration cut off at the job's limit, in closed form:
E[d - a | a < d < L] = exp(m + v/2) (Q(za - s) - Q(zL - s)) / (Q(za) - Q(zL)) - a with
s = sqrt(v), zx = (ln x - m) / s and Q the upper tail of the normal distribution.  It takes the
place of the Gittins index: on the public traces the two are within noise of each other.

Service is rounded down to a grid of 3 %, so that a value can be kept until the job has crossed
into the next step and does not depend on how often it was asked for.
"""

from math import erfc, exp, floor, log, sqrt

from reconciler.planning.value.belief import Beliefs
from reconciler.planning.value.fleet import JobFacts

GRID_S = 60.0
GRID_STEP = log(1.03)
LEAST_S = 30.0
"""No job is believed to end sooner than this."""
OVERRUN_SHARE = 0.1
"""A job that outlived everything believed of it needs a tenth of what it ran."""
ROOT_HALF = sqrt(0.5)
_steps: dict[int, tuple[float, float]] = {}
"""By number, as they are asked for: the same in every process."""


class Life:
    """What is believed of one job's whole running time: a log-normal, cut at the limit.

    What does not hang on the service so far is worked out once.
    """

    __slots__ = ("_beyond", "_beyond_shifted", "_limit", "_mean", "_scale", "_spread")

    def __init__(self, mean: float, var: float, limit: float) -> None:
        """``limit`` 0: there is none."""
        self._mean, self._limit = mean, limit
        self._spread = spread = sqrt(var)
        beyond = (log(limit) - mean) / spread if limit > 0 else 40.0
        self._beyond, self._beyond_shifted = _upper(beyond), _upper(beyond - spread)
        self._scale = exp(mean + var / 2.0)

    def left(self, served: float) -> float:
        """Return the expected seconds left after ``served``."""
        limit = self._limit
        if 0 < limit <= served:
            return max(LEAST_S, OVERRUN_SHARE * served)
        if served > 0:
            before = (log(served) - self._mean) / self._spread
            mass = 0.5 * erfc(before * ROOT_HALF) - self._beyond
        else:
            mass = 1.0 - self._beyond
        if mass < 1e-12:
            left = OVERRUN_SHARE * served if served > 0 else exp(self._mean)
        else:
            upper = 0.5 * erfc((before - self._spread) * ROOT_HALF) if served > 0 else 1.0
            left = self._scale * (upper - self._beyond_shifted) / mass - served
        if limit > 0:
            left = min(left, limit - served)
        return max(left, LEAST_S)


def mean_residual(mean: float, var: float, limit: float, served: float) -> float:
    """Return the expected seconds left after ``served``; ``limit`` 0: there is none."""
    return Life(mean, var, limit).left(served)


class Residuals:
    """Mean residual lives under one set of beliefs, kept while the service stays in its step."""

    def __init__(self, beliefs: Beliefs) -> None:
        self.beliefs = beliefs
        self._kept: dict[str, tuple[JobFacts, float, float, float, Life]] = {}

    def of(self, facts: JobFacts, served: float) -> float:
        """Return the expected seconds left of a job with ``served`` useful seconds behind it."""
        kept = self._kept.get(facts.job)
        if kept is not None and kept[1] <= served < kept[2] and kept[0] is facts:
            return kept[3]
        low, high = step(served)
        if kept is not None and kept[0] is facts:
            life = kept[4]
        else:
            life = Life(*self.beliefs.of(facts), facts.limit)
        left = life.left(max(low, 0.0))
        self._kept[facts.job] = (facts, min(low, served), high, left, life)
        return left

    def lasts(self, facts: JobFacts) -> float:
        """Return up to which useful service what was last told of a job stays the same."""
        return self._kept[facts.job][2]

    def told(self, facts: JobFacts, served: float) -> float:
        """Return the expected seconds left by what the job says of itself, without the prior.

        Wherever too short a belief is worse than too long a one.
        """
        return mean_residual(*self.beliefs.told(facts), facts.limit, served)


def step(served: float) -> tuple[float, float]:
    """Return from where to where in seconds of service the step of the grid is."""
    number = floor(log((served + GRID_S) / GRID_S) / GRID_STEP + 1e-9) if served else 0
    known = _steps.get(number)
    if known is None:
        low = GRID_S * exp(number * GRID_STEP) - GRID_S
        high = GRID_S * exp((number + 1) * GRID_STEP) - GRID_S
        known = _steps[number] = (low, high)
    return known


def _upper(z: float) -> float:
    return 0.5 * erfc(z * ROOT_HALF)
