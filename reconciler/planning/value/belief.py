"""How long will a job run?  Beliefs learned from the jobs that ended, on line.

The logarithm of a duration is taken as normal.  Three sources are combined by precision: a prior
by size class (the next power of two of the gang) shrunk to the population by 20 pseudo-jobs, the
job's prediction and its limit, both corrected by their learned mean error and weighted by their
learned variance.  A limit's error is learned per rung: rounding to an hour makes one-minute jobs
look over-estimated sixtyfold, which says nothing about a limit of three days.
"""

from collections.abc import Mapping
from math import log

from reconciler.domain.value_state import Learned, Tally
from reconciler.planning.altered import altered
from reconciler.planning.value.fleet import JobFacts

SCALE = 1000.0
"""Tallies hold logarithms in thousandths."""
POPULATION_LN, POPULATION_VAR, POPULATION_JOBS = log(1800.0), 4.0, 20
SIZE_JOBS = 20
LIMIT_LN, LIMIT_VAR, LIMIT_JOBS = 1.0, 0.5, 10
PREDICTION_LN, PREDICTION_VAR, PREDICTION_JOBS = 0.0, 1.0, 10
LEAST_VAR = 0.01
PUBLISH_GROWTH = 0.02
"""Beliefs follow what was learned each time that many more jobs have ended."""


def size_class(gpus: int) -> str:
    """Return the next power of two, as text."""
    return str(1 << (gpus - 1).bit_length())


def rung(limit: int) -> str:
    """Return the limit's rung: half powers of two of seconds, as text."""
    return str(round(2.0 * log(limit, 2.0)))


def learn(learned: Learned, facts: JobFacts, served: int) -> Learned:
    """Return the statistics with one more ended job of ``served`` seconds."""
    duration = log(max(served, 1))
    sizes = dict(learned.sizes)
    key = size_class(facts.gpus)
    sizes[key] = _added(sizes.get(key, Tally()), duration)
    rungs: Mapping[str, Tally] = learned.rungs
    if facts.limit > 0:
        key = rung(facts.limit)
        rungs = {**rungs, key: _added(rungs.get(key, Tally()), log(facts.limit) - duration)}
    predictions = learned.predictions
    if facts.predicted > 0:
        predictions = _added(predictions, log(facts.predicted) - duration)
    return altered(
        learned,
        population=_added(learned.population, duration),
        sizes=sizes,
        rungs=rungs,
        predictions=predictions,
    )


def is_due(learned: Learned, published: Learned) -> bool:
    """True when beliefs should follow what was learned since they were last published."""
    return learned.population.n >= published.population.n * (1.0 + PUBLISH_GROWTH) + 1.0


class Beliefs:
    """What one set of statistics says of any job."""

    def __init__(self, learned: Learned) -> None:
        self._learned = learned
        self._population = _shrunk(
            learned.population, POPULATION_LN, POPULATION_VAR, POPULATION_JOBS
        )
        self._prediction = _shrunk(
            learned.predictions, PREDICTION_LN, PREDICTION_VAR, PREDICTION_JOBS
        )
        self._sizes: dict[str, tuple[float, float]] = {}
        self._rungs: dict[str, tuple[float, float]] = {}
        self._of_gpus: dict[int, tuple[float, float]] = {}
        self._of_limit: dict[int, tuple[float, float]] = {}

    def of(self, facts: JobFacts) -> tuple[float, float]:
        """Return mean and variance of the logarithm of the job's whole running time."""
        precision, total = self._weighed_prior(facts.gpus)
        if facts.predicted > 0:
            error, var = self._prediction
            precision += 1.0 / var
            total += (log(facts.predicted) - error) / var
        if facts.limit > 0:
            of_limit = self._weighed_limit(facts.limit)
            precision += of_limit[0]
            total += of_limit[1]
        return total / precision, 1.0 / precision

    def told(self, facts: JobFacts) -> tuple[float, float]:
        """Return the same without the prior, where the job says anything about itself.

        The shadow schedule uses it: a prior pulls the few long jobs that make a backlog down, and
        a waiting budget that is too low is far worse than one too high.
        """
        precision = total = 0.0
        if facts.predicted > 0:
            error, var = self._prediction
            precision = 1.0 / var
            total = (log(facts.predicted) - error) / var
        if facts.limit > 0:
            of_limit = self._weighed_limit(facts.limit)
            precision += of_limit[0]
            total += of_limit[1]
        if not precision:
            return self._prior(facts.gpus)
        return total / precision, 1.0 / precision

    def _weighed_prior(self, gpus: int) -> tuple[float, float]:
        """Return the precision of the prior, and its mean weighed by that."""
        known = self._of_gpus.get(gpus)
        if known is None:
            mean, var = self._prior(gpus)
            known = self._of_gpus[gpus] = (1.0 / var, mean / var)
        return known

    def _weighed_limit(self, limit: int) -> tuple[float, float]:
        """Return the precision of what a limit says, and its mean weighed by that."""
        known = self._of_limit.get(limit)
        if known is None:
            error, var = self._rung(limit)
            known = self._of_limit[limit] = (1.0 / var, (log(limit) - error) / var)
        return known

    def _prior(self, gpus: int) -> tuple[float, float]:
        key = size_class(gpus)
        if key not in self._sizes:
            tally = self._learned.sizes.get(key, Tally())
            self._sizes[key] = _shrunk(tally, *self._population, SIZE_JOBS)
        return self._sizes[key]

    def _rung(self, limit: int) -> tuple[float, float]:
        key = rung(limit)
        if key not in self._rungs:
            tally = self._learned.rungs.get(key, Tally())
            self._rungs[key] = _shrunk(tally, LIMIT_LN, LIMIT_VAR, LIMIT_JOBS)
        return self._rungs[key]


def _added(tally: Tally, logarithm: float) -> Tally:
    value = round(SCALE * logarithm)
    return Tally(tally.n + 1, tally.total + value, tally.squares + value * value)


def _shrunk(tally: Tally, mean: float, var: float, jobs: int) -> tuple[float, float]:
    """Return mean and variance of the tally with ``jobs`` pseudo-jobs of ``mean`` and ``var``."""
    n = tally.n + jobs
    middle = (tally.total / SCALE + jobs * mean) / n
    squares = tally.squares / (SCALE * SCALE) + jobs * (var + mean * mean)
    return middle, max(squares / n - middle * middle, LEAST_VAR)
