"""How much each team may still take at this instant, alone or together with its cohort.

Two counts are kept: what is held now, with those who are leaving still there, and what is held
once they have left and what is kept for somebody is used.  A start is held against both, a hold
against the second.

Teams of one cohort borrow from and lend to each other: what bounds them is the sum of their
quotas, and what each has of it by right is its own quota (:meth:`Room.is_owed`).
"""

from collections.abc import Container, Iterable, Mapping

from reconciler.domain.job import GpuRequest
from reconciler.domain.team import Team
from reconciler.domain.units import JobId, TeamName
from reconciler.planning.holdings import Holdings
from reconciler.planning.quota import ALL_TYPES, account_of, limits
from reconciler.planning.topology import Layout

Counts = dict[tuple[str, str], int]


class Room:
    """Mutable, local to one planning call."""

    def __init__(
        self,
        teams: Mapping[TeamName, Team],
        where: Layout,
        holdings: Holdings,
        leaving: Iterable[JobId],
    ) -> None:
        self._teams = {name: team for name, team in teams.items() if team.quota_gpus}
        self._where = where
        self._account = {name: account_of(team) for name, team in self._teams.items()}
        self._limit = limits(teams)
        self._now: Counts = {}
        self._own: Counts = {}
        for (team_name, kind), gpus in holdings.use.items():
            if team_name in self._teams:
                self._own[team_name, kind] = gpus
                if kind in self._teams[team_name].quota_gpus:
                    key = (self._account[team_name], kind)
                    self._now[key] = self._now.get(key, 0) + gpus
        self._later = dict(self._now)
        self._holdings = holdings
        self.leave(leaving)

    def copy(self) -> "Room":
        """Return room that is taken on its own."""
        twin = object.__new__(Room)
        for name in ("_teams", "_where", "_account", "_limit", "_own", "_holdings"):
            setattr(twin, name, getattr(self, name))
        twin._now, twin._later = dict(self._now), dict(self._later)
        return twin

    def shares(self, team: str, other: str) -> bool:
        """True if what one of two teams leaves, the other may take."""
        mine, theirs = self._account.get(TeamName(team)), self._account.get(TeamName(other))
        return mine is not None and mine == theirs

    def begins(self, team: str, devices: int) -> bool:
        """Count devices that are kept for the team as taken now; False where it may not yet."""
        if team not in self._teams:
            return True
        counted = self._counted(devices)
        if not all(self._has_room(team, kind, gpus, self._now) for kind, gpus in counted):
            return False
        self._add(self._now, team, counted, 1)
        return True

    def __bool__(self) -> bool:
        """True where any team has a quota."""
        return bool(self._teams)

    def is_bounded(self, team: str) -> bool:
        """True for a team that has a quota at all."""
        return team in self._teams

    def leave(self, jobs: Iterable[JobId]) -> None:
        """Count what these jobs hold as free again later, not now."""
        if self._teams:
            for job in jobs:
                holding = self._holdings.of.get(job)
                if holding is not None:
                    self._add(self._later, holding.team, holding.by_type, -1)

    def start(self, team: str, devices: int) -> None:
        """Count devices as taken from now on."""
        if team in self._teams:
            counted = self._counted(devices)
            self._add(self._now, team, counted, 1)
            self._add(self._later, team, counted, 1)

    def keep(self, team: str, devices: int, *, sign: int = 1) -> None:
        """Count devices as kept for somebody who starts later; ``sign=-1``: not any more."""
        if team in self._teams:
            self._add(self._later, team, self._counted(devices), sign)

    def allows(self, team: str, devices: int, *, later: bool = False) -> bool:
        """True if the team may take devices now, or ``later``: once those who leave have left."""
        if team not in self._teams:
            return True
        tables = (self._later,) if later else (self._now, self._later)
        return all(
            self._has_room(team, kind, gpus, table)
            for kind, gpus in self._counted(devices)
            for table in tables
        )

    def allows_of_type(self, team: str, kind: str, gpus: int) -> bool:
        """True if ``gpus`` more of a type are within the team's quota, now and later."""
        return all(
            self._has_room(team, name, gpus, table)
            for name in (kind, ALL_TYPES)
            for table in (self._now, self._later)
        )

    def allows_later(self, team: str, devices: int, without: Container[JobId]) -> bool:
        """True if the team may have devices kept for it once ``without`` have left too."""
        if team not in self._teams:
            return True
        saved = dict(self._later)
        self.leave(job for job in self._holdings.of if job in without)
        found = self.allows(team, devices, later=True)
        self._later = saved
        return found

    def headroom(self) -> dict[str, int]:
        """Return GPUs of all types each account may still take; accounts without bound are left
        out."""
        return {
            key[0]: limit - max(self._now.get(key, 0), self._later.get(key, 0))
            for key, limit in self._limit.items()
            if key[1] == ALL_TYPES
        }

    def account(self, team: str) -> str | None:
        """Return what bounds a team over all types; None where nothing does."""
        account = self._account.get(TeamName(team))
        return account if account is not None and (account, ALL_TYPES) in self._limit else None

    @property
    def has_types(self) -> bool:
        """True where a quota bounds one type of device."""
        return any(kind != ALL_TYPES for _, kind in self._limit)

    @property
    def has_cohorts(self) -> bool:
        """True where teams borrow from each other."""
        return any(team.cohort is not None for team in self._teams.values())

    def allowed_bits(self, team: str, gpus: int, leaving: Iterable[JobId] = ()) -> int:
        """Return the devices among which ``gpus`` more are within quota, as bits.

        Now, or where somebody is ``leaving`` for it, once they have left.
        """
        everything = (1 << len(self._where.devices)) - 1
        if team not in self._teams:
            return everything
        room, tables = self, [self._now, self._later]
        leaving = tuple(leaving)
        if leaving:
            room = self.copy()
            room.leave(leaving)
            tables = [room._later]
        if not all(room._has_room(team, ALL_TYPES, gpus, table) for table in tables):
            return 0
        for kind, of_type in self._where.by_type.items():
            if not all(room._has_room(team, kind, gpus, table) for table in tables):
                everything &= ~of_type
        return everything

    def is_owed_any(self, team: str, request: GpuRequest) -> bool:
        """True if a team of a cohort asks for no more than its own quota of some type."""
        kinds = request.types or tuple(self._where.by_type)
        return any(self.is_owed(team, kind, request.count) for kind in kinds)

    def over(self, team: TeamName) -> dict[str, int]:
        """Return by type how many GPUs a team has borrowed: holds above its own quota."""
        quota = self._teams[team].quota_gpus if team in self._teams else {}
        held = {kind: self._own.get((team, kind), 0) - limit for kind, limit in quota.items()}
        return {kind: gpus for kind, gpus in held.items() if gpus > 0}

    def is_owed(self, team: str, kind: str, gpus: int) -> bool:
        """True if a team of a cohort asks for no more than its own quota of a type."""
        value = self._teams.get(TeamName(team))
        if value is None or value.cohort is None:
            return False
        return all(
            self._own.get((team, name), 0) + gpus <= value.quota_gpus[name]
            for name in (kind, ALL_TYPES)
            if name in value.quota_gpus
        )

    def _has_room(self, team: str, kind: str, gpus: int, table: Counts) -> bool:
        name = TeamName(team)
        if name not in self._teams or kind not in self._teams[name].quota_gpus:
            return True
        key = (self._account[name], kind)
        return table.get(key, 0) + gpus <= self._limit[key]

    def _counted(self, devices: int) -> list[tuple[str, int]]:
        found = [
            (kind, (devices & of_type).bit_count()) for kind, of_type in self._where.by_type.items()
        ]
        return [*((kind, gpus) for kind, gpus in found if gpus), (ALL_TYPES, devices.bit_count())]

    def _add(self, table: Counts, team: str, counted: Iterable[tuple[str, int]], sign: int) -> None:
        name = TeamName(team)
        if name not in self._teams:
            return
        for kind, gpus in counted:
            if kind in self._teams[name].quota_gpus:
                key = (self._account[name], kind)
                table[key] = table.get(key, 0) + sign * gpus
