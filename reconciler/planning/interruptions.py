"""How many jobs of others a team may still stop today: what makes an urgent class cost something.

Counted a victim, over the last 24 hours, from what the planner remembers.  A team without a budget
is not counted.
"""

from collections.abc import Mapping

from reconciler.domain.team import Team
from reconciler.domain.units import Instant, TeamName

DAY_S = 86_400


class Interruptions:
    """Mutable, local to one planning call."""

    def __init__(
        self,
        made: Mapping[TeamName, tuple[Instant, ...]],
        teams: Mapping[TeamName, Team],
        now: Instant,
    ) -> None:
        self._before = made
        self._teams = teams
        self._now = now
        self._spent: dict[TeamName, int] = {}

    def allows(self, team: TeamName, victims: int) -> bool:
        """True if ``team`` may make that many more jobs leave now."""
        bound = self._bound(team)
        return bound is None or len(self._recent(team)) + victims <= bound

    def is_used_up(self, team: TeamName) -> bool:
        """True if ``team`` may stop nobody any more today."""
        return not self.allows(team, 1)

    def spend(self, team: TeamName, victims: int) -> None:
        """Count victims of a job of ``team``."""
        if self._bound(team) is not None:
            self._spent[team] = self._spent.get(team, 0) + victims

    def made(self) -> Mapping[TeamName, tuple[Instant, ...]]:
        """Return what to remember; the very mapping it began with where nobody was stopped."""
        if not self._spent:
            return self._before
        teams = sorted({*self._before, *self._spent})
        found = {team: self._recent(team) for team in teams}
        return {team: instants for team, instants in found.items() if instants}

    def _bound(self, team: TeamName) -> int | None:
        value = self._teams.get(team)
        return None if value is None else value.interruptions_per_day

    def _recent(self, team: TeamName) -> tuple[Instant, ...]:
        earlier = (at for at in self._before.get(team, ()) if at > self._now - DAY_S)
        return (*earlier, *(self._now for _ in range(self._spent.get(team, 0))))
