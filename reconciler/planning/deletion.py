"""What a file that left main means for its job, and when so many left that nobody believes it.

One file gone cancels its job after a second complete read and a grace.  Many gone at once (more
than the brake allows, a whole team, everything) are more likely a mistake than a wish: nothing is
cancelled until an admin allows that many.  The set of absent jobs is judged, never a count of
files, so that as many files added elsewhere do not hide it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.domain.attempt import StopCause
from reconciler.domain.policy import DeletionPolicy
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.status import JobPhase
from reconciler.domain.units import Instant, JobId
from reconciler.planning.brake import trips
from reconciler.planning.standing import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """The verdict over all absent jobs of one snapshot."""

    blocked: frozenset[JobId] = frozenset()
    allowed: frozenset[JobId] = frozenset()
    """Absent jobs an admin's allowance covers: in this snapshot, or recorded before."""


def pruning(snapshot: Snapshot, jobs: Mapping[JobId, Standing]) -> Pruning:
    """Return which absent jobs may not be cancelled, and which an admin allowed."""
    if snapshot.desired.is_rewritten:
        return Pruning()
    unfinished = {job: standing for job, standing in jobs.items() if is_at_stake(standing)}
    absent = {job for job, standing in unfinished.items() if standing.wanted is None}
    allowed = {job for job in absent if _was_allowed(unfinished[job])}
    doubtful = absent - allowed
    if not trips(doubtful, set(unfinished), snapshot.policy.deletion):
        return Pruning(allowed=frozenset(allowed))
    if snapshot.desired.allowed_prune >= len(doubtful):
        return Pruning(allowed=frozenset(absent))
    return Pruning(blocked=frozenset(doubtful), allowed=frozenset(allowed))


def is_at_stake(standing: Standing) -> bool:
    """True for a job whose cancellation would lose something that is not being cancelled yet."""
    status = standing.status
    if status is None or status.phase.is_finished or status.phase is JobPhase.INVALID:
        return False
    live = standing.live
    return live is None or live.stop_cause is not StopCause.CANCEL


def _was_allowed(standing: Standing) -> bool:
    return standing.status is not None and standing.status.prune_allowed


def is_due(standing: Standing, *, now: Instant, policy: DeletionPolicy) -> bool:
    """True once an absent job has been absent in an earlier read too, and for the grace."""
    since = standing.status.absent_since if standing.status is not None else None
    return since is not None and now > since and now - since >= policy.grace_s
