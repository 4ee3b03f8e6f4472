"""How many GPUs a team may hold at once, by type and together.

Everything that keeps devices counts: live attempts, holds for preemptors, starts of this plan,
and, for later starts, what is planned by then.  The quota is of the devices, not of the request:
a gang may go where its type still has room.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from reconciler.domain.team import Team
from reconciler.domain.units import Instant, JobId, TeamName
from reconciler.planning.topology import Layout

ALL_TYPES = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """GPUs of one type a team holds, or is planned to hold, in [start, end)."""

    job: JobId
    team: TeamName = TeamName("")
    start: Instant
    end: Instant
    type: str
    gpus: int


class TeamUse:
    """What each team uses over time.  Mutable, local to one pure planning call."""

    def __init__(self, teams: Mapping[TeamName, Team], where: Layout) -> None:
        self._quota = {name: team.quota_gpus for name, team in teams.items() if team.quota_gpus}
        self._account = {name: account_of(teams[name]) for name in self._quota}
        self._limit = limits(teams)
        self._where = where
        self._uses: dict[str, list[Use]] = {account: [] for account in self._account.values()}

    def is_bounded(self, team: TeamName) -> bool:
        """True for a team that has a quota at all."""
        return team in self._quota

    def add(self, job: JobId, team: TeamName, devices: int, start: Instant, end: Instant) -> None:
        """Count the job's ``devices`` for ``team`` in [start, end)."""
        if team not in self._quota or end <= start:
            return
        for name, of_type in self._where.by_type.items():
            gpus = (devices & of_type).bit_count()
            if gpus:
                use = Use(job=job, team=team, start=start, end=end, type=name, gpus=gpus)
                self._uses[self._account[team]].append(use)

    def held(self, team: TeamName, device_type: str, at: Instant) -> int:
        """Return how many GPUs of a type (``*``: of all) the team holds at ``at``."""
        return sum(
            use.gpus
            for use in self._uses.get(self._account.get(team, ""), ())
            if use.team == team
            and use.start <= at < use.end
            and device_type in (ALL_TYPES, use.type)
        )

    def allowed(
        self,
        team: TeamName,
        gpus: int,
        start: Instant,
        end: Instant,
        *,
        without: Container[JobId] = (),
    ) -> int:
        """Return the devices, as bits, among which ``gpus`` more are within quota in [start, end).

        What the jobs ``without`` use is not counted: they are asked to leave.
        """
        everything = (1 << len(self._where.devices)) - 1
        quota = self._quota.get(team)
        if quota is None:
            return everything
        account = self._account[team]
        during = [
            use
            for use in self._uses[account]
            if use.start < end and use.end > start and use.job not in without
        ]
        if ALL_TYPES in quota:
            counted = [use for use in during if ALL_TYPES in self._quota[use.team]]
            if peak(counted) + gpus > self._limit[account, ALL_TYPES]:
                return 0
        for name, of_type in self._where.by_type.items():
            if name not in quota:
                continue
            of_kind = [u for u in during if u.type == name and name in self._quota[u.team]]
            if peak(of_kind) + gpus > self._limit[account, name]:
                everything &= ~of_type
        return everything


def account_of(team: Team) -> str:
    """Return what a team's GPUs are counted together in: its cohort, or itself."""
    return f"cohort {team.cohort}" if team.cohort is not None else f"team {team.name}"


def limits(teams: Mapping[TeamName, Team]) -> dict[tuple[str, str], int]:
    """Return the GPUs each account may hold at once, by type: the sum of its teams' quotas.

    Teams of one cohort borrow from and lend to each other.
    """
    found: dict[tuple[str, str], int] = {}
    for team in teams.values():
        for kind, gpus in team.quota_gpus.items():
            key = (account_of(team), kind)
            found[key] = found.get(key, 0) + gpus
    return found


def peak(uses: Sequence[Use]) -> int:
    """Return the most GPUs in use at any one instant."""
    changes = sorted(
        change for use in uses for change in ((use.start, use.gpus), (use.end, -use.gpus))
    )
    most = held = 0
    for _, change in changes:
        held += change
        most = max(most, held)
    return most
