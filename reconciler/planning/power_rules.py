"""Guards the power of racks: no plan gives devices for which a rack has no watts left.

Recomputed from the snapshot and what the plan gives, in the plainest way, whoever made the plan.
A rack whose cap was lowered below what runs there keeps what runs; nothing more is given in it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from reconciler.domain.cluster import Allocation
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import DeviceId, JobId, NodeName
from reconciler.errors import InvariantError
from reconciler.planning.standing import Standing


def check_power(
    snapshot: Snapshot, jobs: Mapping[JobId, Standing], claims: Iterable[Allocation]
) -> None:
    """Raise ``InvariantError`` where a rack in which devices are newly given draws too much.

    ``claims`` are all devices held, started on or kept once the plan is carried out; those who
    are leaving count, as they draw until they have left.
    """
    cluster = snapshot.cluster
    if not cluster.rack_watts:
        return
    before: set[tuple[NodeName, DeviceId]] = set()
    for standing in jobs.values():
        for hold in standing.status.holds if standing.status is not None else ():
            before.update(hold.devices.devices())
        if standing.live is not None:
            before.update(standing.live.allocation.devices())
    after = before.union(*(allocation.devices() for allocation in claims))
    drawn: Counter[str] = Counter()
    given: set[str] = set()
    for node in cluster.nodes:
        for device in node.devices:
            if (node.name, device.id) in after:
                drawn[node.rack] += cluster.device_watts.get(device.type, 0)
                if (node.name, device.id) not in before:
                    given.add(node.rack)
    for rack in sorted(given & cluster.rack_watts.keys()):
        if drawn[rack] > cluster.rack_watts[rack]:
            raise InvariantError(
                f"plan breaks the rule 'the power of racks is kept': {rack} would draw"
                f" {drawn[rack]} W, its cap is {cluster.rack_watts[rack]} W; nothing was recorded"
                " or done"
            )
