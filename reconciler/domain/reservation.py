"""GPUs kept from one instant to another, as declared under ``jobs/`` with ``kind: Reservation``.

A reservation is a calendar of occurrences.  Each is booked on devices of its own, and what is
booked is firm: no later arrival may delay it.  The status is the file
``status/<team>/<name>.json`` with ``kind: Reservation``; its JSON spelling is
``reconciler.specs.serialize``.  ``message`` holds no durations, no instants and no secrets.
"""

from dataclasses import dataclass
from enum import StrEnum

from reconciler.domain.cluster import Allocation
from reconciler.domain.job import GpuRequest
from reconciler.domain.reason import Reason
from reconciler.domain.units import CommitId, Digest, Instant, JobId, JobName, Seconds, TeamName

PAST_KEPT = 5
NEXT_KEPT = 5


class ReservationPhase(StrEnum):
    PLANNED = "planned"
    ACTIVE = "active"
    RELEASED = "released"
    """Handed back before its end, because nobody used it."""
    ENDED = "ended"
    REFUSED = "refused"
    CANCELLED = "cancelled"

    @property
    def is_firm(self) -> bool:
        """True while devices are kept, or promised."""
        return self in (ReservationPhase.PLANNED, ReservationPhase.ACTIVE)


class Every(StrEnum):
    """How a reservation recurs.  Occurrences keep local clock time."""

    WEEKLY = "weekly"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """One calendar hold; ``occurrences`` are (start, end) instants, UTC, sorted by start.

    A recurrence is stored with its first occurrence; ``specs.reservations.expanded`` adds those
    of the weeks ahead, because the calendar is not the planner's to know.
    """

    team: TeamName
    name: JobName
    gpus: GpuRequest
    occurrences: tuple[tuple[Instant, Instant], ...]
    timezone: str = "UTC"
    every: Every | None = None
    until: Instant | None = None
    for_jobs: tuple[JobId, ...] = ()
    """Jobs that wait for it and run inside; empty: the whole team may use it."""
    exclusive: bool = True
    """False: preemptible work of others may use what is idle, and leaves when it is wanted."""
    release_if_idle_s: Seconds | None = None
    budget_group: str | None = None

    @property
    def id(self) -> JobId:
        """``<team>/<name>``."""
        return JobId(f"{self.team}/{self.name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FeasibleStart:
    """Starts at which an occurrence would fit: any from ``first`` to ``last``."""

    first: Instant
    last: Instant | None = None
    """None: as far ahead as the planner looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One time GPUs are kept: [start, end)."""

    start: Instant
    end: Instant
    phase: ReservationPhase
    reason: Reason
    message: str = ""
    devices: Allocation | None = None
    """None where it was refused."""
    idle_gpu_s: int = 0
    """GPU-seconds in which a reserved device had no attempt, up to ``counted_at``."""
    idle_gpus: int = 0
    """Devices that have had no attempt since ``counted_at``."""
    counted_at: Instant | None = None
    windows: tuple[FeasibleStart, ...] = ()
    """Where it was refused: when it would fit, earliest first."""

    def idle_gpu_s_at(self, now: Instant) -> int:
        """Return the idle GPU-seconds by ``now``."""
        if self.phase is not ReservationPhase.ACTIVE or self.counted_at is None:
            return self.idle_gpu_s
        return self.idle_gpu_s + self.idle_gpus * max(min(now, self.end) - self.counted_at, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationSummary:
    """What lists show of a reservation, and what its accounts need when its file is gone."""

    gpus: int
    gpu_types: tuple[str, ...] = ()
    for_jobs: tuple[JobId, ...] = ()
    exclusive: bool = True
    release_if_idle_s: Seconds | None = None
    budget_group: str | None = None
    timezone: str = "UTC"
    every: Every | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationStatus:
    """What the reconciler remembers of one reservation."""

    reservation: JobId
    phase: ReservationPhase
    """Of the occurrence that is open, else of the next one, else of the last."""
    reason: Reason
    message: str = ""
    observed_commit: CommitId = CommitId("")
    spec_digest: Digest = Digest("")
    summary: ReservationSummary | None = None
    occurrences: tuple[Occurrence, ...] = ()
    """The past five and the next five, sorted by start."""
    past_idle_gpu_s: int = 0
    """Of the occurrences that are over, those not listed any more included."""
    absent_since: Instant | None = None
    """First complete read in which the file was gone from main."""
    since: Instant | None = None
    """When ``phase`` last changed."""


class ReservationVerb(StrEnum):
    BOOK = "book"
    OPEN = "open"
    RELEASE = "release"
    CLOSE = "close"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationDecision:
    """What becomes of one occurrence in this cycle: exactly one for each that changed."""

    reservation: JobId
    verb: ReservationVerb
    reason: Reason
    occurrence: Occurrence
    """As it is after this decision."""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OccurrenceTransition:
    """One line of a status commit: ``<reservation> <start>: <before> -> <after> (<reason>)``."""

    reservation: JobId
    start: Instant
    before: ReservationPhase | None
    """None: the occurrence is new."""
    after: ReservationPhase
    reason: Reason
