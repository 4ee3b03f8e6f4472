"""What was decided for one snapshot: decisions, actions, forecast.

Exactly one decision per job and cycle.  Actions are requests to the world, each idempotent by
attempt id, asked for only after the decision is recorded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from reconciler.domain.attempt import Attempt, StopCause
from reconciler.domain.budget import BudgetUse
from reconciler.domain.cluster import Allocation
from reconciler.domain.reason import Reason
from reconciler.domain.reservation import ReservationDecision
from reconciler.domain.units import AttemptId, Digest, Instant, JobId, NodeName, Seconds, TeamName
from reconciler.domain.value_state import ValueState


class Verb(StrEnum):
    START = "start"
    KEEP = "keep"
    WAIT = "wait"
    PREEMPT = "preempt"
    RESIZE = "resize"
    SUSPEND = "suspend"
    CANCEL = "cancel"
    FINISH = "finish"
    REJECT = "reject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of one job in this cycle, and why."""

    job: JobId
    verb: Verb
    reason: Reason
    detail: str = ""
    """Deterministic text for people: names and counts, no instants, no durations."""
    attempt: Attempt | None = None
    """``Start``: the attempt to launch, in phase ``launching``."""
    victims: tuple[JobId, ...] = ()
    """``Wait`` with reason ``preempting``: who is asked to leave."""
    for_job: JobId | None = None
    """``Preempt``: the preemptor."""
    hold: Allocation | None = None
    """``Wait`` with reason ``preempting``: the devices kept for this job."""
    rank: int | None = None
    """Place in the ranking of pending jobs, from 1."""
    score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Start the attempt; a no-op where it already runs or ran."""

    job: JobId
    attempt: AttemptId


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Ask the attempt to checkpoint and leave; the launcher kills it after ``grace_s``."""

    job: JobId
    attempt: AttemptId
    grace_s: Seconds
    cause: StopCause


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """End the attempt now."""

    job: JobId
    attempt: AttemptId


Action: TypeAlias = Launch | Stop | Kill


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """When one job is expected to start and end, and where."""

    job: JobId
    start_p50: Instant
    start_p90: Instant
    end_p50: Instant
    end_p90: Instant
    allocation: Allocation | None
    rests_on: tuple[JobId, ...] = ()
    """Jobs whose end (or preemption) this start waits for, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """GPU-seconds of a team's ended attempts, each halved every half life until ``at``."""

    gpu_seconds: int
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerState:
    """What the planner must remember between cycles, recorded with the decision.

    Ranking by score needs no memory; the value order adds learned durations and firm places.
    """

    version: int = 1
    spent: Mapping[str, int] = field(default_factory=dict)
    """GPU-seconds by ``<budget> <start of the period>``: what ended attempts and idle
    reservations used, whatever became of their statuses."""
    value: ValueState = ValueState()
    interruptions: Mapping[TeamName, tuple[Instant, ...]] = field(default_factory=dict)
    """When jobs of a team last made others leave, one instant a victim, of the last day."""
    used: Mapping[TeamName, Used] = field(default_factory=dict)
    """What each team's ended attempts used, where the policy counts fair use."""
    lost_on: Mapping[NodeName, Mapping[JobId, Instant]] = field(default_factory=dict)
    """When jobs last lost an attempt that ran on one node alone, of the last day."""
    patience: Mapping[JobId, Instant] = field(default_factory=dict)
    """Until when a waiting job that could start spread may hold off for a better place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``decisions`` and ``forecast`` are sorted by job; ``forecast`` has every job that is
    pending or holds devices and can run at all."""

    now: Instant
    decisions: Mapping[JobId, Decision]
    actions: tuple[Action, ...] = ()
    forecast: Mapping[JobId, Expectation] = field(default_factory=dict)
    planner_state: PlannerState = PlannerState()
    digest: Digest = Digest("")
    """Over the changed decisions (all but Keep and unchanged Wait) and the actions, canonical."""
    reservations: tuple[ReservationDecision, ...] = ()
    """One for each occurrence that changed, sorted by reservation and start."""
    budgets: tuple[BudgetUse, ...] = ()
    """How every budget stands with this plan, sorted by name."""
