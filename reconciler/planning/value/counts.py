"""Where does a gang fit, counted in free devices per row?

Rows of one pool are kept in lists by their free count, so best fit looks at as many lists as a row
has devices.  A gang that is larger than a row takes whole rows and the rest on the row that it
fits best; a gang is placed whole or not at all, in one pool and inside its domain.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Sequence
from itertools import compress
from operator import ne

from reconciler.domain.value_state import Held
from reconciler.planning.value.fleet import Nodes, Within

NOWHERE: frozenset[int] = frozenset()


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

    def _one_row(self, gpus: int, pool: int, avoid: Collection[int]) -> int | None:
        for rows in self.by_free[pool][gpus:]:
            for row in rows:
                if row not in avoid:
                    return row
        return None

    def _many_rows(
        self, gpus: int, pool: int, within: Within, avoid: Collection[int]
    ) -> Held | None:
        unit = self.unit[pool]
        if gpus <= unit:
            return None
        whole, rest = divmod(gpus, unit)
        full = [row for row in self.by_free[pool][unit] if row not in avoid]
        if len(full) < whole + (rest > 0 and not self._has_part(rest, pool, avoid)):
            return None
        if within != Within.POOL:
            return self._in_domain(whole, rest, pool, within, avoid, full)
        return self._joined(self._nearest(full, whole), rest, pool, avoid)

    def _has_part(self, rest: int, pool: int, avoid: Collection[int]) -> bool:
        lists = self.by_free[pool]
        return any(
            row not in avoid for count in range(rest, self.unit[pool]) for row in lists[count]
        )

    def _nearest(self, full: list[int], whole: int) -> list[int]:
        """Return ``whole`` of the rows in as few racks as is easily found."""
        rack = self.nodes.rack
        racks: dict[int, list[int]] = {}
        for row in full:
            racks.setdefault(rack[row], []).append(row)
        enough = [rows for rows in racks.values() if len(rows) >= whole]
        if enough:
            return min(enough, key=lambda rows: (len(rows), rows[0]))[:whole]
        chosen: list[int] = []
        for rows in sorted(racks.values(), key=lambda rows: (-len(rows), rows[0])):
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
    ) -> Held | None:
        column = self.nodes.node if within == Within.NODE else self.nodes.rack
        domains: dict[int, list[int]] = {}
        for row in full:
            domains.setdefault(column[row], []).append(row)
        for domain in sorted(domains, key=lambda name: (len(domains[name]), name)):
            rows = domains[domain]
            if len(rows) < whole:
                continue
            outside = {row for row in range(len(self.free)) if column[row] != domain}
            held = self._joined(rows[:whole], rest, pool, outside | set(avoid))
            if held is not None:
                return held
        return None

    def _joined(self, rows: list[int], rest: int, pool: int, avoid: Collection[int]) -> Held | None:
        unit = self.unit[pool]
        held = [(row, unit) for row in rows]
        if rest:
            part = self._one_row(rest, pool, {*avoid, *rows})
            if part is None:
                return None
            held.append((part, rest))
        return tuple(sorted(held))
