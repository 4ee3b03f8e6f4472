"""Plays policies over one load, each under the same rules, and keeps what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reconciler.domain.cluster import Cluster
from reconciler.domain.policy import Policy, SpreadSlowdown
from reconciler.simulate.arena import (
    BASELINES,
    Setup,
    failing,
    play_baseline,
    prepared,
    reserved,
)
from reconciler.simulate.asks import Ask, Overlay
from reconciler.simulate.bounds import Bound, bound
from reconciler.simulate.fairness import partitions
from reconciler.simulate.load import Load, LoadError, without_giants
from reconciler.simulate.nodes import SPANS_MORE_GROUPS, SPANS_MORE_NODES
from reconciler.simulate.outcome import Played
from reconciler.simulate.paper_fleet import paper_cluster
from reconciler.simulate.play_headway import play_headway
from reconciler.simulate.shares import quotas

HEADWAY = "headway"
BESIDE = {"easy": "easy-e2"}
"""What is played beside a policy without being asked for."""
POLICIES = (HEADWAY, *(name for name in BASELINES if name not in BESIDE.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """A load, the rules, and every policy that was played."""

    name: str
    load: Load
    left_out: int
    """Jobs wider than the cluster."""
    setup: Setup
    played: tuple[Played, ...]
    bound: Bound | None = None
    deferred: int = 0
    """Jobs whose team's budget moved them to a later week, for every policy alike."""
    quotas: Mapping[str, int] | None = None
    alone: Mapping[str, float] | None = None
    """Mean completion time of each team on a partition of its own."""


def simulate(
    name: str,
    load: Load,
    setup: Setup,
    policies: Sequence[str],
    *,
    policy: Policy | None = None,
    cluster: Cluster | None = None,
    with_bound: bool = False,
) -> Simulation:
    """Play ``policies`` over ``load`` and return all of them.

    ``policy`` is headway's (without it, its defaults); ``cluster`` takes the place of equal nodes
    on paper.  Raises ``LoadError`` where nothing can be played.
    """
    gpus = setup.nodes * setup.gpus_per_node
    kept, left_out = without_giants(load, gpus)
    if not kept:
        raise LoadError(f"every job of {name} is wider than {gpus} GPUs")
    jobs, deferred = prepared(kept, setup)
    shares = None if setup.overlay is Overlay.NONE else quotas(jobs, gpus)
    asked = [each for name in policies for each in (name, BESIDE.get(name)) if each]
    played = tuple(
        _play_headway(jobs, setup, policy or _defaults(setup), cluster, shares)
        if each == HEADWAY
        else play_baseline(each, kept, setup)
        for each in asked
    )
    return Simulation(
        name=name,
        load=kept,
        left_out=left_out,
        setup=setup,
        played=played,
        bound=bound(jobs, gpus) if with_bound else None,
        deferred=deferred,
        quotas=shares,
        alone=partitions(
            jobs, nodes=setup.nodes, gpus_per_node=setup.gpus_per_node, costs=setup.costs
        ),
    )


def _defaults(setup: Setup) -> Policy:
    """Return the policy's defaults; where far places are slow, the planner knows how slow."""
    if setup.tor_size is None:
        return Policy()
    slowdown = SpreadSlowdown(nodes=SPANS_MORE_NODES, racks=SPANS_MORE_GROUPS)
    return Policy(spread_slowdown=slowdown)


def _play_headway(
    jobs: Sequence[Ask],
    setup: Setup,
    policy: Policy,
    cluster: Cluster | None,
    shares: Mapping[str, int] | None,
) -> Played:
    return play_headway(
        jobs,
        cluster or paper_cluster(setup.nodes, setup.gpus_per_node, setup.tor_size),
        gpus_per_node=setup.gpus_per_node,
        tor_size=setup.tor_size,
        costs=setup.costs,
        policy=policy,
        quotas=shares,
        failures=failing(jobs, setup),
        reservations=reserved(jobs, setup),
        seed=setup.seed,
    )


def equal_nodes(cluster: Cluster) -> tuple[int, int]:
    """Return (nodes, GPUs a node) of a cluster; the widest node's where they differ."""
    return len(cluster.nodes), max((len(node.devices) for node in cluster.nodes), default=0)


def are_equal(cluster: Cluster) -> bool:
    """True where every node has as many GPUs as every other."""
    return len({len(node.devices) for node in cluster.nodes}) == 1
