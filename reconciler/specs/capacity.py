"""How large a gang could a cluster ever hold?  Asked once a kind of request, not once a job.

Counts devices of one type that will do, in the fullest domain of each kind; what runs now does
not matter here.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from reconciler.domain.cluster import Cluster, Device, DeviceKind, Node
from reconciler.domain.job import GpuRequest, TopologyDomain
from reconciler.domain.units import TeamName
from reconciler.specs.platform import Platform


class DeviceType(NamedTuple):
    """One type of device, with the usable memory of the largest of them, GiB."""

    name: str
    kind: DeviceKind
    memory_gib: float


class Capacity:
    """The most devices each kind of domain of one cluster holds.

    ``is_guess``: the machine's own devices will stand in for those that conf declares.
    """

    def __init__(self, cluster: Cluster, *, is_guess: bool = False) -> None:
        self.cluster = cluster
        self.is_guess = is_guess
        self.types = _types(cluster)
        self.hardware = f"{is_guess} " + " ".join(f"{each}" for each in self.types)
        """Which types there are, in text: what estimates depend on of a cluster."""
        self._known: dict[tuple[TopologyDomain, tuple[str, ...], float, bool], int] = {}

    def most(self, request: GpuRequest) -> int:
        """Return how many devices the fullest place has in which ``request`` may be."""
        return self.largest(
            request.domain(spans_rdma=self.cluster.rdma_between_racks),
            request.types,
            request.min_memory_gib,
            has_rdma=request.wants_rdma,
        )

    def largest(
        self,
        domain: TopologyDomain,
        types: tuple[str, ...],
        min_memory_gib: float,
        *,
        has_rdma: bool = False,
    ) -> int:
        """Return how many devices of one type that will do the fullest ``domain`` holds.

        ``has_rdma``: in racks whose nodes reach each other by RDMA.
        """
        key = (domain, types, min_memory_gib, has_rdma)
        if key not in self._known:
            here: Counter[tuple[str, str, tuple[str, ...]]] = Counter()
            for node in self.cluster.nodes:
                if has_rdma and node.rack not in self.cluster.rdma_racks:
                    continue
                for device in node.devices:
                    place = _domain_of(domain, node, device)
                    if place is not None and _will_do(device, types, min_memory_gib):
                        here[node.rack, device.type, place] += 1
            counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
            for (rack, kind, place), devices in here.items():
                counts[kind, place] += self._powered(rack, kind, devices)
            self._known[key] = max(counts.values(), default=0)
        return self._known[key]

    def _powered(self, rack: str, kind: str, devices: int) -> int:
        """Return how many of a rack's devices it has the power for at once."""
        each = self.cluster.device_watts.get(kind, 0)
        if not each or rack not in self.cluster.rack_watts:
            return devices
        return min(devices, self.cluster.rack_watts[rack] // each)

    def short_of_power(self) -> tuple[str, ...]:
        """Return the racks whose cap does not allow all of their devices in use, sorted."""
        drawn: Counter[str] = Counter()
        for node in self.cluster.nodes:
            for device in node.devices:
                drawn[node.rack] += self.cluster.device_watts.get(device.type, 0)
        caps = self.cluster.rack_watts
        return tuple(rack for rack in sorted(caps) if drawn[rack] > caps[rack])

    def smallest_domain(
        self, count: int, types: tuple[str, ...], min_memory_gib: float, *, has_rdma: bool = False
    ) -> TopologyDomain:
        """Return the smallest domain with ``count`` devices that will do.

        One device always fits a node, so a gang of one is not tied to NVLink.  ``has_rdma``: what
        is larger than a node needs RDMA between its nodes.
        """
        for domain in (TopologyDomain.NVLINK, TopologyDomain.NODE, TopologyDomain.RACK):
            if domain is TopologyDomain.NVLINK and count == 1:
                continue
            joined = has_rdma and domain is TopologyDomain.RACK
            if self.largest(domain, types, min_memory_gib, has_rdma=joined) >= count:
                return domain
        return TopologyDomain.CLUSTER

    def device_types(self, types: tuple[str, ...], min_memory_gib: float) -> tuple[DeviceType, ...]:
        """Return the types that will do: in the request's order where it names any."""
        fits = [each for each in self.types if each.memory_gib >= min_memory_gib]
        if types:
            fits = sorted(
                (each for each in fits if each.name in types),
                key=lambda each: types.index(each.name),
            )
        return tuple(fits)

    def totals(self) -> Iterator[tuple[str, int]]:
        """Yield (device type, devices of that type) over the whole cluster, sorted by type."""
        counts = Counter(device.type for node in self.cluster.nodes for device in node.devices)
        yield from sorted(counts.items())


class Capacities:
    """The capacity of each team's cluster, made once."""

    def __init__(self, platform: Platform) -> None:
        self._own = Capacity(platform.cluster, is_guess=platform.discovers_devices)
        made = {id(platform.cluster): self._own}
        self._by_team = {
            team: made.setdefault(id(cluster), Capacity(cluster))
            for team, cluster in platform.sample_clusters.items()
        }

    def of(self, team: TeamName) -> Capacity:
        """Return the capacity of the cluster a team's jobs are judged against."""
        return self._by_team.get(team, self._own)


def _types(cluster: Cluster) -> tuple[DeviceType, ...]:
    largest: dict[tuple[str, DeviceKind], float] = {}
    for node in cluster.nodes:
        for device in node.devices:
            key = (device.type, device.kind)
            largest[key] = max(largest.get(key, 0.0), device.memory_gib)
    return tuple(DeviceType(name, kind, largest[name, kind]) for name, kind in sorted(largest))


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
