"""How much worse a team fares among the others than on a part of the cluster of its own.

A team's own partition is its share of the GPU-seconds asked for, in whole nodes, and at least
what its widest gang needs; it is played under EASY, which needs nobody else.  The figure of a team
is its mean completion time here over the one there: above 1 sharing hurts it.
"""

from collections.abc import Mapping, Sequence
from math import ceil

from reconciler.simulate.asks import Ask
from reconciler.simulate.baselines.ordered import Easy
from reconciler.simulate.costs import Costs
from reconciler.simulate.counted import CountedFleet
from reconciler.simulate.metrics import jct_s, mean
from reconciler.simulate.outcome import JobOutcome

FEWEST_JOBS = 20
"""A team with fewer jobs says nothing."""


def partitions(
    jobs: Sequence[Ask], *, nodes: int, gpus_per_node: int, costs: Costs
) -> dict[str, float]:
    """Return the mean completion time of each team of some size on a partition of its own."""
    whole = sum(job.gpus * job.duration_s for job in jobs)
    alone: dict[str, float] = {}
    for team in sorted({job.team for job in jobs}):
        own = [job for job in jobs if job.team == team and job.limit_s is not None]
        if len(own) < FEWEST_JOBS:
            continue
        share = sum(job.gpus * job.duration_s for job in own) / whole
        widest = ceil(max(job.gpus for job in own) / gpus_per_node)
        fleet = CountedFleet(
            own,
            nodes=max(round(share * nodes), widest, 1),
            gpus_per_node=gpus_per_node,
            costs=costs,
        )
        fleet.run(Easy())
        alone[team] = mean([jct_s(each) for each in fleet.played("alone", 0.0).outcomes])
    return alone


def worst_against_alone(outcomes: Sequence[JobOutcome], alone: Mapping[str, float]) -> float | None:
    """Return the greatest ratio of a team's mean completion time to that on its own partition."""
    ratios = [
        mean([jct_s(each) for each in outcomes if each.ask.team == team]) / there
        for team, there in alone.items()
        if there > 0
    ]
    return max(ratios, default=None)
