"""Plays Kueue's scheduler performance tests with the production cycle on virtual time.

A second of the simulated world is a millisecond of the scenario.  After every cycle the clock
moves on by the CPU time the cycle took: while the planner thinks, nothing starts.  The floor is
the same work with a planner that needs no time at all: highest priority first, whatever fits.
"""

import gc
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import ceil
from pathlib import Path

from reconciler.cycle import run_cycle
from reconciler.domain.cluster import Cluster, Device, DeviceKind, Node
from reconciler.domain.job import GpuRequest, JobSpec, PriorityClass, TopologyDomain
from reconciler.domain.policy import Order, Policy
from reconciler.domain.team import Team
from reconciler.domain.units import DeviceId, Instant, JobName, NodeName, TeamName
from reconciler.planning.capacity.grid import MOST_DEVICES
from reconciler.planning.guard import in_brief
from reconciler.planning.memo import Memo
from reconciler.simulate.asks import Ask
from reconciler.simulate.costs import Costs
from reconciler.simulate.kueue_yaml import KueueJob, Scenario, read
from reconciler.simulate.nodes import Nodes
from reconciler.simulate.paper_fleet import legal_name, with_digest
from reconciler.simulate.trace_world import TraceWorld

FOLDER = Path(__file__).parent / "kueue"
UNITS_PER_NODE = 16
"""Of a node of a topology: its own capacity is beyond any quota, so less of it changes nothing."""
CLASS_OF = {200: PriorityClass.P1, 100: PriorityClass.P2, 50: PriorityClass.P3}


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueRun:
    """What one run showed; times in seconds of the scenario."""

    jobs: int
    cycles: int
    makespan_s: float
    floor_s: float
    cpu_s: float
    wait_mean_s: Mapping[str, float]
    """To the first start, by class of job, as the file names it."""

    @property
    def ratio(self) -> float:
        """Makespan over that of a planner that needs no time."""
        return self.makespan_s / self.floor_s

    @property
    def decisions_per_s(self) -> float:
        """Starts decided in a second of CPU."""
        return self.jobs / self.cpu_s


def scenario(name: str) -> Scenario:
    """Return one of Kueue's scenarios: ``baseline``, ``large-scale`` or ``tas``."""
    path = FOLDER / f"{name}.yaml"
    return read(path.read_text(encoding="utf-8"), path.name)


def play(given: Scenario, *, batch_ms: int = 0) -> KueueRun:
    """Run a scenario to its end; with ``batch_ms``, cycles begin at least that far apart."""
    world = _world(given)
    cycles, spent, memo = 0, 0.0, None
    was_on = gc.isenabled()
    gc.disable()
    try:
        world.advance(world.now)
        while world.unfinished:
            began = world.now
            memo, took_s = _cycle(world, memo)
            cycles, spent = cycles + 1, spent + took_s
            soonest = began + max(ceil(took_s * 1000), batch_ms, 1)
            due = world.next_event_at()
            if due is None and not world.unfinished:
                break
            world.advance(Instant(soonest if due is None else max(due, soonest)))
            if cycles % 2000 == 0:
                gc.collect()
    finally:
        if was_on:
            gc.enable()
    waits: dict[str, list[float]] = {}
    for each, fate in zip(given.jobs, world.fates, strict=True):
        waits.setdefault(each.kind, []).append((fate.first_start_s or 0.0) - each.created_ms)
    return KueueRun(
        jobs=len(given.jobs),
        cycles=cycles,
        makespan_s=max(fate.ended_s or 0.0 for fate in world.fates) / 1000,
        floor_s=floor_s(given),
        cpu_s=spent,
        wait_mean_s={kind: sum(all_) / len(all_) / 1000 for kind, all_ in sorted(waits.items())},
    )


def _cycle(world: TraceWorld, memo: Memo | None) -> tuple[Memo, float]:
    began = time.process_time()
    report = run_cycle(world, memo, guard=in_brief)
    return report.memo, time.process_time() - began


