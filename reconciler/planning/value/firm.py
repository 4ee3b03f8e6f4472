"""Who has waited as long as anybody may, and where does such a job go?

A waiting job whose delay reaches 98 % of its budget becomes firm until it ends: it is no victim,
and it may stop any preemptible job that is not firm.  When too many jobs become firm the budget is
infeasible and enforcing it would turn the order into first come, first served: it grows by 2 % for
each firm job beyond 0.3 % of arrivals + 5.

A firm gang that cannot be placed even so is blocked by work that may not be stopped.  It gets
rows of its own, those whose blockers are believed to leave first: until it runs, nothing that
cannot be stopped starts there, unless its limit ends before the rows are clear.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from reconciler.domain.units import JobId
from reconciler.domain.value_state import FirmPlace, ValueState
from reconciler.planning.altered import altered
from reconciler.planning.value.fleet import Fleet, JobFacts
from reconciler.planning.value.ranking import Valuation

LIMIT_MEANS = 0.25
"""The share of its limit that a job is taken to need where too little is worse than too much."""
MOST_AHEAD = 0.5
"""The share of its budget by which one giant may become firm ahead of it for another's sake."""
STICKY_S = 600
STICKY_SHARE = 0.1
"""A gang keeps its rows unless others are clear earlier by more than this."""


@dataclass(frozen=True, slots=True)
class Drained:
    """Rows kept for one firm gang, and when they are believed clear."""

    rows: tuple[int, ...]
    clear_at: int


def guarded(
    state: ValueState,
    waiting: Sequence[JobFacts],
    live: Collection[JobId],
    valuation: Valuation,
    gpus: int,
) -> tuple[ValueState, float]:
    """Return the state with new firm jobs in it, and the budget after relief.

    ``gpus`` is the size of the fleet.
    """
    rules = valuation.rules
    budget = valuation.budget_s
    firm = {job: state.firm[job] for job in sorted(state.firm) if job in live}
    firmed = state.firmed
    ahead = _ahead_of_twins(waiting, valuation, gpus)
    latest = valuation.ranked_at - ceil(rules.firm_share * budget)  # whole seconds: none is lost
    may_be_late = [
        facts
        for facts in waiting
        if facts.arrived + facts.served <= latest or facts.bound or facts.job in ahead
    ]
    late = sorted(
        (facts.arrived + facts.served, facts.job, facts)
        for facts in may_be_late
        if facts.job not in firm and _is_late(facts, valuation, budget, ahead)
    )
    for _, job, facts in late:
        if not _is_late(facts, valuation, budget, ahead):
            continue
        firm[job] = FirmPlace(since=valuation.now)
        firmed += 1
        if firmed > rules.relief_share * state.arrivals + rules.relief_jobs:
            budget *= rules.relief_step
    if firm != state.firm or firmed != state.firmed:
        state = altered(state, firm=firm, firmed=firmed)
    return state, budget


def _cautious_left(facts: JobFacts, valuation: Valuation) -> float:
    """Return the expected time left, and not less than a limit usually stands for.

    Early on, the jobs that have ended are the short ones, so beliefs about long ones are low.
    """
    served = valuation.served(facts)
    left = valuation.residuals.told(facts, served)
    return max(left, LIMIT_MEANS * facts.limit - served)


def _is_late(
    facts: JobFacts, valuation: Valuation, budget: float, ahead: Mapping[JobId, float]
) -> bool:
    bound = min(budget, facts.bound) if facts.bound else budget
    used = valuation.delay(facts) + ahead.get(facts.job, 0.0)
    return used >= valuation.rules.firm_share * bound


def _ahead_of_twins(
    waiting: Sequence[JobFacts], valuation: Valuation, gpus: int
) -> dict[JobId, float]:
    """Return how much earlier each giant must start than its own budget says.

    Gangs of more than half the fleet never run together: the one whose budget ends first has to
    have ended when the next one's does, and so on back from the last.
    """
    giants = sorted(
        (
            (facts.arrived + facts.served, facts.job, facts)
            for facts in waiting
            if 2 * facts.gpus > gpus
        ),
        reverse=True,
    )
    ahead: dict[JobId, float] = {}
    if len(giants) < 2:
        return ahead
    latest = float("inf")
    for _, job, facts in giants:
        budget = valuation.budget(facts)
        due = facts.arrived + facts.served + valuation.rules.firm_share * budget
        start = min(due, latest)
        ahead[job] = min(due - start, MOST_AHEAD * budget)
        latest = start - _cautious_left(facts, valuation)
    return ahead


def drained(
    facts: JobFacts,
    fleet: Fleet,
    valuation: Valuation,
    blockers: Iterable[JobFacts],
    taken: Collection[int],
    before: tuple[int, ...],
) -> Drained | None:
    """Return the rows to keep for a firm gang that work which may not be stopped blocks.

    ``taken`` are rows kept for others, ``before`` the rows it had in the cycle before.
    """
    nodes = fleet.nodes
    leaves: dict[int, list[tuple[int, int]]] = {}
    for each in blockers:
        end = valuation.now + int(valuation.left(each))
        for row, count in each.held:
            leaves.setdefault(row, []).append((end, count))
    best: Drained | None = None
    kept: Drained | None = None
    for pool in range(len(nodes.pools)):
        if not facts.pools >> pool & 1:
            continue
        rows = [
            row
            for row in range(len(nodes.names))
            if nodes.pool[row] == pool and row not in taken and row not in fleet.shut
        ]
        unit = max((nodes.sizes[row] for row in rows), default=0)
        if not unit:
            continue
        needs = [unit] * (facts.gpus // unit) + ([facts.gpus % unit] if facts.gpus % unit else [])
        found = _soonest(needs, rows, nodes.sizes, leaves, valuation.now)
        if found is not None and (best is None or found.clear_at < best.clear_at):
            best = found
        if before and set(before) <= set(rows):
            again = _soonest(needs, list(before), nodes.sizes, leaves, valuation.now)
            kept = again if again is not None else kept
    if best is not None and kept is not None:
        ahead = kept.clear_at - valuation.now
        if kept.clear_at <= best.clear_at + max(STICKY_S, STICKY_SHARE * ahead):
            return kept
    return best


def _soonest(
    needs: Sequence[int],
    rows: Sequence[int],
    sizes: Sequence[int],
    leaves: Mapping[int, list[tuple[int, int]]],
    now: int,
) -> Drained | None:
    """Return the rows that have what is needed soonest, if all that can be stopped is."""
    chosen: list[int] = []
    clear_at = now
    for need in needs:
        best: tuple[int, int, int] | None = None
        for row in rows:
            if row in chosen or sizes[row] < need:
                continue
            key = (_clear_at(need, sizes[row], leaves.get(row, ()), now), sizes[row], row)
            if best is None or key < best:
                best = key
        if best is None:
            return None
        chosen.append(best[2])
        clear_at = max(clear_at, best[0])
    return Drained(rows=tuple(sorted(chosen)), clear_at=clear_at)


def _clear_at(need: int, size: int, leaves: Iterable[tuple[int, int]], now: int) -> int:
    held = sorted(leaves, reverse=True)
    room = size - sum(count for _, count in held)
    clear_at = now
    while room < need:
        clear_at, count = held.pop()
        room += count
    return clear_at
