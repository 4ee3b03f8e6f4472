"""What becomes of a job when its attempt has ended: a pure table.

Only a failure uses up a try; what the infrastructure or another job did to an attempt does not.
A job at its time limit has failed whatever tries are left.
"""

from dataclasses import dataclass

from reconciler.domain.attempt import Attempt, AttemptPhase
from reconciler.domain.job import JobSpec
from reconciler.domain.policy import RetryPolicy
from reconciler.domain.reason import Reason
from reconciler.domain.status import JobPhase, JobStatus
from reconciler.domain.units import Instant, Seconds

_TERMINAL = {
    AttemptPhase.SUCCEEDED: JobPhase.SUCCEEDED,
    AttemptPhase.DIVERGED: JobPhase.DIVERGED,
    AttemptPhase.CANCELLED: JobPhase.CANCELLED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class After:
    """The job once its attempt has ended."""

    phase: JobPhase
    reason: Reason
    tries_used: int
    lost: int
    retry_at: Instant | None = None


def after_attempt(
    status: JobStatus, ended: Attempt, spec: JobSpec | None, *, policy: RetryPolicy, now: Instant
) -> After:
    """Return what the job becomes now that ``ended`` is its last attempt.

    ``status`` is from before the end; ``spec`` is None for a job whose file is gone.
    """
    assert ended.reason is not None  # an ended attempt has one
    tries, lost = status.tries_used, status.lost

    def becomes(phase: JobPhase, reason: Reason, retry_at: Instant | None = None) -> After:
        return After(phase=phase, reason=reason, tries_used=tries, lost=lost, retry_at=retry_at)

    if ended.phase in _TERMINAL:
        return becomes(_TERMINAL[ended.phase], ended.reason)
    if ended.phase is AttemptPhase.FAILED:
        tries += 1
    if ended.phase is AttemptPhase.LOST:
        lost += 1
    if ended.reason is Reason.TIME_LIMIT or is_at_limit(status, spec, ran_s=ended.running_s(now)):
        return becomes(JobPhase.FAILED, Reason.TIME_LIMIT)
    gpu_s = ended.running_s(now) * ended.gpus
    if ended.reason is Reason.GPU_HOURS_LIMIT or is_out_of_gpu_hours(status, spec, gpu_s=gpu_s):
        return becomes(JobPhase.FAILED, Reason.GPU_HOURS_LIMIT)
    if ended.phase is AttemptPhase.FAILED:
        if tries >= policy.max_tries:
            return becomes(JobPhase.FAILED, ended.reason)
        return becomes(JobPhase.PENDING, ended.reason, backoff_end(tries, policy, now))
    if ended.phase is AttemptPhase.LOST and lost > policy.max_lost:
        return becomes(JobPhase.HELD, Reason.LOST_TOO_OFTEN)
    if ended.phase is AttemptPhase.PREEMPTED and spec is not None and spec.suspend:
        return becomes(JobPhase.SUSPENDED, Reason.SUSPEND_ASKED)
    return becomes(JobPhase.PENDING, ended.reason)


def is_at_limit(status: JobStatus, spec: JobSpec | None, *, ran_s: Seconds) -> bool:
    """True when earlier attempts plus ``ran_s`` of the present one reach ``time.limit``."""
    return spec is not None and spec.limit_s is not None and status.ran_s + ran_s >= spec.limit_s


def is_out_of_gpu_hours(status: JobStatus, spec: JobSpec | None, *, gpu_s: int) -> bool:
    """True when earlier attempts plus ``gpu_s`` of the present one reach ``max_gpu_hours``."""
    if spec is None or spec.max_gpu_hours is None:
        return False
    return status.gpu_seconds + gpu_s >= spec.max_gpu_hours * 3600


def backoff_end(tries_used: int, policy: RetryPolicy, now: Instant) -> Instant:
    """Return when the next try may start: ``backoff_s``, doubled after each further failure."""
    return Instant(now + policy.backoff_s * 2 ** (tries_used - 1))
