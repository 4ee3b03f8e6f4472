"""How long a job still needs: the p50 and p90 every forecast rests on.

The total comes from the legal sizes of the snapshot (history, or the submitter's estimate); what
is saved in checkpoints is taken off.  A running job that reports steps is measured by its own
speed, and one that has outlived its estimate is expected to need a tenth of what it ran.
"""

from dataclasses import dataclass

from reconciler.domain.attempt import Attempt, Observation
from reconciler.domain.job import GangSize, JobSpec
from reconciler.domain.policy import Policy
from reconciler.domain.status import JobStatus
from reconciler.domain.units import Instant, Seconds

FLOOR_S = Seconds(60)
"""The least a job past its estimate is expected to need."""
OVERRUN_SHARE = 0.10
P90_OVER_P50 = 1.5
"""Where nothing better is known.  A guess; learned spreads replace it with the sizes."""
MEASURED_AFTER_S = Seconds(60)
"""An attempt's own speed counts once it has run this long: the first steps are slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A duration with its uncertainty, in seconds; ``p50 <= p90``."""

    p50: Seconds
    p90: Seconds

    def at(self, *, is_late: bool) -> Seconds:
        """Return p90 where things are taken to go slowly, else p50."""
        return self.p90 if is_late else self.p50

    def times(self, factor: float) -> "Span":
        """Return the duration of something that goes so many times as long."""
        if factor == 1.0:
            return self
        return Span(p50=Seconds(int(self.p50 * factor)), p90=Seconds(int(self.p90 * factor)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """An instant with its uncertainty; ``p50 <= p90``."""

    p50: Instant
    p90: Instant

    def at(self, *, is_late: bool) -> Instant:
        """Return p90 where things are taken to go slowly, else p50."""
        return self.p90 if is_late else self.p50


def total(
    spec: JobSpec, sizes: tuple[GangSize, ...], policy: Policy, *, gpus: int | None = None
) -> Span:
    """Return the expected running time of one whole generation of ``spec``.

    ``gpus``: were it run on so many; None: on what it asks for.

    Without sizes: the estimate, else half the limit, else the policy's default; p90 is the limit.
    """
    gpus = spec.gpus.count if gpus is None else gpus
    chosen = next((size for size in sizes if size.gpus == gpus), None)
    if chosen is not None:
        p50, p90 = chosen.duration_p50_s, chosen.duration_p90_s
    else:
        half_limit = None if spec.limit_s is None else Seconds(spec.limit_s // 2)
        p50 = spec.estimate_s or half_limit or policy.default_duration_s
        p90 = spec.limit_s or Seconds(int(p50 * P90_OVER_P50))
    if spec.limit_s is not None:
        p50, p90 = min(p50, spec.limit_s), min(p90, spec.limit_s)
    return Span(p50=max(p50, Seconds(1)), p90=max(p90, p50, Seconds(1)))


def of_pending(status: JobStatus, spec: JobSpec, whole: Span) -> Span:
    """Return what is left to run from the last durable checkpoint."""
    done = _done_share(status, spec)
    if done is not None:
        return _or_overrun(whole.p50 * (1 - done), whole.p90 * (1 - done), 0)
    saved_s = saved(status)
    return _or_overrun(whole.p50 - saved_s, whole.p90 - saved_s, saved_s)


def of_live(
    status: JobStatus,
    attempt: Attempt,
    seen: Observation | None,
    whole: Span,
    *,
    now: Instant,
) -> Span:
    """Return what is left of a live attempt at ``now``."""
    ran_s = attempt.running_s(now)
    if seen is not None and seen.step is not None and seen.total_steps:
        left = _by_steps(status, attempt, seen.step, seen.total_steps, whole, ran_s)
        spread = whole.p90 / whole.p50
        return Span(
            p50=Seconds(max(int(left), 1)),
            p90=Seconds(max(int(left * spread), 1)),
        )
    done_s = saved(status) + ran_s
    return _or_overrun(whole.p50 - done_s, whole.p90 - done_s, done_s)


def saved(status: JobStatus) -> Seconds:
    """Return the running time of ended attempts that checkpoints keep."""
    lost = sum(
        _since_checkpoint(attempt) for attempt in status.attempts if not attempt.phase.is_live
    )
    return Seconds(max(status.ran_s - lost, 0))


def _since_checkpoint(ended: Attempt) -> int:
    if ended.started_at is None or ended.ended_at is None:
        return 0
    kept_until = ended.started_at
    if ended.checkpoint_at is not None:
        kept_until = Instant(max(kept_until, ended.checkpoint_at))
    return max(ended.ended_at - kept_until, 0)


def _done_share(status: JobStatus, spec: JobSpec) -> float | None:
    steps = [a.checkpoint_step for a in status.attempts if a.checkpoint_step is not None]
    if not steps or not spec.facts.max_steps:
        return None
    return min(steps[-1] / spec.facts.max_steps, 1.0)


def _by_steps(
    status: JobStatus,
    attempt: Attempt,
    step: int,
    total_steps: int,
    whole: Span,
    ran_s: Seconds,
) -> float:
    left_steps = max(total_steps - step, 0)
    earlier = [
        a.checkpoint_step
        for a in status.attempts
        if a.id != attempt.id and a.checkpoint_step is not None
    ]
    own_steps = step - (earlier[-1] if earlier else 0)
    if own_steps > 0 and ran_s >= MEASURED_AFTER_S:
        return left_steps * ran_s / own_steps
    return whole.p50 * left_steps / total_steps


def _or_overrun(p50: float, p90: float, done_s: int) -> Span:
    """Return what is left of an estimate; past it, a tenth of what ran, at least a minute."""
    overrun = max(FLOOR_S, int(OVERRUN_SHARE * done_s))
    low = Seconds(int(p50) if p50 >= 1 else overrun)
    return Span(p50=low, p90=max(Seconds(int(p90)), low))
