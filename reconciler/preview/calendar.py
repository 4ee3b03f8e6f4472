"""What does a change do to the calendar, and what does it leave of the budgets?

A reservation that the change adds or edits is booked or refused by the plan of the head, as it
will be after the merge; a refused one is told with the starts that would fit.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reconciler.domain.budget import BudgetUse
from reconciler.domain.plan import Plan
from reconciler.domain.reservation import Occurrence, Reservation, ReservationPhase
from reconciler.domain.units import JobId
from reconciler.specs.entries import SpecEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationChange:
    """One reservation that the change adds, changes or removes."""

    name: JobId
    sign: str
    """``+``, ``~`` or ``-``."""
    before: Reservation | None
    after: Reservation | None
    occurrences: tuple[Occurrence, ...] = ()
    """What the plan of the head decides about, sorted by start; empty where it decides nothing."""

    @property
    def gpu_hours(self) -> float:
        """GPU-hours that are kept, of the occurrences that were decided about and not refused."""
        kept = (o for o in self.occurrences if o.phase is not ReservationPhase.REFUSED)
        gpus = self.after.gpus.count if self.after else 0
        return sum((o.end - o.start) * gpus for o in kept) / 3600

    @property
    def is_refused(self) -> bool:
        return any(o.phase is ReservationPhase.REFUSED for o in self.occurrences)


def reservation_changes(
    base: Mapping[JobId, SpecEntry], head: Mapping[JobId, SpecEntry], after: Plan
) -> Iterator[ReservationChange]:
    """Yield the reservations that differ, sorted by name."""
    for name in sorted(base.keys() | head.keys()):
        old, new = _held(base.get(name)), _held(head.get(name))
        if old == new:
            continue
        sign = "~" if old and new else "+" if new else "-"
        yield ReservationChange(
            name=name,
            sign=sign,
            before=old,
            after=new,
            occurrences=tuple(
                decision.occurrence
                for decision in after.reservations
                if decision.reservation == name
            ),
        )


def _held(entry: SpecEntry | None) -> Reservation | None:
    return None if entry is None else entry.reservation


def is_job(*entries: SpecEntry | None) -> bool:
    """True unless every one of these documents is a reservation."""
    return any(entry is not None and entry.reservation is None for entry in entries)


def budgets_after(groups: set[str | None], after: Plan) -> tuple[BudgetUse, ...]:
    """Return how the budgets that a change touches stand with it, sorted by name."""
    return tuple(use for use in after.budgets if use.name in groups)
