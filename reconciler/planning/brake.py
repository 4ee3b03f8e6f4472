"""When are so many files gone at once that nobody believes it?  The brake on mass deletions.

It is judged on the set of jobs, for files that are gone and for files that went and came back:
taking back a mistake must not cost what the mistake was kept from costing.
"""

from reconciler.domain.policy import DeletionPolicy
from reconciler.domain.reason import Reason
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.status import JobStatus
from reconciler.domain.units import JobId


def trips(absent: set[JobId], unfinished: set[JobId], policy: DeletionPolicy) -> bool:
    """True if ``absent`` is more of the unfinished jobs than one wish would end."""
    if not absent:
        return False
    if len(absent) > max(policy.brake_jobs, policy.brake_share * len(unfinished)):
        return True
    if len(absent) >= 2 and absent == unfinished:
        return True
    teams: dict[str, list[bool]] = {}
    for job in sorted(unfinished):
        teams.setdefault(job.split("/")[0], []).append(job in absent)
    return any(len(gone) >= 2 and all(gone) for gone in teams.values())


def returned(snapshot: Snapshot) -> frozenset[JobId]:
    """Return the jobs whose deletion the brake held back, or would have, and that are back.

    Theirs is no new submission: the deletion never happened.  A raised generation is one.
    """
    back, blocked = set(), set()
    for job, seen in snapshot.desired.submissions.items():
        recorded, wanted = snapshot.statuses.get(job), snapshot.desired.jobs.get(job)
        if recorded is None or not _is_unfinished(recorded):
            continue
        if wanted is None or wanted.spec is None:
            continue
        if seen.commit != recorded.submission and wanted.spec.generation == recorded.generation:
            back.add(job)
            if recorded.reason is Reason.PRUNE_BLOCKED:
                blocked.add(job)
    if not back:
        return frozenset()
    unfinished = {job for job, status in snapshot.statuses.items() if _is_unfinished(status)}
    if trips(back, unfinished, snapshot.policy.deletion):
        return frozenset(back)
    return frozenset(blocked)


def _is_unfinished(recorded: JobStatus) -> bool:
    return not recorded.phase.is_finished and recorded.summary is not None
