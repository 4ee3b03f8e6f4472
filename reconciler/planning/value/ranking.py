"""Who goes first?  Expected GPU-seconds to completion over weight, aged towards the budget.

score = gpus x R x max(least, 1 - D / W) / (weight x favour), low first.  D = now - arrived -
served is the delay so far; it does not grow while the job makes progress.  W is the waiting budget:
the fleet's, or the job's own bound or the slack of its deadline where that is smaller.  The favour
is what decayed fair use makes of the job's team: 1 where use is not counted.
"""

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from reconciler.domain.units import JobId
from reconciler.planning.table import Table
from reconciler.planning.value.fleet import JobFacts
from reconciler.planning.value.index import Residuals
from reconciler.planning.value.rules import Rules


@dataclass(frozen=True, slots=True)
class Valuation:
    """Everything needed to value one job at one instant."""

    now: int
    """Exact: service is counted to here."""
    ranked_at: int
    """Rounded down: delays are counted to here."""
    budget_s: float
    residuals: Residuals
    rules: Rules
    favour: Mapping[str, float] = field(default_factory=dict)
    """What fair use multiplies the weights of a team's jobs by, in ranks and nowhere else."""

    def served(self, facts: JobFacts) -> int:
        """Return the job's useful running time so far, in seconds."""
        if facts.held and self.now > facts.since:
            return facts.served + self.now - facts.since
        return facts.served

    def left(self, facts: JobFacts) -> float:
        """Return the job's expected seconds to completion."""
        return self.residuals.of(facts, self.served(facts))

    def delay(self, facts: JobFacts) -> int:
        """Return how long the job has waited so far, stops and restores included."""
        until = min(facts.since, self.now) if facts.held else self.ranked_at
        return max(until - facts.arrived - facts.served, 0)

    def budget(self, facts: JobFacts) -> float:
        """Return the waiting budget of one job: at its end it becomes firm."""
        return min(self.budget_s, facts.bound) if facts.bound else self.budget_s

    def ageing(self, facts: JobFacts, left: float) -> float:
        """Return the factor in (0, 1] that shrinks with the budget that is used up."""
        delay = self.delay(facts)
        budget = self.budget(facts)
        if facts.deadline:
            slack = facts.deadline - facts.arrived - self.served(facts) - left
            if delay < slack < budget:
                budget = slack
        return max(self.rules.least_ageing, 1.0 - delay / budget)

    def score(self, facts: JobFacts) -> float:
        """Return aged expected GPU-seconds over weight, favoured by fair use."""
        left = self.left(facts)
        score = facts.gpus * left * self.ageing(facts, left) / facts.weight
        return score / self.favour_of(facts) if self.favour else score

    def favour_of(self, facts: JobFacts) -> float:
        """Return the factor of the job's team."""
        found = self.favour.get(facts.job.split("/", 1)[0])
        return self.favour.get("", 1.0) if found is None else found

    def rate(self, facts: JobFacts) -> float:
        """Return aged weighted completions per second: what its progress is worth.

        Fair use has no part in it, so what running uses up never makes two jobs stop each other.
        """
        left = self.left(facts)
        return facts.weight / (left * self.ageing(facts, left))


_Key: TypeAlias = tuple[int, float, int, JobId]
Scores: TypeAlias = Callable[[Sequence[JobFacts], Valuation], list[float]]


