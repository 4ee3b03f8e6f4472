"""Where a gang goes in the value order, row by row: for tiny fleets only.

A gang that fits one row takes the row that fits best; a wider one whole rows of one domain, in as
few racks as is easily found, and the rest on the row that fits that best.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from reconciler.domain.value_state import Held
from reconciler.planning.value.fleet import Fleet, JobFacts, Within
from tests.property.brute_belief import Reader


@dataclass
class Floor(Reader):
    """What is free in every row, and where nothing may start."""

    fleet: Fleet
    closed: dict[int, int] = field(default_factory=dict)
    """Rows kept for a firm gang, until when: nothing that cannot be stopped starts there."""

    def __post_init__(self) -> None:
        self.free = list(self.fleet.free)
        self.fixed = [
            each for each in (*self.fleet.running, *self.fleet.aside) if not each.preemptible
        ]

    def edges(self, job: JobFacts) -> set[int]:
        """Return the rows where the job would sit on what is promised before it lets go."""
        found = set()
        for row in range(len(self.free)):
            promised = sum(
                count
                for at_row, count, at in self.fleet.edges
                if at_row == row and (not job.reach_s or at < self.now + job.reach_s)
            )
            if promised and self.free[row] - promised < min(job.gpus, self.fleet.nodes.sizes[row]):
                found.add(row)
        return found

    def avoided(self, job: JobFacts, *, is_first: bool) -> set[int]:
        found = self.edges(job)
        if is_first or not job.preemptible:
            ends = self.now + job.limit - self.served(job) if job.limit else None
            found |= {row for row, at in self.closed.items() if ends is None or ends > at}
        return found

    def pools(self, job: JobFacts) -> Iterator[tuple[list[int], int]]:
        """Yield the rows of each pool that will do, and the size of its largest row."""
        nodes = self.fleet.nodes
        for pool in range(len(nodes.pools)):
            rows = [row for row in range(len(nodes.pool)) if nodes.pool[row] == pool]
            if rows and job.pools >> pool & 1:
                yield rows, max(nodes.sizes[row] for row in rows)

    def beside_fixed(self, job: JobFacts, avoid: Collection[int]) -> Held | None:
        load = [0] * len(self.free)
        for each in self.fixed:
            for row, count in each.held:
                load[row] += count
        rows = [
            (-load[row], self.free[row], -self.worth(job, [row]), row)
            for rows, _ in self.pools(job)
            for row in rows
            if self.free[row] >= job.gpus and row not in avoid
        ]
        return ((min(rows)[3], job.gpus),) if rows else None

    def worth(self, job: JobFacts, rows: Iterable[int]) -> int:
        """Return how near rows are: a model counts for more than all of the data."""
        of, names = self.fleet.nodes.caches, set(job.data)
        return sum(
            (row in of.models.get(job.model, ())) * (len(names) + 1)
            + sum(row in of.data.get(name, ()) for name in names)
            for row in rows
        )

    def place(
        self, job: JobFacts, avoid: Collection[int], *, is_freed: bool = False
    ) -> Held | None:
        """Return the row that fits best, or for a wider gang the first pool's whole rows; of what
        is as good, the nearest, but where victims left for the job (``is_freed``)."""
        fitting = []
        for number, (rows, unit) in enumerate(self.pools(job)):
            if job.gpus <= unit:
                fitting += [
                    (
                        self.free[row] - job.gpus,
                        0 if is_freed else -self.worth(job, [row]),
                        number,
                        row,
                    )
                    for row in rows
                    if self.free[row] >= job.gpus and row not in avoid
                ]
            elif not fitting and job.within != Within.UNIT:
                wide = self._wide(job, [row for row in rows if row not in avoid], unit)
                if wide is not None:
                    return wide if is_freed else self._nearer(job, wide, avoid)
        return ((min(fitting)[3], job.gpus),) if fitting else None

    def _nearer(self, job: JobFacts, found: Held, avoid: Collection[int]) -> Held:
        """Return the nearest of the places of all pools that cost as much as the one found."""
        open_rows = [([row for row in rows if row not in avoid], u) for rows, u in self.pools(job)]
        wide = [self._wide(job, rows, u, near=job) for rows, u in open_rows if job.gpus > u]
        good = [held for held in wide if held and self._cost(held) == self._cost(found)]
        return max((found, *good), key=lambda held: self.worth(job, dict(held)))

    def _cost(self, held: Held) -> tuple[int, int, int]:
        nodes = self.fleet.nodes
        left = sum(self.free[row] - count for row, count in held)
        return (
            len({nodes.node[row] for row, _ in held}),
            len({nodes.rack[r] for r, _ in held}),
            left,
        )

    def _wide(
        self, job: JobFacts, rows: list[int], unit: int, near: JobFacts | None = None
    ) -> Held | None:
        def far(here: Iterable[int]) -> int:
            return 0 if near is None else -self.worth(near, here)

        whole, rest = divmod(job.gpus, unit)
        column = self.domain(job)
        found = []
        for domain in {column[row] for row in rows}:
            here = [row for row in rows if column[row] == domain]
            full = [row for row in here if self.free[row] == unit]
            full.sort(key=lambda row: (far([row]), row))
            if len(full) < whole:
                continue
            best = far(full[:whole])
            chosen = full[:whole]
            if job.within == Within.POOL:
                chosen = self._in_few_racks(full, whole, far)
            parts = [
                (self.free[row], row)
                for row in here
                if row not in chosen and rest and self.free[row] >= rest
            ]
            if rest and not parts:
                continue
            held = [(row, unit) for row in chosen]
            if rest:
                free, part = min(parts)
                sides = self._sides(part, chosen)
                alike = [
                    row
                    for count, row in parts
                    if count == free and self._sides(row, chosen) == sides
                ]
                held.append((min(alike, key=lambda row: (far([row]), row)), rest))
            found.append((len(full), best, domain, tuple(sorted(held))))
        return min(found)[3] if found else None

    def _sides(self, row: int, chosen: Iterable[int]) -> tuple[bool, bool]:
        """Return whether a row is on a node, and in a rack, of those chosen."""
        node, rack = self.fleet.nodes.node, self.fleet.nodes.rack
        return node[row] in {node[r] for r in chosen}, rack[row] in {rack[r] for r in chosen}

    def domain(self, job: JobFacts) -> Sequence[int]:
        nodes = self.fleet.nodes
        if job.within == Within.POOL:
            return [0] * len(self.free)
        return nodes.node if job.within == Within.NODE else nodes.rack

    def _in_few_racks(
        self, full: list[int], whole: int, far: Callable[[Iterable[int]], int]
    ) -> list[int]:
        rack = self.fleet.nodes.rack
        racks = [[row for row in full if rack[row] == each] for each in {rack[row] for row in full}]
        enough = [rows for rows in racks if len(rows) >= whole]
        if enough:
            return min(enough, key=lambda rows: (len(rows), far(rows[:whole]), min(rows)))[:whole]
        racks.sort(key=lambda rows: (-len(rows), far(rows[:whole]), min(rows)))
        return list(chain.from_iterable(racks))[:whole]
