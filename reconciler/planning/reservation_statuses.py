"""What a plan makes of the statuses of reservations: occurrences, phase, idle time.

Transitions only, like those of jobs: a status is written when an occurrence changed, when another
number of reserved devices is idle, or when what main says of it is new.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.domain.cluster import Allocation
from reconciler.domain.plan import Plan, Verb
from reconciler.domain.reservation import (
    PAST_KEPT,
    Occurrence,
    OccurrenceTransition,
    Reservation,
    ReservationDecision,
    ReservationPhase,
    ReservationStatus,
    ReservationSummary,
)
from reconciler.domain.snapshot import DesiredReservation, Snapshot
from reconciler.domain.units import DeviceId, Instant, JobId, NodeName
from reconciler.planning.standing import Standing

Pair = tuple[NodeName, DeviceId]


def next_reservations(
    snapshot: Snapshot, plan: Plan, live: Mapping[JobId, Standing]
) -> tuple[tuple[ReservationStatus, ...], tuple[OccurrenceTransition, ...]]:
    """Return the statuses that change by ``plan``, sorted, and one line an occurrence."""
    recorded, wanted = snapshot.reservations, snapshot.desired.reservations
    if not recorded and not wanted:
        return (), ()
    decided: dict[JobId, list[ReservationDecision]] = {}
    for decision in plan.reservations:
        decided.setdefault(decision.reservation, []).append(decision)
    busy = _Busy(plan, live)
    changed, lines = [], []
    for name in sorted(recorded.keys() | wanted.keys()):
        was = recorded.get(name)
        if was is None and name not in decided:
            continue
        status = _next(snapshot, name, was, wanted.get(name), decided.get(name, ()), busy)
        if status != was:
            changed.append(status)
            lines += _lines(name, was, decided.get(name, ()))
    return tuple(changed), tuple(lines)


class _Busy:
    """Which devices have an attempt once the plan is carried out; made when first asked."""

    def __init__(self, plan: Plan, live: Mapping[JobId, Standing]) -> None:
        self._plan = plan
        self._live = live
        self._pairs: set[Pair] | None = None

    def idle(self, devices: Allocation) -> int:
        """Return how many of these devices have none."""
        if self._pairs is None:
            held = [each.live.allocation for each in self._live.values() if each.live is not None]
            held += [
                action_attempt.allocation
                for action in self._plan.actions
                if (decision := self._plan.decisions.get(action.job)) is not None
                and decision.verb is Verb.START
                and (action_attempt := decision.attempt) is not None
            ]
            self._pairs = {pair for allocation in held for pair in allocation.devices()}
        return sum(pair not in self._pairs for pair in devices.devices())


def _next(
    snapshot: Snapshot,
    name: JobId,
    was: ReservationStatus | None,
    wanted: DesiredReservation | None,
    decided: Iterable[ReservationDecision],
    busy: _Busy,
) -> ReservationStatus:
    now = snapshot.now
    by_start = {o.start: o for o in (was.occurrences if was is not None else ())}
    past_idle = was.past_idle_gpu_s if was is not None else 0
    for decision in decided:
        by_start[decision.occurrence.start] = decision.occurrence
        if decision.occurrence.phase in (
            ReservationPhase.ENDED, ReservationPhase.RELEASED, ReservationPhase.CANCELLED,
        ):  # fmt: skip
            past_idle += decision.occurrence.idle_gpu_s
    occurrences = _kept([_counted(o, busy, now) for _, o in sorted(by_start.items())], now)
    shown = _shown(occurrences)
    status = was or ReservationStatus(
        reservation=name, phase=shown.phase, reason=shown.reason, since=now
    )
    status = replace(
        status,
        phase=shown.phase,
        reason=shown.reason,
        message=shown.message,
        occurrences=occurrences,
        past_idle_gpu_s=past_idle,
    )
    if was is not None and was.phase is not shown.phase:
        status = replace(status, since=now)
    return _as_wanted(snapshot, status, wanted)


def _as_wanted(
    snapshot: Snapshot, status: ReservationStatus, wanted: DesiredReservation | None
) -> ReservationStatus:
    if snapshot.desired.is_rewritten:
        return status
    if wanted is None:
        if status.absent_since is not None or not _is_open_ended(status):
            return status
        return replace(status, absent_since=snapshot.now)
    status = replace(status, absent_since=None)
    summary = summary_of(wanted.held)
    if (status.spec_digest, status.summary) == (wanted.spec_digest, summary):
        return status
    return replace(
        status, spec_digest=wanted.spec_digest, summary=summary, observed_commit=wanted.commit
    )


def _is_open_ended(status: ReservationStatus) -> bool:
    """True while a file that is gone could still cancel something."""
    return any(occurrence.phase.is_firm for occurrence in status.occurrences)


def _counted(occurrence: Occurrence, busy: _Busy, now: Instant) -> Occurrence:
    """Return an open occurrence with its idle time counted, where another number is idle now."""
    if occurrence.phase is not ReservationPhase.ACTIVE or occurrence.devices is None:
        return occurrence
    idle = busy.idle(occurrence.devices)
    if idle == occurrence.idle_gpus:
        return occurrence
    return replace(
        occurrence, idle_gpu_s=occurrence.idle_gpu_s_at(now), idle_gpus=idle, counted_at=now
    )


def _kept(occurrences: list[Occurrence], now: Instant) -> tuple[Occurrence, ...]:
    """Return the next ones, none of what is firm left out, and the past five."""
    is_next = [
        o.phase.is_firm or (o.phase is ReservationPhase.REFUSED and o.end > now)
        for o in occurrences
    ]
    past = [o for o, ahead in zip(occurrences, is_next, strict=True) if not ahead][-PAST_KEPT:]
    return tuple(o for o, ahead in zip(occurrences, is_next, strict=True) if ahead or o in past)


def _shown(occurrences: tuple[Occurrence, ...]) -> Occurrence:
    """Return the occurrence that stands for all: the open one, the next one, the last one."""
    for phase in (ReservationPhase.ACTIVE, ReservationPhase.PLANNED):
        for occurrence in occurrences:
            if occurrence.phase is phase:
                return occurrence
    return occurrences[-1]


def _lines(
    name: JobId, was: ReservationStatus | None, decided: Iterable[ReservationDecision]
) -> list[OccurrenceTransition]:
    before = {o.start: o.phase for o in (was.occurrences if was is not None else ())}
    return [
        OccurrenceTransition(
            reservation=name,
            start=each.occurrence.start,
            before=before.get(each.occurrence.start),
            after=each.occurrence.phase,
            reason=each.reason,
        )
        for each in decided
    ]


def summary_of(held: Reservation) -> ReservationSummary:
    """Return what lists show of a reservation."""
    return ReservationSummary(
        gpus=held.gpus.count,
        gpu_types=held.gpus.types,
        for_jobs=held.for_jobs,
        exclusive=held.exclusive,
        release_if_idle_s=held.release_if_idle_s,
        budget_group=held.budget_group,
        timezone=held.timezone,
        every=held.every,
    )
