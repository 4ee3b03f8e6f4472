"""Who goes first?  Expected GPU-seconds to completion over weight, aged towards the budget.

score = gpus x R x max(least, 1 - D / W) / (weight x favour), low first.  D = now - arrived -
served is the delay so far; it does not grow while the job makes progress.  W is the waiting budget:
the fleet's, or the job's own bound or the slack of its deadline where that is smaller.  The favour
is what decayed fair use makes of the job's team: 1 where use is not counted.
"""

from bisect import bisect_left, insort
from collections.abc import Container, Iterable, Mapping, Sequence
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
_Entry: TypeAlias = tuple[JobFacts, float, _Key, int]
"""Facts, score, key, and the number of the shape."""


@dataclass(slots=True)
class Ranking:
    """The ranking of the last call: what is ranked under the same valuation is not valued again."""

    stands_for: tuple[object, ...] = ()
    firm: frozenset[JobId] = frozenset()
    line: Table[JobId, JobFacts] | None = None
    """Who was ranked, where that was told as a table."""
    known: dict[JobId, _Entry] = field(default_factory=dict)
    keys: list[_Key] = field(default_factory=list)
    """Of everybody in ``known``, sorted."""
    shapes: list[int] = field(default_factory=list)
    """The number of the shape of each ranked job: jobs of one number ask for the same, as far as
    the pass can tell."""
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
            self.known, self.keys, self.line = {}, [], None
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
                del self.keys[bisect_left(self.keys, old[2])]
            if facts is not None:
                entry = self.known[job] = self._entry(facts, valuation)
                insort(self.keys, entry[2])
        return True

    def rank(self, waiting: Iterable[JobFacts], valuation: Valuation) -> None:
        """Rank everybody anew, but for those that are known."""
        before, found = self.known, {}
        for facts in waiting:
            entry = before.get(facts.job)
            if entry is None or entry[0] is not facts:
                entry = self._entry(facts, valuation)
            found[facts.job] = entry
        self.known = found
        self.keys = sorted([entry[2] for entry in found.values()])

    def _entry(self, facts: JobFacts, valuation: Valuation) -> _Entry:
        score = valuation.score(facts)
        shape = (facts.gpus, facts.pools, facts.within, facts.preemptible, facts.level)
        number = self._numbers.setdefault(shape, len(self._numbers))
        return facts, score, _key(facts, score, self.firm), number


def ranked(
    waiting: Sequence[JobFacts],
    valuation: Valuation,
    firm: Mapping[JobId, object],
    before: Ranking | None = None,
    line: Table[JobId, JobFacts] | None = None,
) -> tuple[list[JobFacts], dict[JobId, float]]:
    """Return the waiting jobs in the order to consider them, and their scores.

    Jobs in a rush first, then firm ones, the most delayed first, then everybody by score.
    ``before`` saves work: a waiting job's score hangs on its facts and on what ``Ranking.under``
    compares, not on the exact instant.  ``line`` are those of ``waiting``, and perhaps more.
    """
    ranking = (before or Ranking()).under(valuation, firm)
    if line is None:
        ranking.line = None
        ranking.rank(waiting, valuation)
    elif not ranking.follow(line, valuation):
        ranking.rank(line.values(), valuation)
    known = ranking.known
    entries = [known[key[3]] for key in ranking.keys]
    if len(waiting) < len(entries):
        asked = {facts.job for facts in waiting}
        entries = [entry for entry in entries if entry[0].job in asked]
    ranking.shapes = [entry[3] for entry in entries]
    return [entry[0] for entry in entries], {entry[0].job: entry[1] for entry in entries}


def _key(facts: JobFacts, score: float, firm: Container[JobId]) -> _Key:
    if facts.rush:
        return 0, 0.0, facts.arrived, facts.job
    if facts.job in firm:
        return 1, 0.0, facts.arrived + facts.served, facts.job
    return 2, score, facts.arrived, facts.job
