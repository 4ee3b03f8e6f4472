"""A fleet of 10,000 GPUs with 10,000 gangs in line, as the production planner meets it.

The world of simulated traces, so statuses, observations and recorded planner state come from the
planner's own cycles.  The same seed makes the same fleet.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import heapify
from random import Random

from reconciler.domain.cluster import Cluster
from reconciler.domain.policy import Order, Policy
from reconciler.domain.units import JobId, Seconds
from reconciler.simulate.asks import Ask
from reconciler.simulate.costs import Costs
from reconciler.simulate.nodes import Nodes
from reconciler.simulate.paper_fleet import (
    instant,
    paper_cluster,
    paper_spec,
    paper_teams,
    with_digest,
)
from reconciler.simulate.trace_world import ARRIVES, ENDS, TraceWorld
from tests.benchmarks.capacity_worlds import GANGS, HOUR, LIMITS, SIZE, TEAMS

NODES = 1_250
WATTS = 700
FIRST_S = 10
"""When those that run came; the gangs in line come an hour later."""
LATER_S = FIRST_S + HOUR


class PlanWorld(TraceWorld):
    """Everybody comes when told; a gang in line may be edited."""

    def edit(self, job: JobId) -> None:
        """Let somebody raise the limit in a pending job's document."""
        known = self._jobs[job]
        assert known.spec is not None  # every document of this world is valid
        limit_s = Seconds((known.spec.limit_s or HOUR) + 60)
        spec = with_digest(replace(known.spec, limit_s=limit_s))
        self._jobs[job] = replace(known, spec=spec)

    def hold_back(self, numbers: Iterable[int]) -> None:
        """Let these jobs not come by themselves."""
        late = set(numbers)
        self._events = [
            event for event in self._events if not (event[1] == ARRIVES and event[3] in late)
        ]
        heapify(self._events)

    def come(self, number: int) -> None:
        """Let a job that was held back come now."""
        self._plan(self.now, ARRIVES, number, "")

    def end_one(self) -> None:
        """Let the attempt that has run longest end now."""
        run = min(
            (run for run in self._attempts.values() if run.gone_at is None),
            key=lambda run: (run.began_at, run.id),
        )
        run.left_s = run.progress_s(self.now)
        run.ends_at = self.now
        run.version += 1
        self._plan(self.now, ENDS, run.version, run.id)

    @property
    def waiting_jobs(self) -> list[JobId]:
        """Jobs on main without an attempt, sorted."""
        statuses = self._statuses
        return sorted(
            job for job in self._jobs if job in statuses and statuses[job].live_attempt is None
        )


def a_world(
    *,
    pending: int,
    nodes: int = NODES,
    order: Order = Order.VALUE,
    cheap_share: float = 0.0,
    is_bounded: bool = False,
) -> PlanWorld:
    """Return a fleet that fills up at once and then gets ``pending`` gangs in line.

    ``cheap_share`` of the GPUs run work of a week that the gangs in line are worth stopping for;
    the rest cannot be stopped.  A fleet that ``is_bounded`` has racks with the power for 85 % of
    their GPUs, and teams of one cohort whose quotas add up to all of them.
    """
    draw = Random(1)
    asks = [
        *_running(draw, nodes, cheap_share),
        *_waiting(draw, pending, nodes, at_s=LATER_S),
    ]
    cluster = paper_cluster(nodes, SIZE, 16)
    teams = paper_teams(dict.fromkeys(f"t{n:02}" for n in range(TEAMS)), None)
    if is_bounded:
        cluster = _capped(cluster)
        quotas: dict[str, int | None] = {f"t{n:02}": nodes * SIZE // TEAMS for n in range(TEAMS)}
        teams = paper_teams(quotas, "fleet")
    return PlanWorld(
        asks,
        [paper_spec(ask, SIZE) for ask in asks],
        cluster,
        policy=replace(Policy(), order=order),
        teams=teams,
        costs=Costs.times(1),
        counts=Nodes(nodes, SIZE, 16),
        gpus=nodes * SIZE,
    )


def _capped(cluster: Cluster) -> Cluster:
    """Return the cluster with racks that have the power for 85 % of their GPUs."""
    gpus = Counter(node.rack for node in cluster.nodes for _ in node.devices)
    types = {device.type for node in cluster.nodes for device in node.devices}
    return replace(
        cluster,
        rack_watts={rack: count * WATTS * 85 // 100 for rack, count in sorted(gpus.items())},
        device_watts=dict.fromkeys(sorted(types), WATTS),
    )


def _running(draw: Random, nodes: int, cheap_share: float) -> Iterator[Ask]:
    left, number = nodes * SIZE, 0
    while left > 0:
        gpus = min(draw.choice((1, 2, 4, 8, 8, 16)), left)
        is_cheap = draw.random() < cheap_share
        duration_s = 7 * 24 * HOUR if is_cheap else draw.choice((5, 20, 60)) * HOUR
        yield Ask(
            id=f"run-{number:05}",
            submit_s=FIRST_S,
            duration_s=duration_s,
            gpus=gpus,
            team=f"t{draw.randrange(TEAMS):02}",
            user="u",
            priority=3 if is_cheap else 2,
            preemptible=is_cheap,
            limit_s=duration_s,
            prediction_s=duration_s,
        )
        left -= gpus
        number += 1


def _waiting(draw: Random, count: int, nodes: int, at_s: int) -> Iterator[Ask]:
    sizes = [(gpus, weight) for gpus, weight in GANGS if gpus <= nodes * SIZE]
    gangs = draw.choices(*_split(sizes), k=count)
    limits = draw.choices(*_split(LIMITS), k=count)
    for number, (gpus, limit_s) in enumerate(zip(gangs, limits, strict=True)):
        predicted_s = max(round(limit_s * draw.uniform(0.05, 0.9)), 60)
        yield Ask(
            id=f"wait-{number:06}",
            submit_s=at_s,
            duration_s=predicted_s,
            gpus=gpus,
            team=f"t{draw.randrange(TEAMS):02}",
            user="u",
            priority=draw.choice((1, 2, 2, 2, 3)),
            preemptible=draw.random() < 0.7,
            limit_s=limit_s,
            prediction_s=predicted_s,
        )


def _split(table: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [value for value, _ in table], [weight for _, weight in table]


def until_in_line() -> int:
    """Return the instant at which the gangs in line have come."""
    return instant(LATER_S)
