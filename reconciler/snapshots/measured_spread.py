"""What did runs measure of being spread?  Steps of runs alike, apart against together.

Only runs of one kind are held against each other: the same model, task, tuner, data, batch and
gang, the same devices, and every key that says how much work a step is.  What all kinds say goes
into one ratio for each placement class; how far that moves the policy's own word is decided where
places are weighed (:mod:`reconciler.planning.slowdown`).
"""

from collections.abc import Iterable, Mapping, Sequence
from math import exp, log
from statistics import median
from typing import TypeAlias

from reconciler.domain.spread import MeasuredSlowdown, PlacementClass, SpreadMeasured
from reconciler.snapshots.history import Likeness, MeasuredRun
from reconciler.snapshots.plain import canonical_text

LEAST_RUNS = 3
"""Fewer runs of a class teach nothing: of two, nobody can say which is the odd one."""
MOST = 4.0
"""Numbers in a run directory were written by a job: no more than this is believed."""

_Kind: TypeAlias = tuple[Likeness, str, int | None, int, int, int]
_Paces: TypeAlias = Mapping[PlacementClass, Sequence[float]]
"""Logarithms of the time of a step, by the class of the run."""


def measured_spread(runs: Iterable[MeasuredRun]) -> SpreadMeasured:
    """Return what ``runs`` say of each placement class, whatever their order.

    A run that was spread says by which factor its steps took longer than the median of the runs
    of its kind that were together.  The ratio of a class is the weighted median of what its runs
    of all kinds say, so an odd run moves it little.  Beside t runs together each of s runs
    counts for t / (t + s): all of them then for 1 / (1/s + 1/t), the inverse of the variance of a
    difference of two means in units of one run's.
    """
    kinds: dict[_Kind, dict[PlacementClass, list[float]]] = {}
    for run in runs:
        if run.placement is not None and run.is_timed:
            kinds.setdefault(_kind(run), {}).setdefault(run.placement, []).append(log(run.step_s))
    return SpreadMeasured(
        nodes=_pooled(kinds.values(), PlacementClass.NODES),
        racks=_pooled(kinds.values(), PlacementClass.RACKS),
    )


def _kind(run: MeasuredRun) -> _Kind:
    """Return what two runs share whose steps are the same work on as many of the same devices."""
    train = canonical_text(run.train)
    batch = run.facts.global_batch
    return (run.likeness, train, batch, run.gpus, run.asked_gpus, run.processes)


def _pooled(kinds: Iterable[_Paces], placed: PlacementClass) -> MeasuredSlowdown:
    said: list[tuple[float, float]] = []
    for paces in kinds:
        together, apart = paces.get(PlacementClass.TOGETHER, ()), paces.get(placed, ())
        if not together:
            continue
        usual = median(together)
        weight = len(together) / (len(together) + len(apart))
        said += [(pace - usual, weight) for pace in apart]
    if len(said) < LEAST_RUNS:
        return MeasuredSlowdown()
    ratio = min(max(exp(_middle(said)), 1 / MOST), MOST)
    weight = sum(weight for _, weight in sorted(said))
    return MeasuredSlowdown(ratio=round(ratio, 4), weight=round(weight, 2), runs=len(said))


def _middle(said: Sequence[tuple[float, float]]) -> float:
    """Return the weighted median: half of the weight is on either side of it."""
    ordered = sorted(said)
    half = sum(weight for _, weight in ordered) / 2
    passed = 0.0
    for position, (value, weight) in enumerate(ordered):
        passed += weight
        if abs(passed - half) < 1e-9 and position + 1 < len(ordered):
            return (value + ordered[position + 1][0]) / 2
        if passed >= half:
            return value
    return ordered[-1][0]
