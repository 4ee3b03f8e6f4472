"""What a change does to everybody else: two plans side by side.

The same instant and the same cluster, once without and once with the change: who starts or ends
later and by how much, who is asked to leave and for whom, who loses a start of this very moment.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.domain.plan import Expectation, Plan, Verb
from reconciler.domain.units import JobId, Seconds

WORTH_TELLING_S = Seconds(60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """One job's expectation on both sides."""

    job: JobId
    before: Expectation
    after: Expectation

    @property
    def start_by_s(self) -> Seconds:
        """How much later its (next) start is expected; negative: sooner."""
        return Seconds(self.after.start_p50 - self.before.start_p50)

    @property
    def end_by_s(self) -> Seconds:
        """How much later its end is expected; negative: sooner."""
        return Seconds(self.after.end_p50 - self.before.end_p50)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempted:
    """A running job that is asked to leave only with the change."""

    job: JobId
    for_job: JobId
    resumes: Expectation | None
    """Its next start; None: nothing tells when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """``after`` against ``before``; every tuple is sorted by job."""

    added: tuple[JobId, ...]
    removed: tuple[JobId, ...]
    delayed: tuple[Shift, ...]
    sooner: tuple[Shift, ...]
    preempted: tuple[Preempted, ...]
    displaced: tuple[JobId, ...]
    """Jobs that would start now without the change and have to wait with it."""
    without_place: tuple[JobId, ...]
    """Jobs that had an expected start and have none any more."""

    def __bool__(self) -> bool:
        """True if the change does anything to anybody."""
        return any(
            (
                self.added,
                self.removed,
                self.delayed,
                self.sooner,
                self.preempted,
                self.displaced,
                self.without_place,
            )
        )


def compare(before: Plan, after: Plan, *, at_least_s: Seconds = WORTH_TELLING_S) -> Comparison:
    """Return what differs; shifts of less than ``at_least_s`` seconds are left out."""
    both = sorted(before.decisions.keys() & after.decisions.keys())
    shifts = list(_shifts(before, after, both))
    return Comparison(
        added=tuple(sorted(after.decisions.keys() - before.decisions.keys())),
        removed=tuple(sorted(before.decisions.keys() - after.decisions.keys())),
        delayed=tuple(shift for shift in shifts if _most(shift) >= at_least_s),
        sooner=tuple(
            shift
            for shift in shifts
            if _most(shift) < at_least_s and min(shift.start_by_s, shift.end_by_s) <= -at_least_s
        ),
        preempted=tuple(_preempted(before, after, both)),
        displaced=tuple(
            job
            for job in both
            if before.decisions[job].verb is Verb.START
            and after.decisions[job].verb is not Verb.START
        ),
        without_place=tuple(
            job for job in both if job in before.forecast and job not in after.forecast
        ),
    )


def _shifts(before: Plan, after: Plan, both: list[JobId]) -> Iterator[Shift]:
    for job in both:
        old, new = before.forecast.get(job), after.forecast.get(job)
        if old is not None and new is not None:
            yield Shift(job=job, before=old, after=new)


def _most(shift: Shift) -> int:
    """The later of the two; a job asked to leave starts again later even if its end is near."""
    return max(shift.start_by_s, shift.end_by_s)


def _preempted(before: Plan, after: Plan, both: list[JobId]) -> Iterator[Preempted]:
    for job in both:
        decision = after.decisions[job]
        was = before.decisions[job]
        if decision.verb is not Verb.PREEMPT or decision.for_job is None:
            continue
        if was.verb is Verb.PREEMPT and was.for_job == decision.for_job:
            continue
        yield Preempted(job=job, for_job=decision.for_job, resumes=after.forecast.get(job))
