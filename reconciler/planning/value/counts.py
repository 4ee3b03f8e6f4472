"""Where does a gang fit, counted in free devices per row?

Rows of one pool are kept in lists by their free count, so best fit looks at as many lists as a row
has devices.  A gang that is larger than a row takes whole rows and the rest on the row that it
fits best; a gang is placed whole or not at all, in one pool and inside its domain.  Of places
alike in all of that it gets the nearest: where most of its model and data lies already.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import compress
from operator import ne

from reconciler.domain.value_state import Held
from reconciler.planning.value.fleet import Nodes, Within

NOWHERE: frozenset[int] = frozenset()
NONE_NEAR: Mapping[int, int] = {}
"""What rows are worth to a job of which none has anything."""


class FreeCounts:
    """Free devices per row, with the rows of each pool sorted by them."""

    def __init__(self, nodes: Nodes, free: Sequence[int]) -> None:
        self.nodes = nodes
        self.free = list(free)
        pools = len(nodes.pools)
        self.unit = [0] * pools
        for pool, size in zip(nodes.pool, nodes.sizes, strict=True):
            if size > self.unit[pool]:
                self.unit[pool] = size
        self.by_free: list[list[list[int]]] = [
            [[] for _ in range(self.unit[pool] + 1)] for pool in range(pools)
        ]
        for row, count in enumerate(self.free):
            self.by_free[nodes.pool[row]][count].append(row)

    def become(self, free: Sequence[int]) -> None:
        """Be as if made with these free devices."""
        mine = self.free
        for row in compress(range(len(mine)), map(ne, mine, free)):
            self._move(row, free[row])

    def take(self, held: Held) -> None:
        """Mark devices as held."""
        for row, count in held:
            self._move(row, self.free[row] - count)

    def give(self, held: Held) -> None:
        """Mark devices as free again."""
        for row, count in held:
            self._move(row, self.free[row] + count)

    def _move(self, row: int, count: int) -> None:
        lists = self.by_free[self.nodes.pool[row]]
        old = lists[self.free[row]]
        del old[bisect_left(old, row)]
        insort(lists[count], row)
        self.free[row] = count

    def pools_of(self, mask: int) -> Iterable[int]:
        """Return the pools that have rows and will do, in order."""
        return [pool for pool, unit in enumerate(self.unit) if unit and mask >> pool & 1]

    def place(
        self, gpus: int, pools: int, within: Within, avoid: Collection[int] = NOWHERE
    ) -> Held | None:
        """Return the best place for a gang on free devices outside ``avoid``, or None."""
        best: tuple[int, Held] | None = None
        for pool in self.pools_of(pools):
            unit = self.unit[pool]
            if gpus <= unit:
                found = self._one_row(gpus, pool, avoid)
                if found is not None:
                    left = self.free[found] - gpus
                    if best is None or left < best[0]:
                        best = left, ((found, gpus),)
                    if left == 0:
                        break
                    continue
            if within != Within.UNIT and best is None:
                held = self._many_rows(gpus, pool, within, avoid)
                if held is not None:
                    return held
        return None if best is None else best[1]

    def place_near(
        self,
        gpus: int,
        pools: int,
        within: Within,
        avoid: Collection[int],
        near: Mapping[int, int],
    ) -> Held | None:
        """Return the nearest of the places that are as good as the one :meth:`place` finds.

        ``near``: what rows are worth that have something of what the job reads.
        """
        found = self.place(gpus, pools, within, avoid)
        if found is None:
            return None
        if len(found) == 1:
            return self._nearest_row(found[0], pools, avoid, near)
        alike = [found]
        for pool in self.pools_of(pools):
            held = self._many_rows(gpus, pool, within, avoid, near)
            if held is not None and self._cost(held) == self._cost(found):
                alike.append(held)
        return min(alike, key=lambda held: -_worth((row for row, _ in held), near))

    def _nearest_row(
        self, found: tuple[int, int], pools: int, avoid: Collection[int], near: Mapping[int, int]
    ) -> Held:
        """Return the nearest of the rows that leave as much over."""
        count = self.free[found[0]]
        best, gpus = found
        for pool in self.pools_of(pools):
            for row in self.by_free[pool][count] if count <= self.unit[pool] else ():
                if near.get(row, 0) > near.get(best, 0) and row not in avoid:
                    best = row
        return ((best, gpus),)

    def _cost(self, held: Held) -> tuple[int, int, int]:
        """Return on how many nodes and in how many racks a gang is, and what it leaves over."""
        node, rack = self.nodes.node, self.nodes.rack
        left = sum(self.free[row] - count for row, count in held)
        return len({node[row] for row, _ in held}), len({rack[row] for row, _ in held}), left

    def _one_row(self, gpus: int, pool: int, avoid: Collection[int]) -> int | None:
        for rows in self.by_free[pool][gpus:]:
            for row in rows:
                if row not in avoid:
                    return row
        return None

    def _many_rows(
        self,
        gpus: int,
        pool: int,
        within: Within,
        avoid: Collection[int],
        near: Mapping[int, int] = NONE_NEAR,
    ) -> Held | None:
        unit = self.unit[pool]
        if gpus <= unit:
            return None
        whole, rest = divmod(gpus, unit)
        full = [row for row in self.by_free[pool][unit] if row not in avoid]
        if len(full) < whole + (rest > 0 and not self._has_part(rest, pool, avoid)):
            return None
        if within != Within.POOL:
            return self._in_domain(whole, rest, pool, within, avoid, full, near)
        return self._joined(self._nearest(full, whole, near), rest, pool, avoid, near)

    def _has_part(self, rest: int, pool: int, avoid: Collection[int]) -> bool:
        lists = self.by_free[pool]
        return any(
            row not in avoid for count in range(rest, self.unit[pool]) for row in lists[count]
        )

    def _nearest(self, full: list[int], whole: int, near: Mapping[int, int]) -> list[int]:
        """Return ``whole`` of the rows in as few racks as is easily found."""
        racks = _grouped(full, self.nodes.rack, near)
        enough = [rows for rows in racks.values() if len(rows) >= whole]
        if enough:
            return min(enough, key=lambda rows: (len(rows), *_first(rows, whole, near)))[:whole]
        chosen: list[int] = []
        for rows in sorted(
            racks.values(), key=lambda rows: (-len(rows), *_first(rows, whole, near))
        ):
            chosen += rows
        return chosen[:whole]

    def _in_domain(
        self,
        whole: int,
        rest: int,
        pool: int,
        within: Within,
        avoid: Collection[int],
        full: list[int],
        near: Mapping[int, int],
    ) -> Held | None:
        column = self.nodes.node if within == Within.NODE else self.nodes.rack
        domains = _grouped(full, column, near)
        worth = {name: _worth(rows[:whole], near) for name, rows in domains.items()} if near else {}
        for domain in sorted(
            domains, key=lambda name: (len(domains[name]), -worth.get(name, 0), name)
        ):
            rows = domains[domain]
            if len(rows) < whole:
                continue
            outside = {row for row in range(len(self.free)) if column[row] != domain}
            held = self._joined(rows[:whole], rest, pool, outside | set(avoid), near)
            if held is not None:
                return held
        return None

    def _joined(
        self, rows: list[int], rest: int, pool: int, avoid: Collection[int], near: Mapping[int, int]
    ) -> Held | None:
        unit = self.unit[pool]
        held = [(row, unit) for row in rows]
        if rest:
            part = self._one_row(rest, pool, {*avoid, *rows})
            if part is None:
                return None
            if near:
                part = self._nearest_part(part, rows, {*avoid, *rows}, near)
            held.append((part, rest))
        return tuple(sorted(held))

    def _nearest_part(
        self, part: int, rows: list[int], avoid: Collection[int], near: Mapping[int, int]
    ) -> int:
        """Return the nearest row for the rest of a gang that is alike one on which it fits best."""
        of, pool = self.nodes, self.nodes.pool[part]
        nodes, racks = {of.node[row] for row in rows}, {of.rack[row] for row in rows}
        kind = of.node[part] in nodes, of.rack[part] in racks
        alike = [
            row
            for row in self.by_free[pool][self.free[part]]
            if row not in avoid and (of.node[row] in nodes, of.rack[row] in racks) == kind
        ]
        return min(alike, key=lambda row: (-near.get(row, 0), row))


def _grouped(
    rows: Iterable[int], column: Sequence[int], near: Mapping[int, int]
) -> dict[int, list[int]]:
    """Return the rows of each domain, in their order or the nearest first."""
    found: dict[int, list[int]] = {}
    for row in rows:
        found.setdefault(column[row], []).append(row)
    if near:
        for here in found.values():
            here.sort(key=lambda row: (-near.get(row, 0), row))
    return found


def _first(rows: list[int], whole: int, near: Mapping[int, int]) -> tuple[int, int]:
    """Return by what the one of two racks goes first that hold as many whole rows."""
    return (-_worth(rows[:whole], near), min(rows)) if near else (0, rows[0])


def _worth(rows: Iterable[int], near: Mapping[int, int]) -> int:
    return sum(near.get(row, 0) for row in rows)
