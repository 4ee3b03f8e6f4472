"""Everything a planner may know, at one instant and one pair of revisions.

``snapshots`` assembles it; ``planning`` only reads it.  What is in no commit (``now``,
observations, node states, what was learned of the read) is recorded in
``.headway/inputs.json``, so a snapshot can be assembled again from commits alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.domain.attempt import Observation
from reconciler.domain.budget import Budget
from reconciler.domain.cluster import Cluster
from reconciler.domain.job import GangSize, JobSpec, Submission
from reconciler.domain.plan import PlannerState
from reconciler.domain.policy import Policy
from reconciler.domain.problem import SpecProblem
from reconciler.domain.reservation import Reservation, ReservationStatus
from reconciler.domain.spread import SpreadMeasured
from reconciler.domain.status import JobStatus
from reconciler.domain.team import Team
from reconciler.domain.units import AttemptId, CommitId, Digest, Instant, JobId, TeamName


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredJob:
    """What main says about one path.

    ``spec`` is of ``commit``.  Where the newest document has problems, ``spec`` and ``commit``
    are those of the last valid one (the status's ``observed_commit``), or ``spec`` is None when
    there never was one, and ``problems`` says what is wrong with the newest.
    """

    id: JobId
    commit: CommitId
    spec: JobSpec | None
    problems: tuple[SpecProblem, ...] = ()
    author: str = ""
    """``Name <e-mail>`` of the commit that brought the problems; empty without problems."""
    problems_commit: CommitId = CommitId("")
    """The commit that brought the problems; empty without problems."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredReservation:
    """What main says about the path of a reservation: its last valid document.

    ``held`` has the occurrences of the weeks ahead; ``problems`` says what is wrong with a newer
    document, which then changes nothing.
    """

    id: JobId
    commit: CommitId
    held: Reservation
    spec_digest: Digest = Digest("")
    problems: tuple[SpecProblem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """One complete read of main.  An incomplete read never becomes a Desired."""

    commit: CommitId
    jobs: Mapping[JobId, DesiredJob]
    submissions: Mapping[JobId, Submission] = field(default_factory=dict)
    """For jobs whose (path, generation) appeared, or appeared again, since the cursor."""
    is_rewritten: bool = False
    """The tip does not descend from the last one acted on: no launches, no cancels."""
    allowed_prune: int = 0
    """From a ``Headway-Allow-Prune: N`` trailer by an admin since the cursor."""
    reservations: Mapping[JobId, DesiredReservation] = field(default_factory=dict)
    """Sorted; a path is a job or a reservation, never both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    now: Instant
    desired: Desired
    statuses: Mapping[JobId, JobStatus]
    observations: Mapping[AttemptId, Observation]
    """One per live attempt; a missing one counts as ``unknown``."""
    cluster: Cluster
    teams: Mapping[TeamName, Team]
    policy: Policy = Policy()
    sizes: Mapping[JobId, tuple[GangSize, ...]] = field(default_factory=dict)
    """Legal sizes of each job with a spec; the first is the requested one."""
    measured_spread: SpreadMeasured = SpreadMeasured()
    """What the fleet's runs measured of being spread, where the policy weighs places."""
    planner_state: PlannerState = PlannerState()
    status_commit: CommitId | None = None
    """Tip of the status branch the statuses were read at; None: the branch does not exist."""
    previous_look_at: Instant | None = None
    """When the reconciler last read main before this; bounds ``submitted_at`` from below."""
    reservations: Mapping[JobId, ReservationStatus] = field(default_factory=dict)
    """Statuses of reservations, sorted."""
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    """By name, sorted, with their periods at ``now``."""
