"""The scores of ten thousand waiting jobs at once, to the last digit what they are one by one.

New beliefs value everybody anew, and a long line makes that the dearest moment of a day.  Sums,
products and roots are the same numbers in columns; logarithms, exponentials and tails of the normal
distribution are asked of ``math`` as ever, since another library's may differ in the last digit.
Whoever needs a case of his own (a deadline, a limit that is over, a certainty) is valued alone.
"""

from collections.abc import Iterable, Sequence
from math import erfc, exp, log
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from reconciler.planning.value.fleet import JobFacts
from reconciler.planning.value.index import LEAST_S, ROOT_HALF, Residuals, step
from reconciler.planning.value.ranking import Valuation

Column: TypeAlias = npt.NDArray[Any]
FEW = 300
"""So few jobs are sooner valued one by one: what is known of each is kept, and columns are made
anew."""


def scores(waiting: Sequence[JobFacts], valuation: Valuation) -> list[float]:
    """Return ``Valuation.score`` of each; none of them holds devices."""
    if len(waiting) < FEW or any(facts.held for facts in waiting):
        return [valuation.score(facts) for facts in waiting]
    return in_columns(waiting, valuation)


def in_columns(waiting: Sequence[JobFacts], valuation: Valuation) -> list[float]:
    """Return the same, whatever their number."""
    left, is_odd = _left(waiting, valuation.residuals)
    gpus = _column(facts.gpus for facts in waiting)
    weight = _column(facts.weight for facts in waiting)
    found: list[float] = (gpus * left * _ageing(waiting, valuation) / weight).tolist()
    for at, facts in enumerate(waiting):
        if is_odd[at] or facts.deadline:
            found[at] = valuation.score(facts)
        elif valuation.favour:
            found[at] /= valuation.favour_of(facts)
    return found


def _ageing(waiting: Sequence[JobFacts], valuation: Valuation) -> Column:
    """Return ``Valuation.ageing`` of each that has no deadline."""
    delay = np.maximum(
        _column(valuation.ranked_at - facts.arrived - facts.served for facts in waiting), 0.0
    )
    bound = _column(facts.bound for facts in waiting)
    budget = np.where(bound > 0, np.minimum(valuation.budget_s, bound), valuation.budget_s)
    return np.maximum(valuation.rules.least_ageing, 1.0 - delay / budget)


def _left(waiting: Sequence[JobFacts], residuals: Residuals) -> tuple[Column, Column]:
    """Return ``Residuals.of`` of each, and who has to be asked about alone."""
    believed = np.array([residuals.beliefs.of(facts) for facts in waiting])
    mean, var = believed[:, 0], believed[:, 1]
    limit = _column(facts.limit for facts in waiting)
    served = _column(_from(facts.served) for facts in waiting)
    spread, is_bound, has_run = np.sqrt(var), limit > 0, served > 0
    beyond = np.full(len(mean), 40.0)
    beyond[is_bound] = (_each(log, limit[is_bound]) - mean[is_bound]) / spread[is_bound]
    mass, weight = np.ones(len(mean)), np.ones(len(mean))
    before = (_each(log, served[has_run]) - mean[has_run]) / spread[has_run]
    mass[has_run] = _upper(before)
    weight[has_run] = _upper(before - spread[has_run])
    mass = mass - _upper(beyond)
    weight = weight - _upper(beyond - spread)
    is_odd = (mass < 1e-12) | (is_bound & (limit <= served))
    left = _each(exp, mean + var / 2.0) * weight / np.where(is_odd, 1.0, mass) - served
    left = np.where(is_bound, np.minimum(left, limit - served), left)
    return np.maximum(left, LEAST_S), is_odd


def _from(served: int) -> float:
    """Return the service a value is worked out for: where its step of the grid begins."""
    return max(step(served)[0], 0.0) if served else 0.0


def _upper(z: Column) -> Column:
    return 0.5 * _each(erfc, z * ROOT_HALF)


def _each(function: Any, values: Column) -> Column:
    return np.array(list(map(function, values.tolist())), np.float64)


def _column(values: Iterable[float]) -> Column:
    return np.array(list(values), np.float64)
