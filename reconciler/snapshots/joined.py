"""Which machines are there, and in which state?  Conf's declaration joined with what was seen."""

from dataclasses import replace

from reconciler.domain.cluster import Cluster, Node, NodeState
from reconciler.snapshots.inputs import Inputs

_GRAVITY = {
    NodeState.READY: 0,
    NodeState.CORDONED: 1,
    NodeState.DRAINING: 2,
    NodeState.DOWN: 3,
}


def joined_cluster(declared: Cluster, inputs: Inputs) -> Cluster:
    """Return the cluster of conf with the devices and node states that were seen.

    Of a declared and a seen state the graver one counts: a node that is down is not ready
    because conf says so, and one that conf drains is not ready because it answers.
    """
    return replace(declared, nodes=tuple(_joined(node, inputs) for node in declared.nodes))


def _joined(node: Node, inputs: Inputs) -> Node:
    seen = inputs.node_states.get(node.name, NodeState.READY)
    return replace(
        node,
        devices=inputs.devices.get(node.name, node.devices),
        state=max(node.state, seen, key=_GRAVITY.__getitem__),
    )
