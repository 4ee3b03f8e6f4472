"""Which devices may be in use at once, within the power of their racks?

What runs draws, whatever the cap says; what is kept for somebody, and what is promised to a
reservation, has power before anybody else.  Of the rest as many free devices may start something
as there is power for.  The others are free and stay idle.
"""

from reconciler.domain.snapshot import Snapshot
from reconciler.planning.books import Books
from reconciler.planning.shapes import Shapes
from reconciler.planning.topology import bits_of

NO_POWER = "free devices have to stay idle: their racks have no power for more"


def share_power(snapshot: Snapshot, shapes: Shapes, books: Books) -> None:
    """Leave out of ``shapes`` the free devices that no power is left for."""
    where = shapes.where
    if not where.caps:
        return
    in_use = booked = 0
    for standing in books.live.values():
        if standing.live is not None:
            in_use |= bits_of(standing.live.allocation, where)
    for job in (*books.live, *books.bars):
        status = books.standings[job].status
        for hold in status.holds if status is not None else ():
            in_use |= bits_of(hold.devices, where)
    for reservation in snapshot.reservations.values():
        for occurrence in reservation.occurrences:
            if occurrence.phase.is_firm and occurrence.devices is not None:
                booked |= bits_of(occurrence.devices, where)
    shapes.share_power(in_use, booked)
