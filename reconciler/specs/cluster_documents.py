"""What the cluster's file may hold: types of nodes, nodes with what they
have cached, and the power of racks.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from reconciler.specs.codes import Code
from reconciler.specs.documents import Memory, Name, Section, refuse
from reconciler.specs.findings import GOT, Finding
from reconciler.specs.names import nearest
from reconciler.specs.platform import node_names

MAX_NODES = 20_000
MAX_NAME = 300
"""Letters in the name of a model or of data."""

RackId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$")]
NodeIds = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}(\[[0-9]{1,5}-[0-9]{1,5}\])?$")]
DeviceType = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]


class NodeType(Section):
    kind: Literal["gpu", "cpu_slot"]
    type: DeviceType
    count: Annotated[int, Field(ge=1, le=1024)]
    """Devices of a node."""
    memory: Memory
    """Usable memory of each device."""
    islands: Annotated[int, Field(ge=0)] = 0
    """NVLink islands the devices are split into evenly; 0: no NVLink."""
    watts: Annotated[int, Field(ge=1)] | None = None
    """What a device draws in use; needed where its rack has a power cap."""


def _cache_name(name: str) -> str:
    if name.strip() == name and name.isprintable() and 0 < len(name) <= MAX_NAME:
        return name
    raise refuse(Code.BAD_PLATFORM, f"is no name of a model or of data, got {GOT}", _AS_JOBS_DO)


def _once(names: list[str]) -> list[str]:
    twice = [name for number, name in enumerate(names) if name in names[:number]]
    if twice:
        raise refuse(Code.BAD_PLATFORM, f"names {twice[0]} twice", "once will do")
    return names


_AS_JOBS_DO = "write what `train.model` or `train.dataset` says, such as Qwen/Qwen3-8B"
CacheNames = Annotated[
    list[Annotated[str, AfterValidator(_cache_name)]],
    Field(max_length=1000),
    AfterValidator(_once),
]


class Caches(Section):
    models: CacheNames = Field(default_factory=list)
    """What `train.model` says in the composed jobs, letter by letter."""
    data: CacheNames = Field(default_factory=list)
    """What `train.dataset` says, likewise."""


class Node(Section):
    is_: Annotated[DeviceType, Field(alias="is")]
    """Name of a node type."""
    rack: RackId
    state: Literal["ready", "cordoned", "draining", "down"] = "ready"
    caches: Caches = Field(default_factory=Caches)
    """Models and data on the node's own disks: jobs that read them go there first."""


class Rack(Section):
    power_cap_watts: Annotated[int, Field(ge=1)] | None = None
    """What the devices of the rack may draw together."""
    rdma: bool = False
    """Whether RDMA joins its nodes: a gang that asks for it goes over no others."""


class ClusterConf(Section):
    id: Name
    """Immutable: it names the status branch."""
    discover: bool = False
    """Use this machine's GPUs where it has any, in place of the nodes below."""
    node_types: dict[DeviceType, NodeType]
    nodes: Annotated[dict[NodeIds, Node], Field(min_length=1)]
    """By name; `dgx-[01-16]` stands for sixteen of them."""
    racks: dict[RackId, Rack] = Field(default_factory=dict)
    """Racks whose power is bounded, or whose nodes RDMA joins; the others need no entry."""
    rdma_between_racks: bool = False
    """Whether RDMA joins the racks that have it, too."""


def cluster_findings(cluster: ClusterConf) -> list[Finding]:
    """Return what is wrong with a cluster although every value has its shape."""
    findings = []
    for name, node in cluster.nodes.items():
        if node.is_ not in cluster.node_types:
            close = nearest(node.is_, cluster.node_types)
            findings.append(
                Finding(
                    ("cluster", "nodes", name, "is"),
                    Code.BAD_PLATFORM,
                    f"node {name} is a `{node.is_}`, which node_types does not have",
                    f"did you mean `{close}`?" if close else "",
                )
            )
    findings += _name_findings(cluster)
    for name, kind in cluster.node_types.items():
        if kind.islands and kind.count % kind.islands:
            findings.append(
                Finding(
                    ("cluster", "node_types", name, "islands"),
                    Code.BAD_PLATFORM,
                    f"{kind.count} devices cannot be split evenly into {kind.islands} islands",
                )
            )
    findings += _rack_findings(cluster)
    return findings


def _name_findings(cluster: ClusterConf) -> list[Finding]:
    findings, seen = [], set[str]()
    for written in cluster.nodes:
        names = node_names(written)
        twice = sorted(seen.intersection(names))
        message = f"node {twice[0]} is there already" if twice else ""
        if not names:
            message = f"`{written}` names no node"
        elif len(seen) + len(names) > MAX_NODES:
            message = f"more than {MAX_NODES} nodes"
        if message:
            findings.append(
                Finding(("cluster", "nodes", written), Code.BAD_PLATFORM, message, "", True)
            )
        seen.update(names)
    return findings


def _rack_findings(cluster: ClusterConf) -> list[Finding]:
    """Return what is wrong with racks, and with the watts that a power cap needs."""
    findings = []
    watts: dict[str, int] = {}
    for name, kind in cluster.node_types.items():
        if kind.watts is not None and watts.setdefault(kind.type, kind.watts) != kind.watts:
            message = (
                f"a {kind.type} draws {watts[kind.type]} W in one node type, {kind.watts} W here"
            )
            findings.append(_bad(("cluster", "node_types", name, "watts"), message))
    for name, rack in cluster.racks.items():
        path = ("cluster", "racks", name)
        kinds = [
            cluster.node_types.get(node.is_) for node in cluster.nodes.values() if node.rack == name
        ]
        types = sorted({kind.type for kind in kinds if kind is not None})
        unknown = [kind for kind in types if kind not in watts]
        if not kinds:
            close = nearest(name, {node.rack for node in cluster.nodes.values()})
            hint = f"did you mean `{close}`?" if close else ""
            findings.append(_bad(path, f"no node is in rack {name}", hint))
        elif rack.power_cap_watts is None:
            continue
        elif len(types) > 1:
            hint = "give the nodes of each type a rack of their own, with its share of the watts"
            message = f"a rack under a power cap has devices of one type; {name} has"
            findings.append(_bad(path, f"{message} {' and '.join(types)}", hint))
        elif unknown:
            hint = "add `watts:` to its node type: what a device draws in use"
            findings.append(_bad(path, f"nothing says what a {unknown[0]} draws", hint))
        elif rack.power_cap_watts < watts[types[0]]:
            message = (
                f"{rack.power_cap_watts} W power no {types[0]}, which draws {watts[types[0]]} W"
            )
            findings.append(_bad((*path, "power_cap_watts"), message))
    return findings


def _bad(path: tuple[str, ...], message: str, hint: str = "") -> Finding:
    return Finding(path, Code.BAD_PLATFORM, message, hint)
