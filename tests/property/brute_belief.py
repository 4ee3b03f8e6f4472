"""What the value order believes of a job, worked out anew each time: for tiny fleets only.

Written from ``docs/planning-policy.md`` (belief, residual, rank); nothing is shared with the
planner but the values.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import erfc, exp, floor, log, sqrt

from reconciler.planning.value.fleet import JobFacts

CLOSE = 1e-9
"""Numbers nearer to each other than this share are equal to a plain reader."""


class CloseCallError(Exception):
    """Two numbers that decide are equal but for rounding: nobody can say who is right."""


@dataclass(frozen=True)
class Past:
    """A job that ended: what was known of it, and how long it ran."""

    gpus: int
    limit: int
    predicted: int
    ran: int


@dataclass
class Reader:
    """Reads one job at one instant."""

    past: Sequence[Past]
    now: int
    budget: float
    """The waiting budget of the fleet, in seconds."""

    def belief(self, job: JobFacts, *, prior: bool = True) -> tuple[float, float]:
        """Return mean and variance of ln(duration)."""
        told = []
        if job.predicted:
            errors = [thousandths(log(p.predicted) - log(p.ran)) for p in self.past if p.predicted]
            mean, var = with_pseudo_jobs(errors, 0.0, 1.0, 10)
            told.append((log(job.predicted) - mean, var))
        if job.limit:
            rung = round(2 * log(job.limit, 2))
            errors = [
                thousandths(log(p.limit) - log(p.ran))
                for p in self.past
                if p.limit and round(2 * log(p.limit, 2)) == rung
            ]
            mean, var = with_pseudo_jobs(errors, 1.0, 0.5, 10)
            told.append((log(job.limit) - mean, var))
        if prior or not told:
            everybody = [thousandths(log(p.ran)) for p in self.past]
            alike = [
                thousandths(log(p.ran))
                for p in self.past
                if power_of_two(p.gpus) == power_of_two(job.gpus)
            ]
            population = with_pseudo_jobs(everybody, log(1800), 4.0, 20)
            told.append(with_pseudo_jobs(alike, *population, 20))
        precision = sum(1 / var for _, var in told)
        return sum(mean / var for mean, var in told) / precision, 1 / precision

    def served(self, job: JobFacts) -> int:
        return job.served + (max(self.now - job.since, 0) if job.held else 0)

    def left(self, job: JobFacts) -> float:
        """Return R, the mean residual life, on a 3 % grid of service."""
        step = floor(log((self.served(job) + 60) / 60) / log(1.03) + 1e-9)
        return residual(*self.belief(job), job.limit, max(60 * 1.03**step - 60, 0.0))

    def delay(self, job: JobFacts) -> int:
        until = min(job.since, self.now) if job.held else self.now - self.now % 120
        return max(until - job.arrived - job.served, 0)

    def bound(self, job: JobFacts) -> float:
        return min(self.budget, job.bound) if job.bound else self.budget

    def ageing(self, job: JobFacts) -> float:
        bound, delay = self.bound(job), self.delay(job)
        if job.deadline:
            slack = job.deadline - job.arrived - self.served(job) - self.left(job)
            if delay < slack < bound:
                bound = slack
        return max(1e-4, 1 - delay / bound)

    def score(self, job: JobFacts) -> float:
        return job.gpus * self.left(job) * self.ageing(job) / job.weight

    def rate(self, job: JobFacts) -> float:
        return job.weight / (self.left(job) * self.ageing(job))


def residual(mean: float, var: float, limit: int, served: float) -> float:
    """E[d - a | a < d < L] of a log-normal duration, at least 30 s."""
    if 0 < limit <= served:
        return max(30.0, served / 10)
    spread = sqrt(var)

    def beyond(x: float, shift: float) -> float:
        return 0.5 * erfc(((log(x) - mean) / spread - shift) / sqrt(2))

    def mass(shift: float) -> float:
        above = beyond(served, shift) if served > 0 else 1.0
        return above - (beyond(limit, shift) if limit else 0.0)

    if mass(0.0) < 1e-12:
        left = served / 10 if served > 0 else exp(mean)
    else:
        left = exp(mean + var / 2) * mass(spread) / mass(0.0) - served
    return max(min(left, limit - served) if limit else left, 30.0)


def with_pseudo_jobs(
    values: Sequence[float], mean: float, var: float, jobs: int
) -> tuple[float, float]:
    n = len(values) + jobs
    middle = (sum(values) + jobs * mean) / n
    squares = (sum(v * v for v in values) + jobs * (var + mean * mean)) / n
    return middle, max(squares - middle * middle, 0.01)


def thousandths(value: float) -> float:
    return round(1000 * value) / 1000


def power_of_two(gpus: int) -> int:
    power = 1
    while power < gpus:
        power *= 2
    return power


def less(one: float, other: float) -> bool:
    if one != other and abs(one - other) <= CLOSE * max(abs(one), abs(other)):
        raise CloseCallError
    return one < other


def before(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """True if the first pair is less: by rate, then by price."""
    for a, b in zip(one, other, strict=True):
        if abs(a - b) > CLOSE * max(abs(a), abs(b)):
            return a < b
    return False
