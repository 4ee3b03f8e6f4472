"""Nodes that die and come back, by hash: a mean of 60 days between two failures, an hour each."""

from dataclasses import dataclass
from math import log

from reconciler.simulate.chance import uniform

MEAN_BETWEEN_S = 60 * 86400
REPAIR_S = 3600


@dataclass(frozen=True, slots=True, order=True)
class Failure:
    """One failure of one node, on the trace's clock."""

    at_s: int
    node: int

    @property
    def repaired_s(self) -> int:
        """When the node is back."""
        return self.at_s + REPAIR_S


def failures(nodes: int, *, first_s: int, last_s: int, seed: int) -> tuple[Failure, ...]:
    """Return every failure between two instants, in order of time; a node down cannot fail."""
    found = []
    for node in range(nodes):
        at, number = float(first_s), 0
        while True:
            u = uniform(seed, f"failure {number}", f"node {node}")
            at += -log(1 - u) * MEAN_BETWEEN_S
            if at >= last_s:
                break
            found.append(Failure(int(at), node))
            at += REPAIR_S
            number += 1
    return tuple(sorted(found))
