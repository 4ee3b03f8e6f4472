"""How many times as long does a gang take that is spread?  The policy's word, held against runs.

Rule kept: where the policy says nothing of it, nothing is weighed, whatever was measured; where
no run measured a class, its factor is the policy's own, to the last digit, unless the other class
would pass it.
"""

from math import exp, log

from reconciler.domain.policy import SpreadSlowdown
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.spread import MeasuredSlowdown, PlacementClass, SpreadMeasured

PSEUDO_RUNS = 4.0
"""What the policy's word counts for, in runs: one kind of job with eight runs in each of two
classes moves it half of the way."""
LEAST_OVER_RACKS = 1.01
"""Runs may say that being spread costs nothing, but not that places are not weighed at all."""


def slowdown_at(snapshot: Snapshot) -> SpreadSlowdown:
    """Return what being spread costs at the moment of a snapshot."""
    return slowdown(snapshot.policy.spread_slowdown, snapshot.measured_spread)


def slowdown(told: SpreadSlowdown, measured: SpreadMeasured) -> SpreadSlowdown:
    """Return the policy's factors, moved by what runs measured; hundredths where one moved.

    Of each class the geometric mean of the policy's factor, counted as ``PSEUDO_RUNS`` runs, and
    the measured ratio, counted as its weight w (shrinkage towards a prior mean, as of a normal
    mean with known variances, in logarithms):

        exp((PSEUDO_RUNS x log told + w x log ratio) / (PSEUDO_RUNS + w))

    Where that makes racks cheaper than nodes, both take their weighted mean (pooling adjacent
    violators; Ayer et al. 1955).  Never below 1.
    """
    if not told or not measured:
        return told
    nodes, racks = _moved(told.nodes, measured.nodes), _moved(told.racks, measured.racks)
    if racks < nodes:
        of_nodes, of_racks = (
            PSEUDO_RUNS + measured.nodes.weight,
            PSEUDO_RUNS + measured.racks.weight,
        )
        both = _factor((of_nodes * nodes + of_racks * racks) / (of_nodes + of_racks))
        return SpreadSlowdown(nodes=both, racks=max(both, LEAST_OVER_RACKS))
    over_nodes = _factor(nodes) if measured.nodes.runs else told.nodes
    over_racks = _factor(racks) if measured.racks.runs else told.racks
    return SpreadSlowdown(nodes=over_nodes, racks=max(over_racks, over_nodes, LEAST_OVER_RACKS))


def times_as_long(slowdown: SpreadSlowdown, placed: PlacementClass | None) -> float:
    """Return how many times as long a gang takes in one class; 1 where the class is not known."""
    if placed is PlacementClass.RACKS:
        return slowdown.racks
    return slowdown.nodes if placed is PlacementClass.NODES else 1.0


def runs_behind(measured: SpreadMeasured, placed: PlacementClass) -> int:
    """Return how many runs the factor of a class rests on besides the policy."""
    if placed is PlacementClass.RACKS:
        return measured.racks.runs
    return measured.nodes.runs if placed is PlacementClass.NODES else 0


def _moved(told: float, measured: MeasuredSlowdown) -> float:
    """Return the logarithm of a class's factor."""
    held = PSEUDO_RUNS * log(told) + measured.weight * log(measured.ratio)
    return held / (PSEUDO_RUNS + measured.weight)


def _factor(logarithm: float) -> float:
    return max(round(exp(logarithm), 2), 1.0)