@dataclass(slots=True)
class Ranking:
    """The ranking of the last call: what is ranked under the same valuation is not valued again."""

    stands_for: tuple[object, ...] = ()
    firm: frozenset[JobId] = frozenset()
    line: Table[JobId, JobFacts] | None = None
    """Who was ranked, where that was told as a table."""
    known: dict[JobId, tuple[JobFacts, _Key]] = field(default_factory=dict)
    keys: list[_Key] = field(default_factory=list)
    """Of everybody in ``known``, sorted."""
    order: list[JobFacts] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    """The same jobs and the numbers of their shapes, as the keys are sorted."""
    scores: dict[JobId, float] = field(default_factory=dict)
    shapes: list[int] = field(default_factory=list)
    """The number of the shape of each job that was asked about: jobs of one number ask for the
    same, as far as the pass can tell."""
    _numbers: dict[tuple[object, ...], int] = field(default_factory=dict)

    def under(self, valuation: Valuation, firm: Mapping[JobId, object]) -> "Ranking":
        """Return itself, emptied where the valuation ranks by something else than before."""
        stands_for = (
            valuation.ranked_at,
            valuation.budget_s,
            valuation.residuals,
            valuation.rules,
            valuation.favour,
        )
        if stands_for != self.stands_for or firm.keys() != self.firm:
            self.stands_for, self.firm = stands_for, frozenset(firm)
            self.known, self.scores, self.line = {}, {}, None
        return self

    def follow(self, line: Table[JobId, JobFacts], valuation: Valuation) -> bool:
        """Rank everybody in line by looking at who changed; False where that is not known."""
        changed = None if self.line is None else self.line.changed_in(line)
        self.line = line
        if changed is None:
            return False
        for job in changed:
            old, facts = self.known.pop(job, None), line.get(job)
            if old is not None:
                at = bisect_left(self.keys, old[1])
                del self.keys[at], self.order[at], self.numbers[at], self.scores[job]
            if facts is not None:
                score = self.scores[job] = valuation.score(facts)
                key = _key(facts, score, self.firm)
                self.known[job] = (facts, key)
                at = bisect_left(self.keys, key)
                self.keys.insert(at, key)
                self.order.insert(at, facts)
                self.numbers.insert(at, self._number(facts))
        return True

    def rank(self, waiting: Iterable[JobFacts], valuation: Valuation, scores: Scores) -> None:
        """Rank everybody anew, but for those that are known."""
        before, known, found = self.known, self.scores, {}
        new: list[JobFacts] = []
        for facts in waiting:
            old = before.get(facts.job)
            if old is None or old[0] is not facts:
                new.append(facts)
            else:
                found[facts.job] = (facts, known[facts.job])
        for facts, score in zip(new, scores(new, valuation), strict=True):
            found[facts.job] = (facts, score)
        line = sorted(found.values(), key=_by_score)  # nearly as the keys are: they sort at once
        keyed = sorted([_key(facts, score, self.firm) for facts, score in line])
        self.keys = keyed
        self.order = [found[key[3]][0] for key in keyed]
        self.numbers = [self._number(facts) for facts in self.order]
        self.scores = {facts.job: score for facts, score in line}
        self.known = {key[3]: (found[key[3]][0], key) for key in keyed}

    def _number(self, facts: JobFacts) -> int:
        shape = (facts.gpus, facts.pools, facts.within, facts.preemptible, facts.level)
        return self._numbers.setdefault(shape, len(self._numbers))


def ranked(
    waiting: Sequence[JobFacts],
    valuation: Valuation,
    firm: Mapping[JobId, object],
    before: Ranking | None = None,
    line: Table[JobId, JobFacts] | None = None,
    scores: Scores | None = None,
) -> tuple[list[JobFacts], dict[JobId, float]]:
    """Return the waiting jobs in the order to consider them, and their scores.

    Jobs in a rush first, then firm ones, the most delayed first, then everybody by score.
    ``before`` saves work: a waiting job's score hangs on its facts and on what ``Ranking.under``
    compares, not on the exact instant.  ``line`` are those of ``waiting``, and perhaps more.
    ``scores`` values many at once.
    """
    ranking = (before or Ranking()).under(valuation, firm)
    many = scores or _one_by_one
    if line is None:
        ranking.line = None
        ranking.rank(waiting, valuation, many)
    elif not ranking.follow(line, valuation):
        ranking.rank(line.values(), valuation, many)
    order, found = ranking.order, ranking.scores
    if len(waiting) == len(order):
        ranking.shapes = ranking.numbers.copy()
        return order.copy(), found.copy()
    asked = {facts.job for facts in waiting}
    ranking.shapes = [
        number for facts, number in zip(order, ranking.numbers, strict=True) if facts.job in asked
    ]
    order = [facts for facts in order if facts.job in asked]
    return order, {facts.job: found[facts.job] for facts in order}


def _one_by_one(waiting: Sequence[JobFacts], valuation: Valuation) -> list[float]:
    return [valuation.score(facts) for facts in waiting]


def _by_score(pair: tuple[JobFacts, float]) -> float:
    return pair[1]


def _key(facts: JobFacts, score: float, firm: Container[JobId]) -> _Key:
    if facts.rush:
        return 0, 0.0, facts.arrived, facts.job
    if facts.job in firm:
        return 1, 0.0, facts.arrived + facts.served, facts.job
    return 2, score, facts.arrived, facts.job
