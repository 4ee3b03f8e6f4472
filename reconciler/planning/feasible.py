"""When would this reservation fit?  Now, at its start, or at the next starts where it would.

Free is what no window keeps and what whoever holds it now can have left: work that checkpoints
can be asked to, other work is there until its bound.  The team's quota and the budget count too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from reconciler.domain.reason import Reason
from reconciler.domain.reservation import FeasibleStart, Reservation
from reconciler.domain.team import Team
from reconciler.domain.units import Instant, Seconds, TeamName
from reconciler.planning.occupancy import Timeline
from reconciler.planning.placement import fits, place
from reconciler.planning.quota import ALL_TYPES, account_of, limits
from reconciler.planning.topology import Layout, Shape
from reconciler.planning.windows import Window

WINDOWS_TOLD = 3
AHEAD_S = Seconds(35 * 86400)
STARTS_TRIED = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Devices that somebody holds: surely until ``gone_at``, probably until ``expected_gone``."""

    team: TeamName
    devices: int
    gone_at: Instant
    """When it has left at the latest, if it is asked to from now on."""
    expected_gone: Instant
    """When it is expected to leave by itself."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no place at one start."""

    reason: Reason
    detail: str


BudgetRoom = Callable[[Reservation, Instant, Instant, Iterable[Window]], str]
"""Why the budget has no room for a reservation in [start, end) beside the other windows, with
figures; empty: it has."""


def no_budget(held: Reservation, start: Instant, end: Instant, others: Iterable[Window]) -> str:
    """Return that there is room: nothing is budgeted."""
    del held, start, end, others
    return ""


_Use: TypeAlias = tuple[int, int, int]
"""Devices, from, until."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Quotas that bound what some teams hold together."""

    name: str
    """Whose they are, in words."""
    teams: frozenset[TeamName]
    limits: Mapping[str, int]
    """GPUs by type; ``*``: of all types."""
    counts_jobs: bool = True
    """False: only windows count."""

    @property
    def word(self) -> str:
        """What is counted, as a verb."""
        return "holds" if self.counts_jobs else "reserves"


def accounts_of(team: TeamName, teams: Mapping[TeamName, Team]) -> tuple[Account, ...]:
    """Return the quotas that a reservation of ``team`` has to be within."""
    own = teams.get(team)
    if own is None or not own.quota_gpus:
        return ()
    alone, name = frozenset((team,)), f"team {team}"
    if own.cohort is None:
        return (Account(name=name, teams=alone, limits=own.quota_gpus),)
    key = account_of(own)
    together = {kind: gpus for (account, kind), gpus in limits(teams).items() if account == key}
    members = frozenset(
        each.name for each in teams.values() if each.quota_gpus and account_of(each) == key
    )
    return (
        Account(name=name, teams=alone, limits=own.quota_gpus, counts_jobs=False),
        Account(name=f"cohort {own.cohort}", teams=members, limits=together),
    )


