"""When and where could everybody run?  The plan of all contenders over exact capacity.

What holds devices holds them until it is expected to be gone; what this cycle fixed is given; all
others get their earliest place in rank order, after their dependencies and within their quotas.
Asked twice: once with everything taken to last its p50, once its p90, and then no start is earlier
than the first time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

from reconciler.domain.team import Team
from reconciler.domain.units import Instant, JobId, TeamName
from reconciler.planning.board import Contender, Holder
from reconciler.planning.capacity.cold import Ask, find_first, place_first
from reconciler.planning.capacity.gang import Gangs
from reconciler.planning.capacity.holds import Holds, Taken
from reconciler.planning.capacity.profile import Limits, Profile, Pushes
from reconciler.planning.capacity.search import Slot
from reconciler.planning.capacity.state import State
from reconciler.planning.inside import Inside, Stay, cut_short, kept
from reconciler.planning.quota import ALL_TYPES, account_of
from reconciler.planning.remaining import Moment
from reconciler.planning.spread import Spread
from reconciler.planning.topology import Layout, lowest, positions
from reconciler.planning.windows import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """What this cycle decided about one contender: it starts there, now or once others left."""

    devices: int
    start: Moment
    rests_on: tuple[JobId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Everyone:
    """All that wants or holds devices after one cycle's decisions."""

    now: Instant
    where: Layout
    gangs: Gangs
    teams: Mapping[TeamName, Team]
    holders: Sequence[Holder]
    contenders: Sequence[Contender]
    """In rank order; jobs that are leaving their devices and come back are among them."""
    fixed: Mapping[JobId, Fixed] = field(default_factory=dict)
    leaving: Mapping[JobId, Moment] = field(default_factory=dict)
    """When holders that this cycle asked to leave are expected gone."""
    windows: Sequence[Window] = ()
    """What reservations keep for those they admit."""
    spread: Spread | None = None
    """What it costs gangs to be spread; None: nothing is known of that."""

    def until(self, holder: Holder) -> Moment:
        """Return when a holder is expected to be gone."""
        until = self.leaving.get(holder.job, holder.until)
        p50, p90 = (
            cut_short(self.windows, holder.job, holder.devices, instant, self.now)
            for instant in (until.p50, until.p90)
        )
        return Moment(p50=p50, p90=p90)


@dataclass(slots=True, kw_only=True)
class Found:
    """Where each contender is planned, and whose ends that rests on."""

    slots: dict[JobId, Slot] = field(default_factory=dict)
    rests_on: dict[JobId, tuple[JobId, ...]] = field(default_factory=dict)


