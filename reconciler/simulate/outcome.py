"""What a run of one policy over one load left behind, whoever played it.

The baselines' fleet and the trace world both end in a ``Played``; metrics and charts read nothing
else, so both are measured with one ruler.
"""

from dataclasses import dataclass, field

from reconciler.simulate.asks import Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """How one job fared.  Seconds on the trace's clock."""

    ask: Ask
    first_start_s: float
    ended_s: float
    done: bool = True
    """False for a job that was refused, or given up before its work was done."""
    preemptions: int = 0
    migrations: int = 0
    lost: int = 0
    """Runs lost with their node."""
    overhead_gpu_s: float = 0.0
    """GPU-seconds held without progress: saving, restoring, work done twice, slow places."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """One run of one job: what a Gantt chart draws."""

    job: int
    gpus: int
    began_s: float
    ended_s: float
    nodes: tuple[tuple[int, int], ...]
    """(node, GPUs) pairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldReservation:
    """One reservation asked for, and what came of it."""

    id: str
    team: str
    nodes: int
    start_s: float
    end_s: float
    accepted: bool
    was_possible: bool = True
    """Some window free of work that may not be stopped existed: a refusal then is a miss."""
    ready_s: float | None = None
    """When all of its nodes were there; None: never, or refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Integrals:
    """Sums over time."""

    queued_s: float = 0.0
    """Time in which somebody waited."""
    idle_gpu_s: float = 0.0
    """Free GPUs times the time somebody waited."""
    stuck_s: float = 0.0
    """Time in which the next job found enough free GPUs, but not on nodes that hold it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """Everything measured of one policy."""

    policy: str
    gpus: int
    nodes: int
    outcomes: tuple[JobOutcome, ...]
    stays: tuple[Stay, ...]
    integrals: Integrals
    decisions: int = 0
    """How often the policy was asked."""
    cycle_s: tuple[float, ...] = ()
    """CPU seconds of each cycle, where they were measured."""
    cpu_s: float = 0.0
    """Of the whole run; what proves plans against every invariant is not counted."""
    reservations: tuple[HeldReservation, ...] = ()
    quota_violations: int = 0
    node_failures: int = 0
    notes: tuple[str, ...] = field(default=())