def floor_s(given: Scenario) -> float:
    """Return when the work is done if deciding takes no time, in seconds."""
    room = dict.fromkeys((queue.cohort for queue in given.queues), 0)
    for queue in given.queues:
        room[queue.cohort] += queue.nominal
    waiting: dict[str, list[tuple[int, int, int]]] = {cohort: [] for cohort in room}
    running: list[tuple[int, str, int]] = []
    arrivals = list(given.jobs)
    at = now = 0
    while at < len(arrivals) or running or any(waiting.values()):
        due = [arrivals[at].created_ms] if at < len(arrivals) else []
        now = min([*due, running[0][0]] if running else due)
        while running and running[0][0] <= now:
            _, cohort, units = heappop(running)
            room[cohort] += units
        while at < len(arrivals) and arrivals[at].created_ms <= now:
            heappush(waiting[arrivals[at].cohort], (-arrivals[at].priority, at, 0))
            at += 1
        for cohort, queue_ in waiting.items():
            kept = []
            while queue_ and room[cohort]:
                entry = heappop(queue_)
                work = arrivals[entry[1]]
                if work.total <= room[cohort]:
                    room[cohort] -= work.total
                    heappush(running, (now + work.runtime_ms, cohort, work.total))
                else:
                    kept.append(entry)
            for entry in kept:
                heappush(queue_, entry)
    return now / 1000


def _world(given: Scenario) -> TraceWorld:
    has_topology = given.racks > 0
    cluster = _racks(given) if has_topology else _nodes_of_cohorts(given)
    asks = [
        Ask(
            id=f"{each.queue}-{each.name}",
            submit_s=each.created_ms,
            duration_s=each.runtime_ms,
            gpus=each.total,
            team=each.queue,
            user="u",
            preemptible=False,
        )
        for each in given.jobs
    ]
    gpus = sum(len(node.devices) for node in cluster.nodes)
    return TraceWorld(
        asks,
        [_spec(each, has_topology=has_topology) for each in given.jobs],
        cluster,
        policy=replace(Policy(), order=Order.VALUE),
        teams={
            TeamName(legal_name(queue.name)): Team(
                name=TeamName(legal_name(queue.name)),
                quota_gpus={"*": queue.nominal} if has_topology else {},
                cohort=queue.cohort if has_topology else None,
                may_use_p0=True,
            )
            for queue in given.queues
        },
        costs=Costs.flat(0),
        counts=Nodes(len(cluster.nodes), len(cluster.nodes[0].devices)),
        gpus=gpus,
    )


def _spec(each: KueueJob, *, has_topology: bool) -> JobSpec:
    within = TopologyDomain.RACK if has_topology and each.is_in_rack else TopologyDomain.NODE
    return with_digest(
        JobSpec(
            team=TeamName(legal_name(each.queue)),
            name=JobName(legal_name(f"{each.queue}-{each.name}")),
            gpus=GpuRequest(
                count=each.total, within=within, types=() if has_topology else (each.cohort,)
            ),
            priority=CLASS_OF.get(each.priority, PriorityClass.P2),
            preemptible=False,
        )
    )


def _nodes_of_cohorts(given: Scenario) -> Cluster:
    """Return quotas as machines: nodes of a type of its own for every cohort, one if it can."""
    units = dict.fromkeys((queue.cohort for queue in given.queues), 0)
    for queue in given.queues:
        units[queue.cohort] += queue.nominal
    nodes = []
    for name, count in sorted(units.items()):
        parts = next(
            n for n in range(1, count + 1) if count % n == 0 and count // n <= MOST_DEVICES
        )
        nodes += [_node(f"{name}-{n:03}", "r", count // parts, name) for n in range(parts)]
    return Cluster(id="kueue", nodes=tuple(nodes))


def _racks(given: Scenario) -> Cluster:
    return Cluster(
        id="kueue",
        nodes=tuple(
            _node(f"n{rack:02}-{number:02}", f"r{rack:02}", UNITS_PER_NODE, "cpu")
            for rack in range(given.racks)
            for number in range(given.nodes_per_rack)
        ),
    )


def _node(name: str, rack: str, units: int, kind: str) -> Node:
    return Node(
        name=NodeName(name),
        rack=rack,
        devices=tuple(
            Device(
                id=DeviceId(f"u{number:04}"),
                kind=DeviceKind.GPU,
                type=kind,
                memory_gib=80.0,
                island=name,
            )
            for number in range(units)
        ),
    )
