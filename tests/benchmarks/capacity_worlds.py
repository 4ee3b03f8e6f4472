"""Large made-up fleets for measuring the planner: the same seed makes the same fleet.

Nodes of eight GPUs, sixteen to a rack, two types; most GPUs are held, some reserved over the next
seven days, and gangs of 1 to 1,000 GPUs wait with the usual limits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from reconciler.domain.cluster import Cluster, Device, DeviceKind, Node
from reconciler.domain.job import GpuRequest, JobSpec, TopologyDomain
from reconciler.domain.units import (
    DeviceId,
    Instant,
    JobId,
    JobName,
    NodeName,
    Seconds,
    TeamName,
)
from reconciler.planning.board import Contender
from reconciler.planning.capacity.cold import Ask
from reconciler.planning.capacity.gang import Gangs
from reconciler.planning.capacity.grid import Grid, grid_of
from reconciler.planning.capacity.holds import Holds, Taken
from reconciler.planning.capacity.profile import Limits, limits_of
from reconciler.planning.everyone import Everyone
from reconciler.planning.remaining import Span
from reconciler.planning.topology import Shape, layout

NOW = Instant(1_764_500_000)
HOUR = 3600
SIZE = 8
RACK = 16
TEAMS = 12
TYPES = ("A100-80GB", "H100-80GB")
LIMITS = (
    (HOUR, 30),
    (4 * HOUR, 25),
    (12 * HOUR, 20),
    (24 * HOUR, 15),
    (72 * HOUR, 8),
    (168 * HOUR, 2),
)
GANGS = (
    (1, 60.0),
    (2, 10.0),
    (4, 8.0),
    (8, 10.5),
    (16, 5.0),
    (32, 3.0),
    (64, 2.0),
    (128, 1.0),
    (256, 0.4),
    (512, 0.08),
    (1000, 0.02),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One pending gang with its team, 0 to ``TEAMS`` - 1."""

    request: GpuRequest
    ask: Ask
    team: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FleetWorld:
    """A fleet at ``NOW``; ``pending`` in rank order."""

    grid: Grid
    gangs: Gangs
    running: tuple[Taken, ...]
    running_teams: tuple[int, ...]
    reserved: tuple[Taken, ...]
    pending: tuple[Asked, ...]

    @property
    def holds(self) -> Holds:
        """Everything that is held or reserved."""
        return Holds.of([*self.running, *self.reserved])

    @property
    def asks(self) -> list[Ask]:
        """What the pending gangs ask for, without quotas."""
        return [asked.ask for asked in self.pending]

    def asks_within(self, factor: float) -> list[Ask]:
        """Return the asks under quotas of ``factor`` times each team's fair share.

        Shares follow the GPU-hours asked for; no team gets less than 1,000 GPUs or than it uses.
        """
        work = [0.0] * TEAMS
        for asked in self.pending:
            work[asked.team] += asked.ask.gang.devices * asked.ask.duration_s
        used = [0] * TEAMS
        for team, (rows, count, _, _) in zip(self.running_teams, self.running, strict=True):
            used[team] += len(rows) * _each(count)
        total = int(self.grid.size.sum())
        limits = [
            self._limits(team, max(1000, int(total * factor * work[team] / sum(work)), used[team]))
            for team in range(TEAMS)
        ]
        return [asked.ask._replace(limits=limits[asked.team]) for asked in self.pending]

    def _limits(self, team: int, quota: int) -> Limits:
        made = limits_of({"*": quota}, self.grid.types, NOW)
        for owner, (rows, count, start, end) in zip(self.running_teams, self.running, strict=True):
            if owner == team:
                made.spend(self.grid.type_of[rows[0]], start, end, len(rows) * _each(count))
        return made


def _each(count: Sequence[int] | int) -> int:
    assert isinstance(count, int)  # every row of a made-up hold gives the same
    return count