class Walk:
    """One pass over everybody; ``is_late`` takes everything to last its p90."""

    def __init__(self, view: Everyone, *, is_late: bool) -> None:
        self._view = view
        self._is_late = is_late
        self._grid = view.gangs.grid
        self._limits = accounts(view.teams, self._grid.types, view.now)
        self._pushes = Pushes()
        self._ends: dict[JobId, Instant] = {}
        self._ending: dict[tuple[int, int], list[JobId]] = {}
        self._team_ending: dict[tuple[TeamName, int], list[JobId]] = {}
        self._slots: dict[JobId, Slot] = {}
        self._idle = self._without_power()
        """Devices of ``Layout.ahead`` that stay idle until somebody outside of it has ended."""
        self._windows = self._with_power(view.windows)
        taken = [*self._held(), *self._fixed()]
        stays = self._stays()
        taken += kept(self._grid, self._windows, stays, view.now)
        self._inside = Inside(self._grid, self._windows, stays, view.now)
        self._count_windows(stays)
        shortest = min((c.left.at(is_late=is_late) for c in view.contenders), default=1)
        self._state = State(self._grid, Holds.of(taken), view.now, shortest=shortest)

    def _without_power(self) -> int:
        where = self._view.where
        return where.ahead & ~where.ready if where.caps else 0

    def _with_power(self, windows: Sequence[Window]) -> Sequence[Window]:
        where = self._view.where
        if not where.caps:
            return windows
        return [replace(window, devices=window.devices & where.ahead) for window in windows]

    def found(self, floors: Mapping[JobId, Slot]) -> Found:
        """Place all contenders, none before its start in ``floors``."""
        view, found = self._view, Found(slots=self._slots)
        waiting = {c.job: rank for rank, c in enumerate(view.contenders) if c.job not in view.fixed}
        for job, fixed in view.fixed.items():
            found.rests_on[job] = fixed.rests_on
        heap = list(waiting.values())
        heapify(heap)
        parked: dict[JobId, list[int]] = {}
        while heap:
            rank = heappop(heap)
            contender = view.contenders[rank]
            behind = next((each for each in contender.after if each in waiting), None)
            if behind is not None:
                parked.setdefault(behind, []).append(rank)
                continue
            del waiting[contender.job]
            self._place(contender, found, floors)
            for other in parked.pop(contender.job, ()):
                heappush(heap, other)
        return found

    def _held(self) -> Iterable[Taken]:
        caps = self._view.where.caps
        for holder in self._view.holders:
            end = self._view.until(holder).at(is_late=self._is_late)
            rows, counts = self._grid.rows_of(holder.attempt.allocation)
            if not holder.comes_back and holder.job not in self._view.leaving:
                self._ends[holder.job] = end
            self._note(holder.job, holder.team, rows, counts, self._view.now, end)
            if caps:
                yield *self._rows(self._on_power(holder.devices)), self._view.now, end
            else:
                yield rows, counts, self._view.now, end

    def _on_power(self, devices: int) -> int:
        """Return which devices of ``Layout.ahead`` somebody keeps from others.

        Its own, and for each of them that is not among those one that is idle, in the same rack,
        for want of the power it draws.
        """
        where = self._view.where
        own, outside = devices & where.ahead, devices & ~where.ahead
        for rack, _ in where.caps:
            count = min((outside & rack).bit_count(), (self._idle & rack).bit_count())
            stand_in = lowest(self._idle & rack, count)
            self._idle &= ~stand_in
            own |= stand_in
        return own

    def _fixed(self) -> Iterable[Taken]:
        """Yield what is kept for fixed contenders: from now on where nobody is on it."""
        busy = 0
        for holder in self._view.holders:
            busy |= holder.devices
        for contender in self._view.contenders:
            fixed = self._view.fixed.get(contender.job)
            if fixed is None:
                continue
            start = fixed.start.at(is_late=self._is_late)
            rows, counts = self._rows(fixed.devices)
            lasts = contender.left.times(self._factor(contender, rows))
            end = Instant(start + lasts.at(is_late=self._is_late))
            self._ends[contender.job] = end
            self._slots[contender.job] = Slot(start, end, rows, counts)
            self._note(contender.job, contender.spec.team, rows, counts, self._view.now, end)
            held = fixed.devices
            if self._view.where.caps:
                held = self._on_power(held)
            for devices, since in ((held & busy, start), (held & ~busy, self._view.now)):
                if devices:
                    yield *self._rows(devices), since, end

    def _stays(self) -> list[Stay]:
        """Return who is on which devices until when, fixed starts included."""
        stays: list[Stay] = [
            (holder.job, holder.devices, self._view.until(holder).at(is_late=self._is_late))
            for holder in self._view.holders
        ]
        stays += [
            (job, fixed.devices, self._slots[job].end)
            for job, fixed in self._view.fixed.items()
            if job in self._slots
        ]
        return stays if self._view.windows else []

    def _count_windows(self, stays: Sequence[Stay]) -> None:
        """Count what windows keep in their teams' quotas; members inside count no further."""
        for window in self._windows:
            limits = self._limits.get(window.team)
            if limits is None:
                continue
            for rows, counts, start, end in kept(self._grid, [window], stays, self._view.now):
                assert not isinstance(counts, int)  # a window keeps what each row has of it
                for row, count in zip(rows, counts, strict=True):
                    limits.spend(self._grid.type_of[row], start, end, count)

    def _rows(self, devices: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        held = self._grid.rows_of_positions(positions(devices))
        return tuple(held), tuple(held.values())

    def _note(
        self,
        job: JobId,
        team: TeamName,
        rows: Sequence[int],
        counts: Sequence[int],
        start: int,
        end: int,
    ) -> None:
        """Remember who ends where, and count a team's use."""
        for row in rows:
            self._ending.setdefault((row, end), []).append(job)
        limits = self._limits.get(team)
        if limits is not None:
            self._team_ending.setdefault((team, end), []).append(job)
            for row, count in zip(rows, counts, strict=True):
                limits.spend(self._grid.type_of[row], start, end, count)

    def _place(self, contender: Contender, found: Found, floors: Mapping[JobId, Slot]) -> None:
        if any(each not in self._ends for each in contender.after):
            return
        latest = max((self._ends[each] for each in contender.after), default=self._view.now)
        soonest = Instant(max(contender.not_before, latest, self._view.now + 1))
        floor = floors.get(contender.job)
        ask = Ask(
            gang=self._view.gangs.of(contender.spec.gpus),
            duration_s=contender.left.at(is_late=self._is_late),
            not_before=soonest if floor is None else max(soonest, floor.start),
            limits=self._limits.get(contender.spec.team),
        )
        slot = self._slot(contender, self._sooner(contender, ask))
        if slot is None:
            return
        job, team = contender.job, contender.spec.team
        if not self._is_late:
            found.rests_on[job] = self._rests_on(contender, slot)
            for row in slot.rows:
                self._ending.setdefault((row, slot.end), []).append(job)
            if ask.limits is not None:
                self._team_ending.setdefault((team, slot.end), []).append(job)
        self._ends[job] = slot.end
        found.slots[job] = slot

    def _factor(self, contender: Contender, rows: Iterable[int]) -> float:
        """Return how many times as long a gang takes on these rows as in its best place."""
        spread = self._view.spread
        return 1.0 if spread is None else spread.factor_of_rows(contender.spec.gpus, rows)

    def _sooner(self, contender: Contender, ask: Ask) -> Ask:
        """Return what to ask for so that a gang ends first: spread, or kept closer together."""
        spread, request = self._view.spread, contender.spec.gpus
        if spread is None or not spread.matters(request):
            return ask
        first = find_first(self._state, ask, self._pushes)
        if first is None or (factor := self._factor(contender, first.rows)) <= 1.0:
            return ask
        lasts = contender.left.times(factor).at(is_late=self._is_late)
        best, end = ask._replace(duration_s=lasts), first.start + lasts
        for narrower in spread.narrower(request):
            kept = ask._replace(gang=self._view.gangs.of(narrower))
            other = find_first(self._state, kept, self._pushes)
            if other is None:
                continue
            factor = self._factor(contender, other.rows)
            lasts = contender.left.times(factor).at(is_late=self._is_late)
            if other.start + lasts < end:
                best, end = kept._replace(duration_s=lasts), other.start + lasts
        return best

    def _slot(self, contender: Contender, ask: Ask) -> Slot | None:
        """Give a contender its earliest place: inside a window that admits it, or outside."""
        inside = None
        if self._view.windows:
            request, since = contender.spec.gpus, ask.not_before
            inside = self._inside.find(contender.job, request, ask.duration_s, since)
        if inside is None:
            return place_first(self._state, ask, self._pushes)
        outside = find_first(self._state, ask, self._pushes)
        if outside is not None and outside.start < inside[1].start:
            return place_first(self._state, ask, self._pushes)
        self._inside.place(inside)
        return inside[1]._replace(end=Instant(inside[1].start + ask.duration_s))

    def _rests_on(self, contender: Contender, slot: Slot) -> tuple[JobId, ...]:
        """Return whose end a start waits for: on its rows, in its team's quota, or before it."""
        start = slot.start
        rests = {each for each in contender.after if self._ends[each] == start}
        on_rows = {job for row in slot.rows for job in self._ending.get((row, start), ())}
        if not on_rows:
            on_rows.update(self._team_ending.get((contender.spec.team, start), ()))
        return tuple(sorted((rests | on_rows) - {contender.job}))


def accounts(
    teams: Mapping[TeamName, Team], types: Sequence[str], now: Instant
) -> dict[TeamName, Limits]:
    """Return what bounds each team that has a quota.

    Teams of one cohort lend to each other: together they are bounded by the sum of their quotas.
    """
    total: dict[tuple[str, str], int] = {}
    for team in teams.values():
        for kind, gpus in team.quota_gpus.items():
            key = (account_of(team), kind)
            total[key] = total.get(key, 0) + gpus
    profiles = {key: Profile(gpus, now) for key, gpus in total.items()}
    return {
        name: Limits(
            tuple(
                tuple(
                    profiles[account_of(team), kind]
                    for kind in (ALL_TYPES, device_type)
                    if kind in team.quota_gpus
                )
                for device_type in types
            )
        )
        for name, team in teams.items()
        if team.quota_gpus
    }
