"""Which nodes lost work lately?  They are used last.

One lost attempt says little of a node, two jobs lost on it within a day say enough to prefer any
other place that fits as well.  Nothing is refused: a node that is the only place is used.  An
attempt over several nodes blames none of them.
"""

from collections.abc import Iterable, Mapping

from reconciler.domain.attempt import AttemptPhase
from reconciler.domain.units import Instant, JobId, NodeName
from reconciler.planning.rows import Rows
from reconciler.planning.standing import Standing
from reconciler.planning.topology import Layout

DAY_S = 86_400
ENOUGH_JOBS = 2

LostOn = Mapping[NodeName, Mapping[JobId, Instant]]


def remembered(before: LostOn, ended: Iterable[Standing], now: Instant) -> LostOn:
    """Return which jobs lost an attempt on which nodes in the last day, and when last.

    ``ended`` are jobs whose attempt has just ended; the very ``before`` where nothing changed.
    """
    found = {
        node: recent
        for node, jobs in before.items()
        if (recent := {job: at for job, at in jobs.items() if at > now - DAY_S})
    }
    for standing in ended:
        attempt = standing.attempt
        if attempt is None or attempt.phase is not AttemptPhase.LOST:
            continue
        if len(attempt.allocation.shares) == 1:
            found.setdefault(attempt.allocation.shares[0].node, {})[standing.id] = now
    if found == before:
        return before
    return {node: dict(sorted(found[node].items())) for node in sorted(found)}


def noisy_nodes(lost_on: LostOn, now: Instant) -> frozenset[NodeName]:
    """Return the nodes on which enough jobs lost an attempt within a day."""
    return frozenset(
        node
        for node, jobs in lost_on.items()
        if sum(at > now - DAY_S for at in jobs.values()) >= ENOUGH_JOBS
    )


def noisy_devices(lost_on: LostOn, now: Instant, where: Layout) -> int:
    """Return the devices of those nodes, as bits."""
    names = noisy_nodes(lost_on, now)
    return sum(node.all for node in where.nodes if node.name in names) if names else 0


def noisy_rows(lost_on: LostOn, now: Instant, rows: Rows) -> frozenset[int]:
    """Return the rows of those nodes."""
    names = noisy_nodes(lost_on, now)
    if not names:
        return frozenset()
    return frozenset(row for (node, _), row in rows.row_of.items() if node in names)
