"""When each job is expected to start and end, and when a published expectation is out of date.

Two walks over the same contenders: one takes everything to last its p50 and decides; the other
takes everything to last its p90 and only predicts.  A start's p90 is never before its p50.
"""

from collections.abc import Iterable, Mapping

from reconciler.domain.attempt import Attempt
from reconciler.domain.plan import Expectation
from reconciler.domain.units import Instant, JobId, TeamName
from reconciler.planning.backfill import Pass, Schedule
from reconciler.planning.board import Board, Booking, Contender, Holder, Place
from reconciler.planning.topology import Layout, allocation_of

MOVED_S = 600
MOVED_SHARE = 0.10


def late_schedule(
    schedule: Schedule,
    *,
    holders: Iterable[Holder],
    contenders: Mapping[JobId, Contender],
) -> Schedule:
    """Return the walk by p90, with everything that ``schedule`` decided now as given."""
    board = Board(schedule.board.now, schedule.board.where, schedule.board.teams)
    ends: dict[JobId, Instant] = {}
    victims = {v.job for p in schedule.preemptions.values() for v in p.victims}
    for holder in holders:
        until = holder.until.p90
        if holder.job in victims:
            until = Instant(board.now + holder.attempt.grace_s)
        elif not holder.comes_back:
            ends[holder.job] = until
        board.book(_booking(holder.job, holder.team, holder.devices, board.now, until))
    late = Schedule(board=board)
    rest: list[Contender] = []
    for job, contender in contenders.items():
        place = schedule.places.get(job)
        if place is None:
            continue
        if _is_decided(job, contender, place, schedule):
            fixed = _late_place(contender, place, schedule)
            late.places[job], ends[job] = fixed, fixed.end
            board.book(_booking(job, contender.spec.team, place.devices, board.now, fixed.end))
        else:
            rest.append(contender)
    floors = {contender.job: schedule.places[contender.job].start for contender in rest}
    return Pass(schedule=late, ends=ends, is_late=True, floors=floors).walk(rest)


def _is_decided(job: JobId, contender: Contender, place: Place, schedule: Schedule) -> bool:
    starts_now = contender.can_start and place.start == schedule.board.now
    return starts_now or job in schedule.on_hold or job in schedule.preemptions


def _late_place(contender: Contender, place: Place, schedule: Schedule) -> Place:
    start = place.start
    preemption = schedule.preemptions.get(contender.job)
    if preemption is not None:
        grace_s = max(victim.attempt.grace_s for victim in preemption.victims)
        start = Instant(max(start, schedule.board.now + grace_s))
    elif contender.job in schedule.on_hold and contender.hold is not None:
        start = max(start, contender.hold.until.p90)
    return Place(
        devices=place.devices,
        start=start,
        end=Instant(start + contender.left.p90),
        rests_on=place.rests_on,
    )


def _booking(job: JobId, team: TeamName, devices: int, start: Instant, end: Instant) -> Booking:
    return Booking(job=job, team=team, devices=devices, start=start, end=end)


def expectations(
    early: Schedule, late: Schedule, *, holders: Iterable[Holder], where: Layout
) -> dict[JobId, Expectation]:
    """Return what is expected of every job that holds devices or has a place, sorted by job.

    A job that is leaving its devices is told by its next place.
    """
    found = {
        holder.job: Expectation(
            job=holder.job,
            start_p50=_started(holder.attempt),
            start_p90=_started(holder.attempt),
            end_p50=holder.until.p50,
            end_p90=max(holder.until.p50, holder.until.p90),
            allocation=holder.attempt.allocation,
        )
        for holder in holders
    }
    for job, place in early.places.items():
        slow = late.places.get(job)
        found[job] = Expectation(
            job=job,
            start_p50=place.start,
            start_p90=place.start if slow is None else max(place.start, slow.start),
            end_p50=place.end,
            end_p90=place.end if slow is None else max(place.end, slow.end),
            allocation=allocation_of(place.devices, where),
            rests_on=place.rests_on,
        )
    return {job: found[job] for job in sorted(found)}


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
    if old.allocation != new.allocation:
        return True
    bound = max(MOVED_S, MOVED_SHARE * max(old.start_p50 - now, 0))
    return abs(new.start_p50 - old.start_p50) > bound or abs(new.start_p90 - old.start_p90) > bound