class Room:
    """What is free for one reservation over time."""

    def __init__(
        self,
        held: Reservation,
        shape: Shape,
        where: Layout,
        *,
        now: Instant,
        accounts: Iterable[Account],
        obstacles: Iterable[Obstacle],
        windows: Iterable[Window],
        budget: Callable[[Reservation, Instant, Instant], str],
        turns: tuple[Instant, ...] = (),
    ) -> None:
        """``turns`` are instants at which the budget begins anew."""
        self._held = held
        self._everything = (1 << len(where.devices)) - 1
        self._shape = shape
        self._where = where
        self._now = now
        self._accounts = tuple(accounts)
        self._budget = budget
        self._turns = turns
        self._hard = Timeline(now, where.ready)
        self._soft = Timeline(now, where.ready)
        self._uses: list[list[_Use]] = [[] for _ in self._accounts]
        for each in obstacles:
            self._hard.occupy(each.devices, now, each.gone_at)
            self._soft.occupy(each.devices, now, max(each.gone_at, each.expected_gone))
            for account, uses in zip(self._accounts, self._uses, strict=True):
                if account.counts_jobs and each.team in account.teams:
                    uses.append((each.devices, now, each.expected_gone))
        for window in windows:
            self._hard.occupy(window.devices, window.start, window.end)
            self._soft.occupy(window.devices, window.start, window.end)
            for account, uses in zip(self._accounts, self._uses, strict=True):
                if window.team in account.teams:
                    uses.append((window.devices, window.start, window.end))

    def place(self, start: Instant, end: Instant) -> int | Refusal:
        """Return the devices for [start, end), or why there are none.

        Where nobody has to be asked to leave is better than where somebody has.
        """
        if not fits(self._shape, self._where.most, self._where):
            return Refusal(Reason.NEVER_FITS, "the cluster has no such place")
        within, said = self._within_quota(start, end)
        free = self._hard.free_between(max(start, self._now), end)
        if not fits(self._shape, self._where.up & within, self._where):
            return Refusal(Reason.QUOTA_EXCEEDED, said)
        if said := self._budget(self._held, start, end):
            return Refusal(Reason.BUDGET_EXCEEDED, said)
        untouched = self._soft.free_between(max(start, self._now), end)
        for usable in (untouched, free):
            devices = place(self._shape, usable & within, self._where)
            if devices is not None:
                return devices
        return Refusal(Reason.WINDOW_TAKEN, "no such GPUs can be free for all of it")

    def _within_quota(self, start: Instant, end: Instant) -> tuple[int, str]:
        """Return the devices whose type has room in every quota, and words with figures."""
        allowed, said, gpus = self._everything, [], self._held.gpus.count
        for account, uses in zip(self._accounts, self._uses, strict=True):
            parts = []
            for name, limit in sorted(account.limits.items()):
                of_type = (
                    self._everything if name == ALL_TYPES else self._where.by_type.get(name, 0)
                )
                most = _peak([(u[0] & of_type, u[1], u[2]) for u in uses], start, end)
                kind = f"{self._where.unit}s" if name == ALL_TYPES else name
                parts.append(f"{most} of {limit} {kind}")
                if most + gpus > limit:
                    allowed &= ~of_type
            if parts:
                said.append(f"{account.name} then {account.word} {', '.join(parts)}")
        return allowed, f"{'; '.join(said)}; this asks for {gpus}" if said else ""

    def instead_of(self, start: Instant, end: Instant) -> tuple[FeasibleStart, ...]:
        """Return the earliest start there is, and the next ones after the start asked for."""
        length_s = end - start
        earliest = self.next_windows(length_s, self._now, most=1)
        if not earliest or start <= self._now:
            return self.next_windows(length_s, self._now)
        later = self.next_windows(length_s, start)
        found = {each.first: each for each in (*later, *earliest)}
        return tuple(found[first] for first in sorted(found))[:WINDOWS_TOLD]

    def next_windows(
        self, length_s: int, not_before: Instant, *, most: int = WINDOWS_TOLD
    ) -> tuple[FeasibleStart, ...]:
        """Return the next intervals of starts at which it would fit, earliest first."""
        found: list[FeasibleStart] = []
        first: Instant | None = None
        last: Instant | None = None
        for start in self._candidates(length_s, not_before):
            if self._fits_at(start, Instant(start + length_s)):
                first, last = (start if first is None else first), start
            elif first is not None:
                found.append(FeasibleStart(first=first, last=last))
                first = None
                if len(found) == most:
                    return tuple(found)
        if first is not None:
            found.append(FeasibleStart(first=first))
        return tuple(found)

    def _fits_at(self, start: Instant, end: Instant) -> bool:
        """True where :meth:`place` finds a place; cheaper."""
        free = self._hard.free_between(max(start, self._now), end)
        if not fits(self._shape, free, self._where):
            return False
        within, _ = self._within_quota(start, end)
        has_room = within == self._everything or fits(self._shape, free & within, self._where)
        return has_room and not self._budget(self._held, start, end)

    def _ends(self) -> Iterator[Instant]:
        return (Instant(end) for uses in self._uses for _, _, end in uses)

    def _candidates(self, length_s: int, not_before: Instant) -> Iterator[Instant]:
        """Yield the starts between which nothing changes: a start becomes possible where
        something ends, and impossible where the end would reach into something."""
        horizon = not_before + AHEAD_S
        changes = {*self._hard.instants(), *self._turns, *self._ends()}
        starts: set[int] = {not_before}
        for at in changes:
            starts |= {at, at - length_s, at - length_s + 1}
        ahead = sorted(at for at in starts if not_before <= at <= horizon)
        yield from (Instant(at) for at in ahead[:STARTS_TRIED])


def _peak(uses: list[_Use], start: int, end: int) -> int:
    """Return the most devices in use at one instant of [start, end); a device counts once."""
    during = [use for use in uses if use[0] and use[1] < end and use[2] > start]
    instants = {start, *(use[1] for use in during if use[1] > start)}
    most = 0
    for at in instants:
        union = 0
        for devices, since, until in during:
            if since <= at < until:
                union |= devices
        most = max(most, union.bit_count())
    return most
