"""Plays headway itself over a load: the production cycle, at the production cadence.

A cycle follows news, as the reconciler's loop looks for it: a second after the last cycle at the
earliest, so that what happens together is decided together.  While somebody waits, ranks change
with time: then a cycle follows at least every ``policy.rerank_every`` (the loop's own timer is
shorter, and between two ranks finds nothing new).  Nothing is rewired for the simulation: the world
answers the cycle's three questions from virtual time.
"""

import gc
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from reconciler.cycle import run_cycle
from reconciler.domain.cluster import Cluster
from reconciler.domain.job import JobSpec
from reconciler.domain.policy import Policy
from reconciler.domain.team import Team
from reconciler.domain.units import Instant, Seconds, TeamName
from reconciler.planning import guard
from reconciler.planning.memo import Memo
from reconciler.simulate.asks import Ask
from reconciler.simulate.audit import is_stuck, next_gang
from reconciler.simulate.calendar import Booked
from reconciler.simulate.costs import Costs
from reconciler.simulate.failures import Failure
from reconciler.simulate.nodes import Nodes
from reconciler.simulate.outcome import Integrals, JobOutcome, Played
from reconciler.simulate.overlay_world import OverlayWorld
from reconciler.simulate.paper_fleet import EPOCH, legal_name, paper_spec, paper_teams
from reconciler.simulate.paper_reservations import PaperReservations
from reconciler.simulate.trace_world import TraceWorld

LEAST_GRACE_S = 600
"""What a document has where it says nothing; more where saving a wide gang takes longer."""
COHORT = "fleet"
LOOK_EVERY_S = 1
"""How often the loop asks for news."""
MEASURE_EVERY = 7
"""Of so many cycles one is measured: asking for CPU time is a call into the kernel, dear beside a
cycle of a millisecond."""
COLLECT_EVERY = 20_000
"""Cycles between two collections of garbage: cycles make no cycles of references worth a pause."""


def charged(policy: Policy, costs: Costs) -> Policy:
    """Return ``policy`` with the run's own cost of a restart, which an operator would measure."""
    restart = Seconds(max(costs.save(1) + costs.restore(1), 1))
    return replace(policy, preemption=replace(policy.preemption, restart_s=restart))


def play_headway(
    asks: Sequence[Ask],
    cluster: Cluster,
    *,
    gpus_per_node: int,
    tor_size: int | None,
    costs: Costs,
    policy: Policy,
    name: str = "headway",
    quotas: Mapping[str, int] | None = None,
    failures: Sequence[Failure] = (),
    reservations: Sequence[Booked] = (),
    seed: int = 1,
    check_every: int = 100,
) -> Played:
    """Run the production cycle until every job has ended, and return what was measured.

    ``quotas`` are GPUs by team; teams lend to each other what they do not use.

    Of ``check_every`` cycles one is held to every invariant, the others to the cheap ones.  The CPU
    time of the former checks is not counted: they prove the plan and are no part of it.
    Raises ``InvariantError`` when a plan breaks one.
    """
    grace = max(costs.save(max(-(-ask.gpus // gpus_per_node) for ask in asks)) + 60, LEAST_GRACE_S)
    specs = [paper_spec(ask, gpus_per_node, Seconds(grace)) for ask in asks]
    nodes = len(cluster.nodes)
    gpus = sum(len(node.devices) for node in cluster.nodes)
    held = PaperReservations(reservations, gpus_per_node, quotas) if reservations else None
    world = OverlayWorld(
        asks,
        specs,
        cluster,
        policy=charged(policy, costs),
        teams=_teams(specs, quotas),
        costs=costs,
        counts=Nodes(nodes, gpus_per_node, tor_size),
        gpus=gpus,
        seed=seed,
        failures=failures,
        reservations=held,
    )
    in_full = FullCheck()
    began = time.process_time()
    cycles, sampled = _run(world, check_every, gpus_per_node, in_full)
    cpu_s = time.process_time() - began - in_full.cpu_s
    return Played(
        policy=name,
        gpus=gpus,
        nodes=nodes,
        outcomes=tuple(
            JobOutcome(
                ask=ask,
                first_start_s=fate.first_start_s or 0.0,
                ended_s=fate.ended_s or 0.0,
                done=fate.ended_s is not None and fate.left_s <= 0,
                preemptions=fate.preemptions,
                lost=fate.lost,
                overhead_gpu_s=fate.held_gpu_s - ask.duration_s * ask.gpus,
            )
            for ask, fate in zip(asks, world.fates, strict=True)
        ),
        stays=tuple(world.stays),
        integrals=Integrals(
            queued_s=world.queued_s, idle_gpu_s=world.idle_gpu_s, stuck_s=world.audit.stuck_s
        ),
        quota_violations=world.audit.quota_violations,
        decisions=cycles,
        cycle_s=tuple(sampled),
        cpu_s=cpu_s,
        node_failures=sum(EPOCH + each.at_s <= world.now for each in failures),
        reservations=() if held is None else held.outcomes(),
        notes=(
            (f"{world.killed_at_limit} jobs were given up before their work was done",)
            if world.killed_at_limit
            else ()
        ),
    )


def _teams(specs: Sequence[JobSpec], quotas: Mapping[str, int] | None) -> dict[TeamName, Team]:
    if quotas is None:
        return paper_teams(dict.fromkeys(sorted({spec.team for spec in specs})), None)
    return paper_teams({legal_name(name): gpus for name, gpus in quotas.items()}, COHORT)


class FullCheck:
    """Holds plans to every invariant, and knows what that cost."""

    cpu_s = 0.0

    def __call__(self, memo: Memo) -> None:
        """Raise ``InvariantError`` if the memo's plan breaks any rule."""
        began = time.process_time()
        guard.in_full(memo)
        self.cpu_s += time.process_time() - began


def _run(
    world: OverlayWorld, check_every: int, gpus_per_node: int, in_full: FullCheck
) -> tuple[int, list[float]]:
    """Return how many cycles it took, and the CPU seconds of every seventh."""
    cycles, sampled = 0, []
    memo: Memo | None = None
    was_on = gc.isenabled()
    gc.disable()
    gc.freeze()  # the load and what is known of it: as long as the run, so never garbage
    try:
        world.advance(world.now)
        while world.unfinished:
            is_sampled = cycles % MEASURE_EVERY == 0
            began = time.process_time() if is_sampled else 0.0
            checked_s = in_full.cpu_s
            check = guard.in_brief if cycles % check_every else in_full
            memo = run_cycle(world, memo, guard=check).memo
            if is_sampled:
                sampled.append(time.process_time() - began - (in_full.cpu_s - checked_s))
            world.audit.is_stuck = _is_stuck(world, memo, gpus_per_node)
            cycles += 1
            if cycles % COLLECT_EVERY == 0:
                gc.collect()
            following = _next_cycle(world)
            if following is None:
                break
            world.advance(following)
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()
    return cycles, sampled


def _is_stuck(world: OverlayWorld, memo: Memo, gpus_per_node: int) -> bool:
    if not (world.waiting and world.free_gpus):
        return False
    gpus = next_gang(memo)
    return 0 < gpus <= world.free_gpus and is_stuck(
        gpus, world.free_on, world.closed(), gpus_per_node
    )


def _next_cycle(world: TraceWorld) -> Instant | None:
    soonest = world.now + LOOK_EVERY_S
    due = world.next_event_at()
    rerank = None
    if world.waiting:
        every = world.policy.rerank_every_s
        rerank = (world.now // every + 1) * every
    known = [instant for instant in (due, rerank) if instant is not None]
    return Instant(max(min(known), soonest)) if known else None
