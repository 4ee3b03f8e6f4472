"""How large a gang could a cluster ever hold?  Asked once a kind of request, not once a job.

Counts devices of one type that will do, in the fullest domain of each kind; what runs now does
not matter here.
"""

from collections import Counter
from collections.abc import Iterator

from reconciler.domain.cluster import Cluster, Device, Node
from reconciler.domain.job import TopologyDomain
from reconciler.domain.units import TeamName
from reconciler.specs.platform import Platform


class Capacity:
    """The most devices each kind of domain of one cluster holds."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._known: dict[tuple[TopologyDomain, tuple[str, ...], float], int] = {}

    def largest(self, domain: TopologyDomain, types: tuple[str, ...], min_memory_gib: float) -> int:
        """Return how many devices of one type that will do the fullest ``domain`` holds."""
        key = (domain, types, min_memory_gib)
        if key not in self._known:
            counts: Counter[tuple[str, ...]] = Counter()
            for node in self.cluster.nodes:
                for device in node.devices:
                    place = _domain_of(domain, node, device)
                    if place is not None and _will_do(device, types, min_memory_gib):
                        counts[(*place, device.type)] += 1
            self._known[key] = max(counts.values(), default=0)
        return self._known[key]

    def smallest_domain(
        self, count: int, types: tuple[str, ...], min_memory_gib: float
    ) -> TopologyDomain:
        """Return the smallest domain with ``count`` devices that will do.

        One device always fits a node, so a gang of one is not tied to NVLink.
        """
        for domain in (TopologyDomain.NVLINK, TopologyDomain.NODE, TopologyDomain.RACK):
            if domain is TopologyDomain.NVLINK and count == 1:
                continue
            if self.largest(domain, types, min_memory_gib) >= count:
                return domain
        return TopologyDomain.CLUSTER

    def totals(self) -> Iterator[tuple[str, int]]:
        """Yield (device type, devices of that type) over the whole cluster, sorted by type."""
        counts = Counter(device.type for node in self.cluster.nodes for device in node.devices)
        yield from sorted(counts.items())


class Capacities:
    """The capacity of each team's cluster, made once."""

    def __init__(self, platform: Platform) -> None:
        self._own = Capacity(platform.cluster)
        made = {id(platform.cluster): self._own}
        self._by_team = {
            team: made.setdefault(id(cluster), Capacity(cluster))
            for team, cluster in platform.sample_clusters.items()
        }

    def of(self, team: TeamName) -> Capacity:
        """Return the capacity of the cluster a team's jobs are judged against."""
        return self._by_team.get(team, self._own)


def _domain_of(domain: TopologyDomain, node: Node, device: Device) -> tuple[str, ...] | None:
    match domain:
        case TopologyDomain.NVLINK:
            return (node.name, device.island) if device.island else None
        case TopologyDomain.NODE:
            return (node.name,)
        case TopologyDomain.RACK:
            return (node.rack,)
        case TopologyDomain.CLUSTER:
            return ()


def _will_do(device: Device, types: tuple[str, ...], min_memory_gib: float) -> bool:
    return (not types or device.type in types) and device.memory_gib >= min_memory_gib
