"""Which recorded holds still stand: devices kept for a job while somebody leaves them.

A hold stands while it is whole, on ready nodes, within quota, open to its job, and nobody but its
victims is on it.
A victim that moves has one too: the devices it goes to, while it is still leaving its old ones.
"""

from dataclasses import dataclass, replace

from reconciler.domain.job import JobSpec
from reconciler.domain.status import Hold
from reconciler.domain.units import JobId
from reconciler.planning.access import Access
from reconciler.planning.books import Books
from reconciler.planning.desk import Desk
from reconciler.planning.elastic import legal_sizes
from reconciler.planning.placement import fits
from reconciler.planning.room import Room
from reconciler.planning.shapes import Shapes
from reconciler.planning.topology import bits_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """Devices kept for one job."""

    devices: int
    victims: tuple[JobId, ...] = ()
    """Who has not left yet, sorted; empty: the devices are free."""
    is_moving: bool = False
    """True for a victim that is still on its old devices."""


def promises(
    shapes: Shapes, books: Books, desk: Desk, room: Room, access: Access
) -> dict[JobId, Promise]:
    """Return the holds that stand, sorted by job, each counted in ``room``."""
    found: dict[JobId, Promise] = {}
    taken = 0
    for job in sorted(desk.promised):
        standing = books.standings[job]
        status, spec = standing.status, standing.spec
        is_moving = job in desk.leaving
        if status is None or spec is None or not (is_moving or job in desk.waiting):
            continue
        promise = _standing_hold(status.holds[0], spec, shapes, books, desk, is_moving=is_moving)
        if promise is None or promise.devices & taken:
            continue
        if promise.devices & ~access.open_to(job):
            continue  # a reservation was booked over it meanwhile
        team = job.split("/")[0]
        if not room.allows_later(team, promise.devices, promise.victims):
            continue
        room.keep(team, promise.devices)
        taken |= promise.devices
        found[job] = promise
    return found


def _standing_hold(
    hold: Hold, spec: JobSpec, shapes: Shapes, books: Books, desk: Desk, *, is_moving: bool
) -> Promise | None:
    where = shapes.where
    devices = bits_of(hold.devices, where) & where.ready
    count = devices.bit_count()
    if count not in legal_sizes(books.snapshot, spec):
        return None
    shape = shapes.of(replace(spec.gpus, count=count))
    if count != hold.devices.gpus or not fits(shape, devices, where):
        return None
    left = (books.read.owner.get(attempt) for attempt in hold.victims)
    victims = tuple(sorted(job for job in left if job is not None and job in books.live))
    theirs = 0
    for victim in victims:
        theirs |= desk.holdings.of[victim].devices
    if devices & desk.holdings.taken & ~theirs:
        return None  # somebody else is on it
    return Promise(devices=devices, victims=victims, is_moving=is_moving)
