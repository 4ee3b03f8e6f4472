"""Machines as counts: how many GPUs of each node are free, and which nodes a gang would get.

A gang of at most one node's GPUs goes on the node with the least room that holds it; a wider one
takes whole nodes and the remainder the same way.  With ToR groups, whole nodes come from as few
groups as there are.  Ties go to the lowest node.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from math import ceil
from typing import TypeAlias

Place: TypeAlias = tuple[tuple[int, int], ...]
"""(node, GPUs) pairs."""

SPANS_MORE_GROUPS = 1.28
SPANS_MORE_NODES = 1.05


class Nodes:
    """Free GPUs of ``count`` equal nodes; closed nodes hold nothing and give nothing."""

    def __init__(self, count: int, per_node: int, tor_size: int | None = None) -> None:
        self.count = count
        self.per_node = per_node
        self.tor_size = tor_size
        self.free = [per_node] * count
        self.closed: set[int] = set()
        self.free_gpus = count * per_node
        """Of the open nodes."""
        self._with: list[list[int]] = [[] for _ in range(per_node + 1)]
        self._with[per_node] = list(range(count))

    def find(self, gpus: int) -> Place | None:
        """Return where a gang of ``gpus`` would go now; None where it does not fit."""
        if gpus > self.free_gpus:
            return None
        whole, rest = divmod(gpus, self.per_node)
        empty = self._with[self.per_node]
        if whole == 0 or (whole == 1 and rest == 0):
            for room in range(gpus, self.per_node + 1):
                if self._with[room]:
                    return ((self._with[room][0], gpus),)
            return None
        if len(empty) < whole:
            return None
        taken = self._whole(whole)
        pairs = [(node, self.per_node) for node in taken]
        if rest:
            node = self._rest(rest, taken)
            if node is None:
                return None
            pairs.append((node, rest))
        return tuple(pairs)

    def _rest(self, rest: int, taken: Sequence[int]) -> int | None:
        for room in range(rest, self.per_node):
            if self._with[room]:
                return self._with[room][0]
        gone = set(taken)
        return next((node for node in self._with[self.per_node] if node not in gone), None)

    def _whole(self, whole: int) -> Sequence[int]:
        empty = self._with[self.per_node]
        if self.tor_size is None or whole == 1:
            return empty[:whole]
        groups: dict[int, list[int]] = {}
        for node in empty:
            groups.setdefault(node // self.tor_size, []).append(node)
        fitting = [(len(nodes), group) for group, nodes in groups.items() if len(nodes) >= whole]
        if fitting:
            return groups[min(fitting)[1]][:whole]
        fullest = sorted(groups, key=lambda group: (-len(groups[group]), group))
        taken: list[int] = []
        for group in fullest:
            taken += groups[group][: whole - len(taken)]
        return taken

    def take(self, place: Place) -> None:
        """Give the GPUs of ``place``, which must be free."""
        for node, gpus in place:
            self._move(node, self.free[node] - gpus)
            self.free_gpus -= gpus

    def give(self, place: Iterable[tuple[int, int]]) -> None:
        """Take back the GPUs of ``place``; those of a closed node are free when it opens."""
        for node, gpus in place:
            if node in self.closed:
                self.free[node] += gpus
                continue
            self._move(node, self.free[node] + gpus)
            self.free_gpus += gpus

    def close(self, node: int) -> None:
        """Let nothing more start on ``node``."""
        if node not in self.closed:
            self._drop(node)
            self.closed.add(node)
            self.free_gpus -= self.free[node]

    def open(self, node: int) -> None:
        """Let ``node`` be used again."""
        if node in self.closed:
            self.closed.discard(node)
            insort(self._with[self.free[node]], node)
            self.free_gpus += self.free[node]

    def empty_nodes(self) -> int:
        """Return how many open nodes have all their GPUs free."""
        return len(self._with[self.per_node])

    def room(self) -> int:
        """Return the most GPUs one open node has free."""
        return next((room for room in range(self.per_node, 0, -1) if self._with[room]), 0)

    def copy(self) -> "Nodes":
        """Return nodes of their own in the same state."""
        other = Nodes.__new__(Nodes)
        other.count, other.per_node, other.tor_size = self.count, self.per_node, self.tor_size
        other.free = list(self.free)
        other.closed = set(self.closed)
        other.free_gpus = self.free_gpus
        other._with = [list(nodes) for nodes in self._with]
        return other

    def _move(self, node: int, free: int) -> None:
        self._drop(node)
        self.free[node] = free
        insort(self._with[free], node)

    def _drop(self, node: int) -> None:
        nodes = self._with[self.free[node]]
        del nodes[bisect_left(nodes, node)]

    def slowdown(self, place: Place) -> float:
        """Return how much longer work takes on ``place`` than on the best one for its size.

        1.28 for a gang of several nodes that spans more ToR groups than it must, 1.05 for one
        that spans more nodes than it must; 1 without ToR groups.
        """
        if self.tor_size is None:
            return 1.0
        gpus = sum(count for _, count in place)
        fewest = ceil(gpus / self.per_node)
        nodes = {node for node, _ in place}
        groups = {node // self.tor_size for node in nodes}
        if len(nodes) > 1 and len(groups) > ceil(fewest / self.tor_size):
            return SPANS_MORE_GROUPS
        return SPANS_MORE_NODES if len(nodes) > fewest else 1.0
