"""The policies headway is compared with, and how one is played over a load.

``easy`` always sees loose limits (F4), whatever the estimates of the run, because that is how the
literature runs it; ``easy-e2``, the same policy on the ladder's limits, is reported beside it.
Where a policy needs limits and the run has none (E3), it gets those of F4 too.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.simulate.asks import Ask, Estimates, Overlay, asks
from reconciler.simulate.baselines.conservative import Conservative
from reconciler.simulate.baselines.multifactor import Multifactor
from reconciler.simulate.baselines.ordered import Easy, Fifo, FifoSkip
from reconciler.simulate.baselines.rounds import Las, Srtf
from reconciler.simulate.baselines.team_queues import TeamQueues
from reconciler.simulate.calendar import Booked, calendar
from reconciler.simulate.costs import Costs
from reconciler.simulate.counted import CountedFleet, Policy
from reconciler.simulate.failures import Failure, failures
from reconciler.simulate.load import Load
from reconciler.simulate.outcome import Played
from reconciler.simulate.shares import quotas, within_budgets

TICK_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The rules of one comparison."""

    nodes: int
    gpus_per_node: int = 8
    tor_size: int | None = None
    tick_s: int = TICK_S
    """How often policies that hold rounds do so."""
    overlay: Overlay = Overlay.NONE
    estimates: Estimates = Estimates.E2
    seed: int = 1
    costs: Costs = Costs()
    elastic: bool = False

    @property
    def gpus(self) -> int:
        """GPUs of the whole cluster."""
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True, slots=True)
class Baseline:
    """How to make a policy, and which estimates it must have."""

    make: Callable[[Setup, Sequence[Ask]], Policy]
    estimates: Estimates | None = None
    """None: those of the run."""
    needs_limits: bool = False


BASELINES: Mapping[str, Baseline] = {
    "fifo": Baseline(lambda *_: Fifo()),
    "fifo-skip": Baseline(lambda *_: FifoSkip()),
    "easy": Baseline(lambda *_: Easy(), estimates=Estimates.F4),
    "easy-e2": Baseline(lambda *_: Easy(), estimates=Estimates.E2),
    "conservative": Baseline(lambda *_: Conservative(), needs_limits=True),
    "multifactor": Baseline(lambda *_: Multifactor(), needs_limits=True),
    "kueue": Baseline(lambda setup, jobs: TeamQueues(quotas(jobs, setup.gpus))),
    "las": Baseline(lambda setup, _: Las(setup.tick_s)),
    "srtf": Baseline(lambda setup, _: Srtf(setup.tick_s)),
}


def prepared(load: Load, setup: Setup) -> tuple[tuple[Ask, ...], int]:
    """Return what the jobs ask for, as budgets admit them, and how many these sent to a later week.

    A bare load has no budgets.
    """
    jobs = asks(
        load,
        overlay=setup.overlay,
        estimates=setup.estimates,
        seed=setup.seed,
        elastic=setup.elastic,
    )
    return (jobs, 0) if setup.overlay is Overlay.NONE else within_budgets(jobs)


def failing(jobs: Sequence[Ask], setup: Setup) -> tuple[Failure, ...]:
    """Return which nodes die when: none under a bare load, by hash under the overlay.

    They go on failing for as long again as jobs are submitted.
    """
    if setup.overlay is Overlay.NONE:
        return ()
    first, last = jobs[0].submit_s, jobs[-1].submit_s
    return failures(setup.nodes, first_s=first, last_s=2 * last - first, seed=setup.seed)


def reserved(jobs: Sequence[Ask], setup: Setup) -> tuple[Booked, ...]:
    """Return the reservations asked for: none under a bare load."""
    if setup.overlay is Overlay.NONE:
        return ()
    return calendar(jobs, nodes=setup.nodes, seed=setup.seed)


def play_baseline(name: str, load: Load, setup: Setup) -> Played:
    """Play one of ``BASELINES`` over ``load`` to the end."""
    row = BASELINES[name]
    estimates = row.estimates or setup.estimates
    if row.needs_limits and estimates is Estimates.E3:
        estimates = Estimates.F4
    setup = replace(setup, estimates=estimates)
    jobs, _ = prepared(load, setup)
    fleet = CountedFleet(
        jobs,
        nodes=setup.nodes,
        gpus_per_node=setup.gpus_per_node,
        costs=setup.costs,
        tor_size=setup.tor_size,
        failures=failing(jobs, setup),
        reservations=reserved(jobs, setup),
        seed=setup.seed,
    )
    began = time.process_time()
    fleet.run(row.make(setup, jobs))
    return fleet.played(name, time.process_time() - began)