def a_fleet(
    *, nodes: int = 1250, pending: int = 10_000, seed: int = 1, exact_seconds: bool = False
) -> FleetWorld:
    """Return a fleet with about 1.2 running jobs a node and one reservation in sixty nodes."""
    random = Random(seed)
    grid = grid_of(layout(a_large_cluster(nodes)))
    made = _Maker(random, grid, Gangs(grid), exact_seconds)
    running, teams = made.running(int(nodes * 1.2))
    return FleetWorld(
        grid=grid,
        gangs=made.gangs,
        running=tuple(running),
        running_teams=tuple(teams),
        reserved=tuple(made.reserved(max(nodes // 60, 1), running)),
        pending=tuple(made.asked() for _ in range(pending)),
    )


def a_large_cluster(nodes: int) -> Cluster:
    """Return nodes of eight GPUs, the first 40 % of the racks of the first type."""
    racks = -(-nodes // RACK)
    first_type = round(racks * 0.4)
    return Cluster(
        id="large",
        nodes=tuple(
            _node(number, TYPES[0] if number // RACK < first_type else TYPES[1])
            for number in range(nodes)
        ),
    )


def _node(number: int, kind: str) -> Node:
    name = f"n{number:05}"
    devices = tuple(
        Device(
            id=DeviceId(f"{name}-{i}"),
            kind=DeviceKind.GPU,
            type=kind,
            memory_gib=79.15,
            island="0",
        )
        for i in range(SIZE)
    )
    return Node(name=NodeName(name), rack=f"r{number // RACK:04}", devices=devices)


class _Maker:
    def __init__(self, random: Random, grid: Grid, gangs: Gangs, exact_seconds: bool) -> None:
        self._random = random
        self._grid = grid
        self.gangs = gangs
        self._exact = exact_seconds

    def asked(self) -> Asked:
        """Return one pending gang that fits the fleet."""
        while True:
            devices = self._one_of(GANGS)
            within = TopologyDomain.NODE
            if devices > SIZE:
                narrow = devices <= RACK * SIZE and self._random.random() < 0.4
                within = TopologyDomain.RACK if narrow else TopologyDomain.CLUSTER
            types = self._random.choices(((), TYPES[:1], TYPES[1:]), (50, 20, 30))[0]
            request = GpuRequest(count=devices, within=within, types=types)
            gang = self.gangs.of(request)
            if gang.fits:
                team = min(TEAMS - 1, int(self._random.paretovariate(1)) - 1)
                ask = Ask(gang, Seconds(self._duration()))
                return Asked(request=request, ask=ask, team=team)

    def _duration(self) -> int:
        limit = int(self._one_of(LIMITS))
        if not self._exact:
            return limit
        return max(300, int(limit * self._random.lognormvariate(-0.5, 1.0)))

    def _one_of(self, table: Sequence[tuple[int, float]]) -> int:
        values, weights = zip(*table, strict=True)
        chosen: int = self._random.choices(values, weights)[0]
        return chosen

    def running(self, most: int) -> tuple[list[Taken], list[int]]:
        """Return holds that fill at most 97 % of the fleet, and their teams."""
        free = self._grid.size.tolist()
        left = int(sum(free) * 0.97)
        found: list[Taken] = []
        teams: list[int] = []
        misses = 0
        while len(found) < most and left > 0 and misses < 400:
            asked = self.asked()
            way = self._random.choice(asked.ask.gang.ways)
            rows = self._free_rows(free, way.type, way.width, way.count)
            if rows is None or way.devices > left:
                misses += 1
                continue
            for row in rows:
                free[row] -= way.count
            left -= way.devices
            lasts = max(60, int(asked.ask.duration_s * self._random.random()))
            found.append((rows, way.count, NOW, Instant(NOW + lasts)))
            teams.append(asked.team)
        return found, teams

    def _free_rows(
        self, free: Sequence[int], kind: int, width: int, count: int
    ) -> tuple[int, ...] | None:
        low, high = self._grid.spans[kind]
        at = self._random.randrange(low, high)
        rows = [row for row in (*range(at, high), *range(low, at)) if free[row] >= count]
        return tuple(rows[:width]) if len(rows) >= width and width <= (high - low) // 4 else None

    def reserved(self, count: int, running: Sequence[Taken]) -> list[Taken]:
        """Return whole nodes kept for some hours within the next seven days."""
        busy_until = [0] * len(self._grid.size)
        for rows, _, _, end in running:
            for row in rows:
                busy_until[row] = max(busy_until[row], end)
        kept: list[Taken] = []
        for _ in range(count * 50):
            if len(kept) == count:
                break
            width = self._random.choice((1, 2, 4, 8, 16))
            start = Instant(NOW + self._random.randrange(2 * HOUR, 168 * HOUR))
            end = Instant(start + self._random.choice((4, 8, 12, 24)) * HOUR)
            at = self._random.randrange(len(busy_until))
            rows = [
                row for row in (*range(at, len(busy_until)), *range(at)) if busy_until[row] <= start
            ][:width]
            if len(rows) == width:
                for row in rows:
                    busy_until[row] = end
                kept.append((tuple(rows), SIZE, start, end))
        return kept


def a_view(fleet: FleetWorld) -> Everyone:
    """Return the fleet's pending gangs as the forecast of everyone sees them, nothing running.

    A p90 is half as long again as the p50.
    """
    contenders = [
        Contender(
            spec=JobSpec(
                team=TeamName(f"team{asked.team}"), name=JobName(f"job{rank}"), gpus=asked.request
            ),
            shape=Shape(count=asked.request.count, within=asked.request.within, per_type=()),
            key=(0, 0.0, NOW, JobId(f"team{asked.team}/job{rank:06}")),
            left=Span(p50=asked.ask.duration_s, p90=Seconds(asked.ask.duration_s * 3 // 2)),
            not_before=NOW,
        )
        for rank, asked in enumerate(fleet.pending)
    ]
    return Everyone(
        now=NOW,
        where=layout(a_large_cluster(len(fleet.grid.names))),
        gangs=fleet.gangs,
        teams={},
        holders=(),
        contenders=contenders,
    )
