"""Is this the snapshot a decision was made from?  One digest over everything the planner may know.

Statuses are named by the commit they were read at, specs by the digest of their composed
document: both are as good as the content, and 10,000 jobs cost milliseconds.
"""

from typing import Any

from reconciler.domain.cluster import Cluster
from reconciler.domain.snapshot import DesiredJob, Snapshot
from reconciler.domain.units import Digest
from reconciler.snapshots.plain import digest_of, plain


def snapshot_digest(snapshot: Snapshot) -> Digest:
    """Return ``sha256:<hex>``; equal for equal snapshots in every process."""
    desired = snapshot.desired
    return digest_of(
        {
            **_calendar(snapshot),
            **_spread(snapshot),
            "now": snapshot.now,
            "previous_look_at": snapshot.previous_look_at,
            "status_commit": snapshot.status_commit,
            "desired": {
                "commit": desired.commit,
                "is_rewritten": desired.is_rewritten,
                "allowed_prune": desired.allowed_prune,
                "jobs": {job: _desired(each) for job, each in desired.jobs.items()},
                "submissions": {job: plain(each) for job, each in desired.submissions.items()},
            },
            "statuses": sorted(snapshot.statuses),
            "observations": plain(snapshot.observations),
            "cluster": _cluster(snapshot.cluster),
            "teams": plain(snapshot.teams),
            "policy": plain(snapshot.policy),
            "sizes": {
                job: [[size.gpus, size.gpu_type, size.duration_p50_s, size.duration_p90_s,
                       size.memory_p50_gib, size.memory_p90_gib] for size in sizes]
                for job, sizes in snapshot.sizes.items()
            },
            "planner_state": plain(snapshot.planner_state),
        }
    )  # fmt: skip


def _calendar(snapshot: Snapshot) -> dict[str, Any]:
    """Return what is known of reservations and budgets; nothing where there are none."""
    found: dict[str, Any] = {}
    if snapshot.reservations:
        found["reservations"] = sorted(snapshot.reservations)
    if snapshot.budgets:
        found["budgets"] = {name: plain(each) for name, each in snapshot.budgets.items()}
    if wanted := snapshot.desired.reservations:
        found["wanted_reservations"] = {
            name: [each.commit, each.spec_digest, plain(each.held.occurrences)]
            for name, each in wanted.items()
        }
    return found


def _cluster(cluster: Cluster) -> dict[str, Any]:
    """Return a cluster as it was told before it could say more than its id and its nodes.

    What it leaves out is left out, so what was recorded before keeps its digest.
    """
    found = {
        name: said
        for name, said in plain(cluster).items()
        if name in ("id", "nodes") or said not in ({}, [], False)
    }
    for node, said in zip(cluster.nodes, found["nodes"], strict=True):
        if not node.caches:
            del said["caches"]
    return found


def _spread(snapshot: Snapshot) -> dict[str, Any]:
    """Return what was measured of being spread; nothing where nothing was."""
    measured = snapshot.measured_spread
    return {"measured_spread": plain(measured)} if measured else {}


def _desired(job: DesiredJob) -> list[Any]:
    return [
        job.commit,
        None if job.spec is None else job.spec.spec_digest,
        [[each.file, each.line, each.column, each.code] for each in job.problems],
        job.author,
        job.problems_commit,
    ]
