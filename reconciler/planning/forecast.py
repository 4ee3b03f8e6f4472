"""When each job is expected to start and end, and when a published expectation is out of date.

Everybody is planned over exact capacity twice: once everything lasts its p50, once its p90.
Computed when the forecast is read or due, never to decide a cycle.
"""

from collections.abc import Mapping, Sequence

from reconciler.domain.attempt import Attempt
from reconciler.domain.cluster import Allocation
from reconciler.domain.plan import Expectation
from reconciler.domain.units import DeviceId, Instant, JobId, NodeName
from reconciler.planning.capacity.devices import RowDevices, allocations
from reconciler.planning.capacity.grid import Grid
from reconciler.planning.everyone import Everyone, Found, Walk
from reconciler.planning.topology import allocation_of

MOVED_S = 600
MOVED_SHARE = 0.10


def forecast(view: Everyone) -> dict[JobId, Expectation]:
    """Return what is expected of every job that holds devices or has a place, sorted by job.

    A job that is leaving its devices is told by its next place.
    """
    early = Walk(view, is_late=False).found({})
    late = Walk(view, is_late=True).found(early.slots)
    found = {holder.job: _held(view, position) for position, holder in enumerate(view.holders)}
    found.update(_planned(view, early, late))
    return {job: found[job] for job in sorted(found)}


def _held(view: Everyone, position: int) -> Expectation:
    holder = view.holders[position]
    until = view.until(holder)
    return Expectation(
        job=holder.job,
        start_p50=_started(holder.attempt),
        start_p90=_started(holder.attempt),
        end_p50=until.p50,
        end_p90=max(until.p50, until.p90),
        allocation=holder.attempt.allocation,
    )


def _planned(view: Everyone, early: Found, late: Found) -> dict[JobId, Expectation]:
    places = {job: allocation_of(fixed.devices, view.where) for job, fixed in view.fixed.items()}
    jobs = [job for job in early.slots if job not in places]
    named = allocations(
        row_devices(view.gangs.grid),
        _busy(view, places, early),
        (early.slots[job] for job in jobs),
    )
    places.update(zip(jobs, named, strict=True))
    found = {}
    for job, slot in early.slots.items():
        slow = late.slots.get(job, slot)
        found[job] = Expectation(
            job=job,
            start_p50=slot.start,
            start_p90=max(slot.start, slow.start),
            end_p50=slot.end,
            end_p90=max(slot.end, slow.end),
            allocation=places[job],
            rests_on=early.rests_on.get(job, ()),
        )
    return found


def row_devices(grid: Grid) -> Sequence[RowDevices]:
    """Return the devices of every row by name."""
    return [
        RowDevices(grid.names[node], members)
        for node, members in zip(grid.node.tolist(), grid.members, strict=True)
    ]


def _busy(
    view: Everyone, places: Mapping[JobId, Allocation], early: Found
) -> dict[tuple[NodeName, DeviceId], int]:
    """Return until when each device is held, by holders and by the places this cycle fixed."""
    held = [(holder.attempt.allocation, view.until(holder).p50) for holder in view.holders]
    held += [(place, early.slots[job].end) for job, place in places.items()]
    busy: dict[tuple[NodeName, DeviceId], int] = {}
    for allocation, end in held:
        for pair in allocation.devices():
            busy[pair] = max(busy.get(pair, 0), end)
    return busy


def _started(attempt: Attempt) -> Instant:
    return attempt.decided_at if attempt.started_at is None else attempt.started_at


def forecast_moved(
    old: Mapping[JobId, Expectation], new: Mapping[JobId, Expectation], now: Instant
) -> bool:
    """True if ``new`` is worth publishing over ``old``.

    A job came or went, a place changed, or a start moved by more than ten minutes and by more
    than a tenth of the wait that was left.
    """
    if old.keys() != new.keys():
        return True
    return any(_moved(old[job], new[job], now) for job in new)


def _moved(old: Expectation, new: Expectation, now: Instant) -> bool:
    if _place(old) != _place(new):
        return True
    bound = max(MOVED_S, MOVED_SHARE * max(old.start_p50 - now, 0))
    return abs(new.start_p50 - old.start_p50) > bound or abs(new.start_p90 - old.start_p90) > bound


def _place(expected: Expectation) -> Mapping[NodeName, int]:
    """Return how many devices of each node: which of them is settled when the job starts."""
    if expected.allocation is None:
        return {}
    return {share.node: len(share.devices) for share in expected.allocation.shares}
