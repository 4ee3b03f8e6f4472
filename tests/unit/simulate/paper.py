"""Tiny fleets on paper for the tests of the simulator."""

from collections.abc import Sequence

from reconciler.simulate.asks import Ask
from reconciler.simulate.costs import Costs
from reconciler.simulate.counted import CountedFleet, Policy
from reconciler.simulate.outcome import Played

FREE = Costs.flat(0)


def ask(name: str, submit_s: int, gpus: int, duration_s: int, **more: object) -> Ask:
    """Return a job that knows its duration exactly, unless ``limit_s`` says otherwise."""
    given = {"limit_s": duration_s, "team": "a", "user": "u", **more}
    return Ask(
        id=name,
        submit_s=submit_s,
        gpus=gpus,
        duration_s=duration_s,
        **given,  # type: ignore[arg-type]
    )


def played(
    policy: Policy,
    jobs: Sequence[Ask],
    *,
    nodes: int = 1,
    costs: Costs = FREE,
    tor: int | None = None,
) -> Played:
    """Play ``policy`` on nodes of 8 GPUs."""
    fleet = CountedFleet(jobs, nodes=nodes, gpus_per_node=8, costs=costs, tor_size=tor)
    fleet.run(policy)
    return fleet.played("tried", 0.0)


def starts(found: Played) -> dict[str, float]:
    """Return when each job first started."""
    return {outcome.ask.id: outcome.first_start_s for outcome in found.outcomes}


def ends(found: Played) -> dict[str, float]:
    """Return when each job ended."""
    return {outcome.ask.id: outcome.ended_s for outcome in found.outcomes}
