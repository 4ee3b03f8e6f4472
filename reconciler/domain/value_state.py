"""What the value order remembers between cycles: learned durations, the shadow, firm places.

A recorded value, part of the planner's state: small entries keyed by job or by class, so that a
delta of two states is as small as what happened.  Logarithms are kept as whole thousandths, so
sums do not depend on the order in which jobs ended and equal states are equal texts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from reconciler.domain.units import JobId


@dataclass(frozen=True, slots=True)
class Tally:
    """Count, sum and sum of squares of natural logarithms, in thousandths."""

    n: int = 0
    total: int = 0
    squares: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """Statistics of jobs that ended by themselves."""

    population: Tally = Tally()
    """ln duration of everyone."""
    sizes: Mapping[str, Tally] = field(default_factory=dict)
    """Size class (the next power of two of the gang) to ln duration."""
    rungs: Mapping[str, Tally] = field(default_factory=dict)
    """Limit rung to ln limit - ln duration."""
    predictions: Tally = Tally()
    """ln prediction - ln duration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowJob:
    """One job in the shadow schedule.  Instants are Unix seconds; 0: not yet."""

    arrived: int
    gpus: int
    pools: int
    """Bit ``i``: the ``i``-th pool of the shadow will do."""
    limit: int
    """What EASY believes the job needs, in seconds."""
    served: int = 0
    """What it really needed, once it has ended in reality; 0: it has not."""
    start: int = 0
    end: int = 0
    """When it leaves the shadow, as far as is known; 0 while it waits there."""
    nodes: tuple[int, ...] = ()
    """Node, count, node, count, ... into the shadow's nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadow:
    """A non-preemptive EASY schedule of the same arrivals, as far as ``at``."""

    at: int = 0
    jobs: Mapping[JobId, ShadowJob] = field(default_factory=dict)
    """Whoever waits or runs in the shadow."""
    nodes: tuple[str, ...] = ()
    """Names of the nodes that ``ShadowJob.nodes`` counts by."""
    pools: tuple[str, ...] = ()
    worst_wait: int = 0
    """The longest wait any job had in it so far, in seconds."""
    coming_wait: int = 0
    """The longest wait of those that wait in it, as forecast at ``forecast_at``; 0: nobody does."""
    forecast_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmPlace:
    """A waiting job at its waiting bound, or a running one that was; it is no victim any more."""

    since: int
    nodes: tuple[int, ...] = ()
    """Nodes (of the shadow's list) kept free of work that cannot be moved; empty: none needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueState:
    """Everything the value order remembers; the empty one knows nothing yet."""

    learned: Learned = Learned()
    believed: Learned = Learned()
    """The statistics that beliefs rest on: those of ``learned`` when they were last published."""
    shadow: Shadow = Shadow()
    firm: Mapping[JobId, FirmPlace] = field(default_factory=dict)
    arrivals: int = 0
    """Jobs seen so far."""
    firmed: int = 0
    """Jobs that ever reached their waiting bound."""
    relieved_s: int = 0
    """The least the waiting budget may be since it was last raised because too many jobs reached
    it; 0: it never was."""


Held: TypeAlias = tuple[tuple[int, int], ...]
"""(node, devices) pairs, sorted by node."""
