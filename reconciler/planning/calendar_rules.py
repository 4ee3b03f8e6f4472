"""Guards what is reserved and budgeted: rules of the calendar that no plan may break.

Like the other invariants: recomputed from the snapshot and the plan in the plainest way, device by
device, whoever made the plan.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from reconciler.domain.attempt import Attempt
from reconciler.domain.plan import Plan, Verb
from reconciler.domain.reservation import Occurrence, ReservationPhase, ReservationVerb
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import DeviceId, Instant, JobId, NodeName
from reconciler.errors import InvariantError
from reconciler.planning.standing import Standing

_Pair = tuple[NodeName, DeviceId]
_Key = tuple[JobId, Instant]


@dataclass(frozen=True, slots=True)
class _Kept:
    """One firm occurrence after the plan."""

    name: JobId
    occurrence: Occurrence
    members: tuple[JobId, ...]
    is_exclusive: bool

    def admits(self, job: JobId) -> bool:
        if self.members:
            return job in self.members
        return job.split("/")[0] == self.name.split("/")[0]

    def pairs(self) -> frozenset[_Pair]:
        devices = self.occurrence.devices
        return frozenset() if devices is None else frozenset(devices.devices())


def check_calendar(snapshot: Snapshot, jobs: Mapping[JobId, Standing], plan: Plan) -> None:
    """Raise ``InvariantError``, naming the rule, if ``plan`` breaks one of the calendar."""
    if not snapshot.reservations and not plan.reservations and not plan.budgets:
        return
    kept = _kept(snapshot, plan)
    _one_decision_an_occurrence(plan)
    _promises_kept(snapshot, plan)
    _windows_apart(kept)
    _opens_are_clear(kept, jobs, plan)
    for job, decision in plan.decisions.items():
        if decision.verb is Verb.START and decision.attempt is not None:
            _start_keeps_off(kept, job, decision.attempt, jobs[job], snapshot.now)
            _start_is_paid(kept, plan, job, decision.attempt)


def _broken(rule: str, what: str) -> InvariantError:
    return InvariantError(f"plan breaks the rule '{rule}': {what}; nothing was recorded or done")


def _kept(snapshot: Snapshot, plan: Plan) -> list[_Kept]:
    now: dict[_Key, Occurrence] = {
        (name, occurrence.start): occurrence
        for name, status in snapshot.reservations.items()
        for occurrence in status.occurrences
    }
    now |= {(d.reservation, d.occurrence.start): d.occurrence for d in plan.reservations}
    found = []
    for (name, _), occurrence in sorted(now.items(), key=lambda item: item[0]):
        if occurrence.phase.is_firm:
            found.append(_Kept(name, occurrence, *_rules(snapshot, name)))
    return found


def _rules(snapshot: Snapshot, name: JobId) -> tuple[tuple[JobId, ...], bool]:
    wanted = snapshot.desired.reservations.get(name)
    if wanted is not None:
        return wanted.held.for_jobs, wanted.held.exclusive
    status = snapshot.reservations.get(name)
    told = None if status is None else status.summary
    return ((), True) if told is None else (told.for_jobs, told.exclusive)


def _one_decision_an_occurrence(plan: Plan) -> None:
    keys = [(d.reservation, d.occurrence.start) for d in plan.reservations]
    if len(keys) != len(set(keys)) or keys != sorted(keys):
        raise _broken("one decision an occurrence", f"{keys}")


def _promises_kept(snapshot: Snapshot, plan: Plan) -> None:
    """What was booked is refused only when its own document changed."""
    for decision in plan.reservations:
        if decision.verb is not ReservationVerb.REFUSE:
            continue
        status = snapshot.reservations.get(decision.reservation)
        wanted = snapshot.desired.reservations.get(decision.reservation)
        was = {o.start: o.phase for o in (status.occurrences if status is not None else ())}
        phase = was.get(decision.occurrence.start)
        if phase is None or not phase.is_firm or status is None or wanted is None:
            continue
        if status.spec_digest == wanted.spec_digest:
            raise _broken("what is booked stays booked", decision.reservation)


def _windows_apart(kept: list[_Kept]) -> None:
    of_device: dict[_Pair, list[_Kept]] = {}
    for each in kept:
        for pair in each.pairs():
            of_device.setdefault(pair, []).append(each)
    for pair, all_of_it in of_device.items():
        in_order = sorted(all_of_it, key=lambda each: each.occurrence.start)
        for before, after in pairwise(in_order):
            if after.occurrence.start < before.occurrence.end:
                raise _broken("windows keep apart", f"{before.name} and {after.name} on {pair}")


def _opens_are_clear(kept: list[_Kept], jobs: Mapping[JobId, Standing], plan: Plan) -> None:
    opened = {
        (d.reservation, d.occurrence.start)
        for d in plan.reservations
        if d.verb is ReservationVerb.OPEN
    }
    for each in kept:
        if (each.name, each.occurrence.start) in opened:
            for job in _strangers(each, jobs):
                raise _broken("a window opens on clear devices", f"{each.name}: {job} is there")


def _strangers(each: _Kept, jobs: Mapping[JobId, Standing]) -> Iterator[JobId]:
    pairs = each.pairs()
    for job, standing in jobs.items():
        live = standing.live
        if live is not None and not each.admits(job) and pairs & set(live.allocation.devices()):
            yield job


def _start_keeps_off(
    kept: list[_Kept], job: JobId, attempt: Attempt, standing: Standing, now: Instant
) -> None:
    """Nobody starts in another's window, nor where it could still be there when one opens."""
    pairs = set(attempt.allocation.devices())
    for each in kept:
        if each.admits(job) or not pairs & each.pairs():
            continue
        is_open = each.occurrence.phase is ReservationPhase.ACTIVE
        if is_open and not each.is_exclusive and attempt.preemptible:
            continue
        if is_open or each.occurrence.start - now < _leaves_within_s(attempt, standing):
            raise _broken("starts keep off windows", f"{job} starts on devices of {each.name}")


def _leaves_within_s(attempt: Attempt, standing: Standing) -> int:
    """Return how long the start needs at least until it surely has left again."""
    spec, status = standing.spec, standing.status
    if attempt.preemptible:
        return int(attempt.grace_s)
    if spec is None or spec.limit_s is None:
        return 1
    return spec.limit_s - (status.ran_s if status is not None else 0)


def _start_is_paid(kept: list[_Kept], plan: Plan, job: JobId, attempt: Attempt) -> None:
    """Nothing starts on a budget that is used and promised beyond its limit, but what a window
    has paid for."""
    if any(job in each.members for each in kept):
        return
    for use in plan.budgets:
        if use.name == attempt.budget_group and use.left_gpu_s < 0:
            raise _broken("budgets are kept", f"{job} starts on {use.name}: {use.left_gpu_s} left")
