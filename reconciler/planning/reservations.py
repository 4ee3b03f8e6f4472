"""What becomes of every reservation in this cycle: booked, opened, handed back, closed, refused.

Time first (windows that are over, idle or due), then what main says (gone, changed, new).  An
occurrence is booked once, on devices of its own, and from then on nothing that comes later delays
it: new bookings keep off it, starts keep off it, and preemptible work in its way is asked to
leave in time.  One that does not fit is refused with the next starts that would; it is judged
again only when its document changes.
"""

from collections.abc import Mapping
from dataclasses import replace

from reconciler.domain.plan import Decision
from reconciler.domain.reason import Reason
from reconciler.domain.reservation import (
    Occurrence,
    ReservationDecision,
    ReservationPhase,
    ReservationStatus,
    ReservationVerb,
)
from reconciler.domain.snapshot import DesiredReservation, Snapshot
from reconciler.domain.units import Instant, JobId
from reconciler.planning.booking import Booking, is_other
from reconciler.planning.draining import Occupants, guests_in_the_way, leaving
from reconciler.planning.eligibility import Bar
from reconciler.planning.feasible import BudgetRoom, no_budget
from reconciler.planning.shapes import Shapes
from reconciler.planning.standing import Standing
from reconciler.planning.windows import NO_CALENDAR, Calendar

LOOKED_AT_AHEAD_S = 3600
"""A window whose devices are in doubt is moved from this long before its start on."""
LOOKED_FOR_EVERY_S = 300
"""How often other devices are looked for once there were none."""


def keep_calendar(
    snapshot: Snapshot,
    shapes: Shapes,
    *,
    settled: Mapping[JobId, Decision],
    live: Mapping[JobId, Standing],
    bars: Mapping[JobId, Bar | None],
    budget: BudgetRoom = no_budget,
) -> Calendar:
    """Return this cycle's calendar; :data:`NO_CALENDAR` where nobody ever reserved anything.

    ``settled`` is what is decided without ranking, ``live`` who holds devices, ``bars`` who wants
    some and what keeps it from starting.
    """
    if not snapshot.reservations and not snapshot.desired.reservations:
        return NO_CALENDAR
    occupants = Occupants(snapshot, shapes, live, settled)
    booking = Booking(snapshot, shapes, occupants, budget)
    keeper = _Keeper(snapshot, booking, occupants, shapes.where.ready, settled)
    keeper.keep()
    windows = tuple(sorted(booking.windows.values(), key=lambda w: (w.start, w.reservation)))
    asked: dict[JobId, Decision] = {}
    if not snapshot.desired.is_rewritten:
        asked = leaving(windows, occupants, snapshot)
        asked |= guests_in_the_way(windows, occupants, bars, shapes, snapshot)
    return Calendar(
        windows=windows,
        decisions=tuple(
            sorted(keeper.decisions, key=lambda d: (d.reservation, d.occurrence.start))
        ),
        leaving={job: asked[job] for job in sorted(asked)},
    )


