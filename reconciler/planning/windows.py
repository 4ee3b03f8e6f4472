"""What reservations keep, from whom and until when: the calendar that every placement obeys.

A window is firm: devices from one instant to another for the jobs it admits.  Nobody else is
started on them where it would still be there at the start: work that cannot checkpoint must end
before by its bound, work that can must have time to run, checkpoint and leave.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.domain.job import JobSpec
from reconciler.domain.plan import Decision
from reconciler.domain.policy import Policy
from reconciler.domain.reservation import ReservationDecision
from reconciler.domain.units import Instant, JobId, NodeName, Seconds, TeamName
from reconciler.planning.remaining import Span
from reconciler.planning.topology import Layout

UNBOUNDED_FACTOR = 2
"""Work without ``time.limit`` is taken to be gone after this many times its p90."""
MARGIN_S = Seconds(30)
"""For the kill of what outlives its grace, beside two cycles to notice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One booked occurrence: ``devices`` in [start, end) for the jobs it admits."""

    reservation: JobId
    team: TeamName
    devices: int
    start: Instant
    end: Instant
    members: frozenset[JobId] = frozenset()
    """Empty: every job of the team."""
    is_exclusive: bool = True
    is_open: bool = False
    budget_group: str | None = None

    def admits(self, job: JobId) -> bool:
        """True for a job that may run inside."""
        if self.members:
            return job in self.members
        return job.startswith(f"{self.team}/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """Every window after this cycle's decisions, sorted by start and reservation."""

    windows: tuple[Window, ...] = ()
    decisions: tuple[ReservationDecision, ...] = ()
    leaving: Mapping[JobId, Decision] = field(default_factory=dict)
    """Attempts that are asked to checkpoint and leave, so that a window opens in time."""

    def __bool__(self) -> bool:
        """False where nothing is kept and nothing was decided."""
        return bool(self.windows or self.decisions)

    def closed_to(self, job: JobId, *, is_preemptible: bool, start: int, until: int) -> int:
        """Return the devices on which ``job`` may not start at ``start`` if it may be on them up
        to ``until`` (its reach, not its expected end)."""
        closed = 0
        for window in self.windows:
            if window.start >= until or window.end <= start or window.admits(job):
                continue
            if window.is_exclusive or not is_preemptible or not window.is_open:
                closed |= window.devices
        return closed

    def open_to(self, spec: JobSpec, start: Instant, reach_s: int, where: Layout) -> int:
        """Return the devices, as bits, on which a job may start at ``start``.

        ``reach_s`` is :func:`reach_s` of it.  Whether they are free is another question.
        """
        everything = (1 << len(where.devices)) - 1
        return everything & ~self.closed_to(
            spec.id, is_preemptible=spec.preemptible, start=start, until=start + reach_s
        )

    def inside(self, job: JobId, at: Instant) -> int:
        """Return the devices of the open windows that admit ``job``: it is placed there first,
        and its team's quota counts them already."""
        found = 0
        for window in self.windows:
            if window.is_open and window.start <= at < window.end and window.admits(job):
                found |= window.devices
        return found

    def wait_for(self, job: JobId) -> Window | None:
        """Return the window that names ``job`` and has not opened; None while one is open."""
        naming = [window for window in self.windows if job in window.members]
        if not naming or any(window.is_open for window in naming):
            return None
        return naming[0]

    def instants(self) -> tuple[Instant, ...]:
        """Return when what is open to whom changes, sorted."""
        return tuple(sorted({each for w in self.windows for each in (w.start, w.end)}))

    def kept_now(self) -> int:
        """Return the devices of all open windows."""
        return self._union(window for window in self.windows if window.is_open)

    def edges(self, where: Layout) -> list[tuple[NodeName, int, Instant]]:
        """Return (node, devices, start) of every window that has not opened, sorted by start."""
        return [
            (node.name, (window.devices & node.all).bit_count(), window.start)
            for window in self.windows
            if not window.is_open
            for node in where.nodes
            if window.devices & node.all
        ]

    @staticmethod
    def _union(windows: Iterator[Window]) -> int:
        found = 0
        for window in windows:
            found |= window.devices
        return found


NO_CALENDAR = Calendar()


def reach_s(spec: JobSpec, left: Span, *, ran_s: int, policy: Policy) -> Seconds:
    """Return how long after its start a job may have to be let alone on its devices.

    One that can checkpoint: long enough to be worth a start, and to leave again.  One that
    cannot: until its time limit, or twice its p90.
    """
    rules = policy.preemption
    if spec.preemptible:
        useful_s = max(rules.restart_s, rules.min_run_s)
        return Seconds(asked_before_s(spec.grace_s, policy) + rules.restart_s + useful_s)
    return bound_s(spec, left, ran_s=ran_s)


def bound_s(spec: JobSpec | None, left: Span, *, ran_s: int) -> Seconds:
    """Return after how many seconds at most a job is gone without being asked: at its limit it
    is told to leave, and takes its grace."""
    if spec is not None and spec.limit_s is not None:
        return Seconds(max(spec.limit_s - ran_s, 1) + spec.grace_s + MARGIN_S)
    return Seconds(UNBOUNDED_FACTOR * left.p90)


def asked_before_s(grace_s: int, policy: Policy) -> Seconds:
    """Return how long before a window opens an attempt on its devices is asked to leave."""
    return Seconds(grace_s + MARGIN_S + 2 * policy.cycle_s)
