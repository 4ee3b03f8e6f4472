"""A price for each GPU-second, and what jobs would do if they had to pay it: a lower bound.

Take the limit of ``C`` GPUs away and charge ``p(t) >= 0`` a GPU-second instead.  A job then picks
the ``d`` seconds after its submission that cost least, a second t costing ``(t - r) / d + g p(t)``
(its share of the mean busy time, and the price).  What all jobs pay at least, less ``C`` times the
area under p, bounds the sum of ``M_j + d_j / 2 - r_j`` from below for every p; prices are raised
where more is asked for than there is, and lowered elsewhere.

The least cost of ``d`` seconds is itself bounded from below by ``theta d - integral (theta - c)+``
for any theta, so neither the cells nor the few steps that look for theta can make the bound wrong.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reconciler.simulate.asks import Ask

CELLS = 12_000
REFINEMENTS = 4
SCALES = (0.0, 0.02, 0.1, 0.25, 0.5, 0.75, 1.0)
"""Shares of the first prices that are tried before improving them."""

Floats = NDArray[np.float64]


def best_dual(
    jobs: Sequence[Ask], gpus: int, points: Sequence[tuple[float, float]], *, steps: int
) -> float:
    """Return the best bound on the mean found in ``steps`` steps from the prices of ``points``."""
    market = _Market(jobs, gpus, max(at for at, _ in points))
    first = market.sampled(points)
    tried = [(market.value(first * scale), scale) for scale in SCALES]
    (best, demand), scale = max(tried, key=lambda each: each[0][0])
    prices = first * scale
    at_best = prices
    stride = 0.1
    for _ in range(steps):
        prices = market.improved(at_best, demand, stride)
        value, wanted = market.value(prices)
        if value > best:
            best, demand, at_best = value, wanted, prices
            stride *= 1.3
        else:
            stride /= 2
    return best / len(jobs)


class _Market:
    """Jobs that buy seconds of equal cells."""

    def __init__(self, jobs: Sequence[Ask], gpus: int, until_s: float) -> None:
        self._gpus = gpus
        self._first = float(min(job.submit_s for job in jobs))
        last = max(until_s, max(job.submit_s + job.duration_s for job in jobs))
        self._cell = (last - self._first) / CELLS
        self._jobs = [
            (float(job.submit_s) - self._first, float(job.duration_s), float(job.gpus))
            for job in jobs
        ]

    def sampled(self, points: Sequence[tuple[float, float]]) -> Floats:
        """Return the price in the middle of each cell; 0 after the last point."""
        middles = self._first + (np.arange(CELLS) + 0.5) * self._cell
        at, price = np.array([p[0] for p in points]), np.array([p[1] for p in points])
        return _ending_free(np.asarray(np.interp(middles, at, price, right=0.0), dtype=float))

    def improved(self, prices: Floats, demand: Floats, stride: float) -> Floats:
        """Return prices moved along the excess demand, never below 0."""
        capacity = self._gpus * self._cell
        excess = (demand - capacity) / capacity
        scale = float(prices[prices > 0].mean()) if (prices > 0).any() else 1e-6
        moved = np.maximum(prices + stride * scale * np.clip(excess, -1, 3), 0.0)
        return _ending_free(np.asarray(moved))

    def value(self, prices: Floats) -> tuple[float, Floats]:
        """Return the dual's value, summed over jobs, and the GPU-seconds asked for by cell."""
        demand = np.zeros(CELLS)
        total = -self._gpus * float(prices.sum()) * self._cell
        for submit, span, width in self._jobs:
            total += span / 2 + self._cheapest(prices, demand, submit, span, width)
        return total, demand

    def _cheapest(
        self, prices: Floats, demand: Floats, submit: float, span: float, width: float
    ) -> float:
        """Return at most what the cheapest ``span`` seconds cost; add what they ask for."""
        cell = self._cell
        begin = min(int(submit / cell), CELLS - 1)
        until = min(int((submit + span) / cell) + 1, CELLS)
        highest = 1.0 + width * float(prices[begin:until].max())
        end = min(int((submit + span * highest) / cell) + 1, CELLS)
        at = np.arange(begin, end)
        starts = np.maximum(at * cell, submit)
        lengths = (at + 1) * cell - starts
        if end == CELLS:
            lengths[-1] = max(lengths[-1], span * highest)  # time goes on, for nothing
        costs = (starts - submit) / span + width * prices[begin:end]
        middles = costs + lengths / (2 * span)
        cheapest = np.argsort(middles, kind="stable")
        last = int(np.searchsorted(np.cumsum(lengths[cheapest]), span))
        theta = float(middles[cheapest[min(last, len(cheapest) - 1)]])
        for _ in range(REFINEMENTS):
            used = np.clip((theta - costs) * span, 0.0, lengths)
            surplus = float(used.sum()) - span
            cut = float(((used > 0) & (used < lengths)).sum())
            if abs(surplus) <= 1e-6 * span or cut == 0:
                break
            theta -= surplus / span / max(cut, 1.0)
        theta = min(theta, highest)  # what lies beyond the last cell looked at costs no less
        used = np.clip((theta - costs) * span, 0.0, lengths)
        paid = float((used * (theta - costs) - used * used / (2 * span)).sum())
        demand[begin:end] += used * width
        return theta * span - paid


def _ending_free(prices: Floats) -> Floats:
    """Return prices that are 0 in the last cell, which stands for all the time after it too."""
    prices[-1] = 0.0
    return prices