class _Keeper:
    """Walks the reservations once."""

    def __init__(
        self,
        snapshot: Snapshot,
        booking: Booking,
        occupants: Occupants,
        ready: int,
        settled: Mapping[JobId, Decision],
    ) -> None:
        self.decisions: list[ReservationDecision] = []
        self._snapshot = snapshot
        self._booking = booking
        self._windows = booking.windows
        self._occupants = occupants
        self._ready = ready
        self._settled = settled

    def keep(self) -> None:
        """Decide about every occurrence: those that are recorded first, then new ones."""
        recorded = self._snapshot.reservations
        for name, status in recorded.items():
            for occurrence in status.occurrences:
                if occurrence.phase.is_firm:
                    self._windows[name, occurrence.start] = self._booking.window(status, occurrence)
        for name, status in recorded.items():
            for occurrence in status.occurrences:
                if occurrence.phase.is_firm:
                    self._firm(name, status, occurrence)
        if self._snapshot.desired.is_rewritten:
            return
        for wanted, start, end in sorted(self._booking.new(), key=lambda n: (n[1], n[0].id)):
            found = self._booking.judge(wanted, start, end)
            is_refused = found.phase is ReservationPhase.REFUSED
            verb = ReservationVerb.REFUSE if is_refused else ReservationVerb.BOOK
            self._decide(wanted.id, verb, found)

    # What is recorded

    def _firm(self, name: JobId, status: ReservationStatus, was: Occurrence) -> None:
        now = self._snapshot.now
        wanted = self._snapshot.desired.reservations.get(name)
        if wanted is None and self._is_gone(status):
            self._close(name, was, ReservationPhase.CANCELLED, Reason.FILE_DELETED)
        elif self._is_edited(wanted, status) and wanted is not None:
            self._edited(wanted, was)
        elif was.phase is ReservationPhase.PLANNED:
            self._planned(name, status, was)
        elif now >= was.end:
            self._close(name, was, ReservationPhase.ENDED, Reason.RESERVATION_OVER)
        elif self._is_idle(name, status, was):
            self._close(name, was, ReservationPhase.RELEASED, Reason.RESERVATION_IDLE)

    def _is_edited(self, wanted: DesiredReservation | None, status: ReservationStatus) -> bool:
        if wanted is None or self._snapshot.desired.is_rewritten:
            return False
        return wanted.spec_digest != status.spec_digest

    def _edited(self, wanted: DesiredReservation, was: Occurrence) -> None:
        """Follow an edit: another start gives the occurrence up, another end is taken where its
        devices are free for it.  What is planned is judged anew by :meth:`_judge`."""
        ends = dict(wanted.held.occurrences)
        end = ends.get(was.start)
        if end is None:
            self._close(wanted.id, was, ReservationPhase.CANCELLED, Reason.RESERVATION_CHANGED)
        elif was.phase is ReservationPhase.PLANNED:
            if is_other(wanted.held, was, end):
                del self._windows[wanted.id, was.start]
        elif end <= self._snapshot.now:
            self._close(wanted.id, was, ReservationPhase.ENDED, Reason.RESERVATION_OVER)
        elif end != was.end:
            self._stretched(wanted, was, end)

    def _stretched(self, wanted: DesiredReservation, was: Occurrence, end: Instant) -> None:
        window = self._windows[wanted.id, was.start]
        others = (each for key, each in self._windows.items() if key != (wanted.id, was.start))
        if any(
            each.devices & window.devices and each.start < end and each.end > was.end
            for each in others
        ):
            return
        self._windows[wanted.id, was.start] = replace(window, end=end)
        changed = replace(was, end=end, reason=Reason.RESERVATION_CHANGED)
        self._decide(wanted.id, ReservationVerb.BOOK, changed)

    def _planned(self, name: JobId, status: ReservationStatus, was: Occurrence) -> None:
        now = self._snapshot.now
        if now >= was.end:
            self._close(name, was, ReservationPhase.CANCELLED, Reason.WINDOW_TAKEN)
            return
        if was.start - now > LOOKED_AT_AHEAD_S:
            return
        known = was
        if not self._occupants.can_clear(self._windows[name, was.start], ready=self._ready):
            moved = None
            if was.reason is not Reason.WINDOW_BLOCKED or self._is_time_to_look(was.start):
                moved = self._booking.moved(name, status, was)
            if moved is None:
                self._blocked(name, was)
                return
            was, self._windows[name, was.start] = moved
        elif was.reason is Reason.WINDOW_BLOCKED:
            was = replace(was, reason=Reason.WINDOW_FREE, message="")
        window = self._windows[name, was.start]
        if now >= was.start and self._occupants.is_clear(window):
            opened = replace(
                was,
                phase=ReservationPhase.ACTIVE,
                reason=Reason.RESERVATION_STARTS,
                message="",
                counted_at=was.start,
                idle_gpus=0 if was.devices is None else was.devices.gpus,
            )
            self._windows[name, was.start] = replace(window, is_open=True)
            self._decide(name, ReservationVerb.OPEN, opened)
        elif was is not known:
            self._decide(name, ReservationVerb.BOOK, was)

    def _is_time_to_look(self, start: Instant) -> bool:
        """True once every five minutes, counted from the start."""
        before = self._snapshot.previous_look_at
        every = LOOKED_FOR_EVERY_S
        return before is None or (self._snapshot.now - start) // every > (before - start) // every

    def _blocked(self, name: JobId, was: Occurrence) -> None:
        """Say, once, that a window will not be clear in time and who is in the way."""
        said = self._occupants.in_the_way(self._windows[name, was.start], ready=self._ready)
        if (was.reason, was.message) != (Reason.WINDOW_BLOCKED, said):
            blocked = replace(was, reason=Reason.WINDOW_BLOCKED, message=said)
            self._decide(name, ReservationVerb.BOOK, blocked)

    def _is_gone(self, status: ReservationStatus) -> bool:
        """True once the file was absent in an earlier read too, and for the grace; a mass
        deletion that the brake holds back takes no reservation either."""
        snapshot, since = self._snapshot, status.absent_since
        if snapshot.desired.is_rewritten or since is None or snapshot.now <= since:
            return False
        return snapshot.now - since >= snapshot.policy.deletion.grace_s and not self._is_braked()

    def _is_braked(self) -> bool:
        return any(each.reason is Reason.PRUNE_BLOCKED for each in self._settled.values())

    def _is_idle(self, name: JobId, status: ReservationStatus, was: Occurrence) -> bool:
        """True for an open window on which nothing has run for as long as its document says."""
        patience_s = None if status.summary is None else status.summary.release_if_idle_s
        if patience_s is None or was.counted_at is None or was.devices is None:
            return False
        if was.idle_gpus < was.devices.gpus or self._snapshot.now - was.counted_at < patience_s:
            return False
        return not self._occupants.on(self._windows[name, was.start].devices)

    def _close(self, name: JobId, was: Occurrence, phase: ReservationPhase, reason: Reason) -> None:
        del self._windows[name, was.start]
        over = replace(
            was,
            phase=phase,
            reason=reason,
            message="",
            idle_gpu_s=was.idle_gpu_s_at(self._snapshot.now),
            idle_gpus=0,
            counted_at=None,
        )
        is_release = phase is ReservationPhase.RELEASED
        self._decide(name, ReservationVerb.RELEASE if is_release else ReservationVerb.CLOSE, over)

    def _decide(self, name: JobId, verb: ReservationVerb, occurrence: Occurrence) -> None:
        self.decisions.append(
            ReservationDecision(
                reservation=name,
                verb=verb,
                reason=occurrence.reason,
                occurrence=occurrence,
                detail=occurrence.message,
            )
        )
