"""Who holds which devices right now, as bits, as counts a row and as use of quotas.

Kept from cycle to cycle: only jobs whose attempt or hold changed are taken out and put back.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import sub

from reconciler.domain.cluster import Allocation
from reconciler.domain.units import JobId, TeamName
from reconciler.domain.value_state import Held
from reconciler.planning.quota import ALL_TYPES
from reconciler.planning.rows import Rows
from reconciler.planning.table import Draft
from reconciler.planning.topology import Layout, positions

Use = dict[tuple[TeamName, str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What one job holds: devices the cluster still has."""

    team: TeamName
    allocation: Allocation
    devices: int
    held: Held
    by_type: tuple[tuple[str, int], ...]


@dataclass(slots=True, kw_only=True)
class Holdings:
    """Mutable while a plan is made, then left alone."""

    where: Layout
    rows: Rows
    of: Draft[JobId, Holding] = field(default_factory=Draft)
    taken: int = 0
    counts: list[int] = field(default_factory=list)
    """Devices taken of each row."""
    use: Use = field(default_factory=dict)
    """GPUs each team holds, by type and of all types."""

    def copy(self) -> "Holdings":
        """Return holdings that change on their own."""
        return Holdings(
            where=self.where,
            rows=self.rows,
            of=Draft(self.of.done()),
            taken=self.taken,
            counts=list(self.counts),
            use=dict(self.use),
        )

    def put(self, job: JobId, team: TeamName, allocation: Allocation) -> Holding:
        """Count what ``job`` holds from here on, instead of what it held, and return it."""
        self.drop(job)
        holding = self.holding(team, allocation)
        self.of[job] = holding
        self.taken |= holding.devices
        for row, count in holding.held:
            self.counts[row] += count
        for name, count in holding.by_type:
            self.use[team, name] = self.use.get((team, name), 0) + count
        return holding

    def drop(self, job: JobId) -> None:
        """Take out what ``job`` held, if it held anything."""
        holding = self.of.pop(job)
        if holding is None:
            return
        self.taken &= ~holding.devices
        for row, count in holding.held:
            self.counts[row] -= count
        for name, count in holding.by_type:
            self.use[holding.team, name] -= count

    def holding(self, team: TeamName, allocation: Allocation) -> Holding:
        """Return an allocation as bits, rows and types."""
        devices = 0
        held: dict[int, int] = {}
        types: dict[str, int] = {}
        bit, row_of = self.where.bit, self.rows.row_of
        for pair in allocation.devices():
            one = bit.get(pair)
            if one is None:
                continue
            devices |= one
            row = row_of[pair]
            held[row] = held.get(row, 0) + 1
        for row, count in held.items():
            name = self.rows.pools[self.rows.nodes.pool[row]][0]
            types[name] = types.get(name, 0) + count
            types[ALL_TYPES] = types.get(ALL_TYPES, 0) + count
        return Holding(
            team=team,
            allocation=allocation,
            devices=devices,
            held=tuple(sorted(held.items())),
            by_type=tuple(sorted(types.items())),
        )


def by_position(holdings: Holdings, jobs: Iterable[JobId]) -> dict[int, JobId]:
    """Return which of the jobs, that run, has each device, by the device's position."""
    return {p: job for job in jobs for p in positions(holdings.of[job].devices)}


def no_holdings(where: Layout, rows: Rows) -> Holdings:
    """Return the holdings of a cluster on which nothing runs."""
    return Holdings(where=where, rows=rows, counts=[0] * len(rows.bits))


def free_rows(rows: Rows, holdings: Holdings, held_back: Iterable[int] = ()) -> list[int]:
    """Return how many devices of each row something new may start on.

    ``held_back`` are devices kept for somebody, some of them still taken by who is leaving.
    """
    free = list(map(sub, rows.ready, holdings.counts))
    if free and min(free) < 0:  # somebody is still on a node that is not ready
        free = [max(count, 0) for count in free]
    for devices in held_back:
        for row, count in rows.held(devices & ~holdings.taken):
            free[row] = max(free[row] - count, 0)
    return free
