"""GPUs kept from one instant to another, as declared under ``jobs/`` with ``kind: Reservation``.

The value exists so that documents can be validated and converted.  This version of the planner
holds no reservations: ``reconciler.specs.validate`` refuses them by name until it does.
"""

from dataclasses import dataclass
from enum import StrEnum

from reconciler.domain.job import GpuRequest
from reconciler.domain.units import Instant, JobId, JobName, Seconds, TeamName


class ReservationPhase(StrEnum):
    PLANNED = "planned"
    ACTIVE = "active"
    RELEASED = "released"
    ENDED = "ended"
    REFUSED = "refused"
    CANCELLED = "cancelled"


class Every(StrEnum):
    """How a reservation recurs.  Occurrences keep local clock time."""

    WEEKLY = "weekly"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """One calendar hold; ``occurrences`` are (start, end) instants, UTC, sorted by start."""

    team: TeamName
    name: JobName
    gpus: GpuRequest
    occurrences: tuple[tuple[Instant, Instant], ...]
    timezone: str = "UTC"
    every: Every | None = None
    until: Instant | None = None
    for_jobs: tuple[JobId, ...] = ()
    """Empty: the whole team may use it."""
    exclusive: bool = True
    release_if_idle_s: Seconds | None = None
