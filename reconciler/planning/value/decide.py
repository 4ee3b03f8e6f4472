"""The value order: what to start and whom to stop, from one fleet and one recorded state.

Pure: equal inputs give equal choices in every process, whatever order the jobs come in, and a memo
only saves work.  The steps: learn from who ended; let the shadow schedule catch up, which gives
the waiting budget; mark firm jobs; rank; one pass.  ``docs/planning-policy.md`` says why.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from reconciler.domain.units import JobId
from reconciler.domain.value_state import Learned, Shadow, ValueState
from reconciler.planning.altered import altered
from reconciler.planning.table import Table
from reconciler.planning.value import many
from reconciler.planning.value.belief import Beliefs, is_due, learn
from reconciler.planning.value.counts import FreeCounts
from reconciler.planning.value.firm import guarded
from reconciler.planning.value.fleet import Choices, Ended, Fleet, JobFacts, Nodes
from reconciler.planning.value.index import Residuals
from reconciler.planning.value.passing import Pass
from reconciler.planning.value.ranking import Ranking, Valuation, ranked
from reconciler.planning.value.rules import RULES, Rules
from reconciler.planning.value.shadow import Guess, ShadowSchedule
from reconciler.planning.value.stock import Stock

_job = attrgetter("job")


@dataclass(slots=True)
class ValueMemo:
    """What saves work from one cycle to the next: the shadow's working form, beliefs, residuals.

    Each is used only while it stands for exactly the value that was passed in.
    """

    schedule: ShadowSchedule | None = None
    believed: Learned | None = None
    beliefs: Beliefs = field(default_factory=lambda: Beliefs(Learned()))
    residuals: Residuals = field(default_factory=lambda: Residuals(Beliefs(Learned())))
    ranking: Ranking = field(default_factory=Ranking)
    stock: Stock = field(default_factory=Stock)
    counts: FreeCounts | None = None
    seen: tuple[Shadow, Table[JobId, JobFacts]] | None = None
    """The last shadow, and everybody it was told of then."""
    doubtful: frozenset[JobId] = frozenset()
    """Who may have to be told to that shadow, or taken out of it, although nothing changed."""

    def counted(self, fleet: Fleet) -> FreeCounts:
        """Return what is free in working form, to change."""
        kept, self.counts = self.counts, None
        if kept is None or kept.nodes is not fleet.nodes:
            return FreeCounts(fleet.nodes, fleet.free)
        kept.become(fleet.free)
        return kept

    def came_or_went(self, shadow: Shadow, fleet: Fleet) -> set[JobId] | None:
        """Return who may be new to ``shadow`` or gone from it; None: anybody."""
        if self.seen is None or fleet.everybody is None or self.seen[0] is not shadow:
            return None
        changed = self.seen[1].changed_in(fleet.everybody)
        if changed is None:
            return None
        return changed.union(self.doubtful, (facts.job for facts in fleet.comes_back))

    def at(self, state: ValueState, nodes: Nodes) -> ShadowSchedule:
        """Return the shadow of ``state`` in its working form."""
        kept = self.schedule
        if kept is None or kept.stands_for is not state.shadow or kept.nodes is not nodes:
            self.schedule = kept = ShadowSchedule(state.shadow, nodes)
        return kept

    def under(self, believed: Learned) -> Residuals:
        """Return the mean residual lives under these statistics."""
        if believed is not self.believed and believed != self.believed:
            self.beliefs = Beliefs(believed)
            self.residuals = Residuals(self.beliefs)
        self.believed = believed
        return self.residuals


def decide(
    fleet: Fleet,
    state: ValueState,
    now: int,
    rules: Rules = RULES,
    memo: ValueMemo | None = None,
) -> Choices:
    """Return what to start and to stop at ``now``, and what to remember from here on.

    ``state`` is what was last recorded; the state of the choices counts only once it is.
    """
    memo = memo or ValueMemo()
    live = _live(fleet)
    state = _learned(state, fleet.ended)
    residuals = memo.under(state.believed)
    sizes = fleet.nodes.sizes
    total = sum(sizes) - sum(sizes[row] for row in fleet.shut)
    valuation = Valuation(
        now=now,
        ranked_at=now - now % rules.rerank_every_s,
        budget_s=float(rules.least_budget_s),
        residuals=residuals,
        rules=rules,
        favour=fleet.favour,
    )
    state, budget = _shadowed(state, fleet, live, valuation, memo)
    budget = max(budget, state.relieved_s, rules.least_budget_s)
    valuation = altered(valuation, budget_s=budget)
    state, relieved = guarded(state, fleet.waiting, live, valuation, total)
    if relieved > budget:
        valuation = altered(valuation, budget_s=relieved)
        state = altered(state, relieved_s=int(relieved))
    if not fleet.waiting:
        return Choices(
            starts=(),
            stops=(),
            state=state,
            firm=frozenset(state.firm),
            budget_s=int(relieved),
        )
    order, scores = ranked(
        fleet.waiting, valuation, state.firm, memo.ranking, fleet.line, many.scores
    )
    firm = dict(state.firm)
    one = Pass(
        fleet=fleet,
        valuation=valuation,
        firm=firm,
        scores=scores,
        counts=memo.counted(fleet),
        stock=memo.stock,
    )
    one.run(order, memo.ranking.shapes)
    memo.counts = one.counts
    if one.firm != state.firm:
        state = altered(state, firm=one.firm)
    return Choices(
        starts=tuple(one.starts),
        stops=tuple(sorted(one.stopped)),
        state=state,
        ranking=tuple(map(_job, order)),
        scores=scores,
        firm=frozenset(state.firm),
        budget_s=int(relieved),
    )


def _live(fleet: Fleet) -> dict[JobId, JobFacts]:
    """Return everybody by job, not to be changed."""
    if fleet.everybody is None:
        everybody = (*fleet.waiting, *fleet.running, *fleet.aside)
        return dict(zip(map(_job, everybody), everybody, strict=True))
    live = fleet.everybody.read()
    if fleet.comes_back:
        live = {**live, **{facts.job: facts for facts in fleet.comes_back}}
    return live


def _learned(state: ValueState, ended: Sequence[Ended]) -> ValueState:
    learned = state.learned
    for each in sorted(ended, key=lambda each: each.facts.job):
        if each.learns:
            learned = learn(learned, each.facts, each.served)
    if learned is state.learned:
        return state
    believed = learned if is_due(learned, state.believed) else state.believed
    return altered(state, learned=learned, believed=believed)


def _shadowed(
    state: ValueState,
    fleet: Fleet,
    live: dict[JobId, JobFacts],
    valuation: Valuation,
    memo: ValueMemo,
) -> tuple[ValueState, float]:
    """Return the state with the shadow advanced to now, and the longest wait in it so far and as
    far as those that wait in it are forecast to."""
    known = state.shadow.jobs
    among = memo.came_or_went(state.shadow, fleet)
    if among is None:
        came, went = live.keys() - known.keys(), known.keys() - live.keys()
    else:
        came = {job for job in among if job in live and job not in known}
        went = {job for job in among if job in known and job not in live}
    new = [live[job] for job in came]
    ended = [each for each in fleet.ended if each.facts.job in known]
    over = {each.facts.job for each in ended}
    gone = sorted(job for job in went if not known[job].served and job not in over)
    rules = valuation.rules
    schedule = memo.at(state, fleet.nodes)
    residuals = valuation.residuals

    def left(facts: JobFacts, ran: int) -> int:
        return max(int(residuals.told(facts, ran)), 1)

    guess = Guess(left=left, served=valuation.served)
    shadow = schedule.advance(valuation.now, live, new, ended, gone, guess, rules)
    if fleet.everybody is not None:
        memo.seen = (shadow, fleet.everybody)
        memo.doubtful = schedule.left_out.union(facts.job for facts in fleet.comes_back)
    if shadow is not state.shadow or new:
        state = altered(state, shadow=shadow, arrivals=state.arrivals + len(new))
    so_far = max(shadow.worst_wait, schedule.oldest_wait(valuation.now))
    return state, max(so_far * rules.budget_factor, shadow.coming_wait * rules.forecast_factor)
