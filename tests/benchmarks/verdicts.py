"""Chooses the factor k of each class of evidence: who is called fitting.

First no out-of-memory row is called fitting; then at most 5 % of the fitting rows are refused;
then as few synthetic next-larger runs as possible are called fitting; then as few refusals as
possible.  Each k lies in the middle of a gap between two runs, not on one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from reconciler.estimating.margins import Evidence
from reconciler.estimating.scoring import Case, Larger

REFUSED_SHARE = 0.05


@dataclass(frozen=True)
class Choice:
    """One possible k of one class, with what it costs."""

    k: float
    oom_missed: int
    larger_missed: int
    refused: int


def choose(cases: Sequence[Case], synthetic: Sequence[Larger]) -> dict[str, float]:
    """Return k by class of evidence."""
    counted = [one for one in cases if one.quality in ("A", "B")]
    allowed = int(REFUSED_SHARE * sum(one.fitted for one in counted))
    options = {kind.value: _options(kind, counted, synthetic) for kind in Evidence}
    names = sorted(options)

    def cost(picked: tuple[Choice, ...]) -> tuple[int, int, int, int]:
        refused = sum(one.refused for one in picked)
        return (
            sum(one.oom_missed for one in picked),
            max(refused - allowed, 0),
            sum(one.larger_missed for one in picked),
            refused,
        )

    best = min(product(*(options[name] for name in names)), key=cost)
    return {name: round(one.k, 4) for name, one in zip(names, best, strict=True)}


def _options(kind: Evidence, cases: Sequence[Case], synthetic: Sequence[Larger]) -> list[Choice]:
    """Return the choices of one class that no other choice beats in everything."""
    own = [one for one in cases if one.estimate.evidence is kind]
    fits = [_share(one) for one in own if one.fitted]
    ooms = [_share(one) for one in own if not one.fitted]
    larger = [
        one.estimate.memory.device_gib / one.estimate.gpu.memory_gib
        for one in synthetic
        if one.estimate.evidence is kind
    ]
    edges = sorted({0.6, *fits, *ooms, *larger, 2.0})
    found: dict[tuple[int, int, int], Choice] = {}
    for low, high in pairwise(edges):
        bound = (low * high) ** 0.5
        if not 0.6 < bound < 1.7:
            continue
        choice = Choice(
            k=1 / bound,
            oom_missed=sum(share <= bound for share in ooms),
            larger_missed=sum(share <= bound for share in larger),
            refused=sum(share > bound for share in fits),
        )
        found.setdefault((choice.oom_missed, choice.larger_missed, choice.refused), choice)
    choices = list(found.values())
    return [one for one in choices if not any(_beats(other, one) for other in choices)]


def _share(one: Case) -> float:
    return one.estimate.memory.device_gib / one.gpu.memory_gib


def _beats(one: Choice, other: Choice) -> bool:
    mine = (one.oom_missed, one.larger_missed, one.refused)
    theirs = (other.oom_missed, other.larger_missed, other.refused)
    return mine != theirs and all(a <= b for a, b in zip(mine, theirs, strict=True))
