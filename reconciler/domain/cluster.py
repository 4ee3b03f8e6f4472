"""The machines: cluster > rack > node > NVLink island > device.

A device is a GPU or a CPU slot.  Node states come from policy files (cordoned, draining) and
from what launchers and devices observe (down); the snapshot holds the joined view.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.domain.units import DeviceId, NodeName


class NodeState(StrEnum):
    """``cordoned`` starts nothing new; ``draining`` also empties; ``down`` is not reachable."""

    READY = "ready"
    CORDONED = "cordoned"
    DRAINING = "draining"
    DOWN = "down"


class DeviceKind(StrEnum):
    GPU = "gpu"
    CPU_SLOT = "cpu_slot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One schedulable device.  ``memory_gib`` is usable memory; ``island`` is the NVLink island."""

    id: DeviceId
    kind: DeviceKind
    type: str
    memory_gib: float
    island: str = ""
    """Name of the NVLink island within the node; empty: the device has no NVLink peers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caches:
    """What lies on a node's own disks already, named as ``train.model`` and ``train.dataset``
    name it; sorted."""

    models: tuple[str, ...] = ()
    data: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.models or self.data)


NO_CACHES = Caches()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    name: NodeName
    rack: str
    devices: tuple[Device, ...]
    state: NodeState = NodeState.READY
    caches: Caches = NO_CACHES


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """``id`` is immutable: it names the status branch.  Nodes are sorted by name."""

    id: str
    nodes: tuple[Node, ...]
    rdma_racks: tuple[str, ...] = ()
    """Racks whose nodes reach each other by RDMA, sorted."""
    rdma_between_racks: bool = False
    """Those racks reach each other by RDMA too."""
    rack_watts: Mapping[str, int] = field(default_factory=dict)
    """Watts the devices of a rack may draw together; a rack that is not named has no cap."""
    device_watts: Mapping[str, int] = field(default_factory=dict)
    """Watts a device of a type draws in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShare:
    """Some devices of one node, sorted by id."""

    node: NodeName
    devices: tuple[DeviceId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """Which GPUs of which nodes: shares sorted by node name, never empty."""

    shares: tuple[NodeShare, ...]

    @property
    def gpus(self) -> int:
        """How many devices this is."""
        return sum(len(share.devices) for share in self.shares)

    def devices(self) -> tuple[tuple[NodeName, DeviceId], ...]:
        """Return every (node, device) pair, sorted."""
        return tuple((share.node, device) for share in self.shares for device in share.devices)
