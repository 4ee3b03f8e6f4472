"""Finds a place for what is new on main, and another for what cannot stay where it was booked.

An occurrence that fits is booked on devices of its own; one that does not is refused with the
earliest start at which it would, and the next few.
"""

from collections.abc import Iterator
from dataclasses import replace

from reconciler.domain.reason import Reason
from reconciler.domain.reservation import (
    NEXT_KEPT,
    Occurrence,
    Reservation,
    ReservationPhase,
    ReservationStatus,
)
from reconciler.domain.snapshot import DesiredReservation, Snapshot
from reconciler.domain.units import Instant, JobId, TeamName
from reconciler.planning.draining import Occupants
from reconciler.planning.feasible import BudgetRoom, Refusal, Room, accounts_of
from reconciler.planning.shapes import Shapes
from reconciler.planning.topology import allocation_of, bits_of
from reconciler.planning.windows import Window

Key = tuple[JobId, Instant]
"""A reservation and the start of one of its occurrences."""


class Booking:
    """Books windows of one snapshot; ``windows`` are those that stand so far."""

    def __init__(
        self, snapshot: Snapshot, shapes: Shapes, occupants: Occupants, budget: BudgetRoom
    ) -> None:
        self.windows: dict[Key, Window] = {}
        self._snapshot = snapshot
        self._shapes = shapes
        self._occupants = occupants
        self._budget = budget

    def new(self) -> Iterator[tuple[DesiredReservation, Instant, Instant]]:
        """Yield the occurrences that are to be judged: unknown ones, and those whose document
        was changed and that are not over."""
        now = self._snapshot.now
        for name, wanted in self._snapshot.desired.reservations.items():
            status = self._snapshot.reservations.get(name)
            is_edited = status is None or status.spec_digest != wanted.spec_digest
            known = {o.start: o for o in status.occurrences} if status is not None else {}
            is_once = wanted.held.every is None
            ahead = [
                pair for pair in wanted.held.occurrences if pair[1] > now or (is_once and is_edited)
            ]
            for start, end in ahead[:NEXT_KEPT]:
                was = known.get(start)
                if was is None or (is_edited and _is_judged_again(wanted.held, was, end)):
                    yield wanted, start, end

    def judge(self, wanted: DesiredReservation, start: Instant, end: Instant) -> Occurrence:
        """Return one occurrence, booked or refused; what is booked stands from now on."""
        held, name = wanted.held, wanted.id
        room = self._room(held, without=(name, start))
        found: int | Refusal = Refusal(Reason.WINDOW_PAST, "its end has passed")
        if end > self._snapshot.now:
            found = room.place(start, end)
        if isinstance(found, Refusal):
            return Occurrence(
                start=start,
                end=end,
                phase=ReservationPhase.REFUSED,
                reason=found.reason,
                message=found.detail,
                windows=room.instead_of(start, end),
            )
        booked = Occurrence(
            start=start,
            end=end,
            phase=ReservationPhase.PLANNED,
            reason=Reason.WINDOW_FREE,
            devices=allocation_of(found, self._shapes.where),
        )
        self.windows[name, start] = _window_of(held, booked, found)
        return booked

    def moved(
        self, name: JobId, status: ReservationStatus, was: Occurrence
    ) -> tuple[Occurrence, Window] | None:
        """Return the occurrence on other devices that can be free in time; None without any."""
        wanted = self._snapshot.desired.reservations.get(name)
        if wanted is None or self._snapshot.desired.is_rewritten:
            return None
        room = self._room(wanted.held, without=(name, was.start), ignores_accounts=True)
        found = room.place(was.start, was.end)
        if isinstance(found, Refusal):
            return None
        moved = replace(
            was,
            reason=Reason.WINDOW_MOVED,
            devices=allocation_of(found, self._shapes.where),
        )
        return moved, self.window(status, moved)

    def _room(
        self, held: Reservation, *, without: tuple[JobId, Instant], ignores_accounts: bool = False
    ) -> Room:
        accounts = () if ignores_accounts else accounts_of(held.team, self._snapshot.teams)
        others = [window for key, window in self.windows.items() if key != without]

        def budget(held: Reservation, start: Instant, end: Instant) -> str:
            return "" if ignores_accounts else self._budget(held, start, end, others)

        return Room(
            held,
            self._shapes.of(held.gpus),
            self._shapes.where,
            now=self._snapshot.now,
            accounts=accounts,
            obstacles=self._occupants.obstacles(held),
            windows=others,
            budget=budget,
            turns=self._period_starts(held),
        )

    def _period_starts(self, held: Reservation) -> tuple[Instant, ...]:
        budget = self._snapshot.budgets.get(held.budget_group or "")
        return () if budget is None else tuple(period.start for period in budget.periods)

    def window(self, status: ReservationStatus, occurrence: Occurrence) -> Window:
        devices = 0
        if occurrence.devices is not None:
            devices = bits_of(occurrence.devices, self._shapes.where)
        told, wanted = status.summary, self._snapshot.desired.reservations.get(status.reservation)
        if wanted is not None:
            return _window_of(wanted.held, occurrence, devices)
        return Window(
            reservation=status.reservation,
            team=TeamName(status.reservation.split("/")[0]),
            devices=devices,
            start=occurrence.start,
            end=occurrence.end,
            members=frozenset(told.for_jobs if told is not None else ()),
            is_exclusive=told is None or told.exclusive,
            is_open=occurrence.phase is ReservationPhase.ACTIVE,
            budget_group=None if told is None else told.budget_group,
        )


def _window_of(held: Reservation, occurrence: Occurrence, devices: int) -> Window:
    return Window(
        reservation=held.id,
        team=held.team,
        devices=devices,
        start=occurrence.start,
        end=occurrence.end,
        members=frozenset(held.for_jobs),
        is_exclusive=held.exclusive,
        is_open=occurrence.phase is ReservationPhase.ACTIVE,
        budget_group=held.budget_group,
    )


def is_other(held: Reservation, was: Occurrence, end: Instant) -> bool:
    """True if the document asks for another end or another number of GPUs than was booked."""
    return end != was.end or was.devices is None or was.devices.gpus != held.gpus.count


def _is_judged_again(held: Reservation, was: Occurrence, end: Instant) -> bool:
    if was.phase is ReservationPhase.PLANNED:
        return is_other(held, was, end)
    return was.phase in (ReservationPhase.REFUSED, ReservationPhase.CANCELLED)
