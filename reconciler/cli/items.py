"""One job, one attempt, one forecast as JSON: the same keys in every verb that shows them."""

from collections.abc import Mapping
from typing import Any

from reconciler.cli.output import allocation, instant
from reconciler.cli.phrases import phrase
from reconciler.domain.attempt import Attempt
from reconciler.domain.plan import Expectation
from reconciler.domain.status import Hold, JobPhase, JobStatus
from reconciler.domain.units import Instant


def job_item(status: JobStatus, expectation: Expectation | None, now: Instant) -> dict[str, Any]:
    """Return what lists show of a job: instants in UTC, durations in seconds, whole GPUs."""
    team, _, name = status.job.partition("/")
    summary = status.summary
    live = status.live_attempt
    return {
        "job": status.job,
        "team": team,
        "name": name,
        "phase": str(status.phase),
        "reason": str(status.reason),
        "reason_text": phrase(status.reason),
        "message": status.message,
        "priority": summary.priority.name if summary else None,
        "gpus": summary.gpus if summary else None,
        "gpu_types": list(summary.gpu_types) if summary else [],
        "model": summary.model if summary else None,
        "generation": status.generation,
        "submitted_at": instant(summary.submitted_at if summary else None),
        "since": instant(status.since),
        "wait_s": waited_s(status, now),
        "running_s": status.ran_s + (live.running_s(now) if live else 0),
        "gpu_seconds": gpu_seconds(status, now),
        "attempt": attempt_item(live, now) if live else None,
        "forecast": forecast_item(expectation) if expectation else None,
    }


def attempt_item(attempt: Attempt, now: Instant) -> dict[str, Any]:
    """Return one attempt."""
    return {
        "id": attempt.id,
        "number": attempt.number,
        "phase": str(attempt.phase),
        "reason": str(attempt.reason) if attempt.reason else None,
        "gpus": attempt.gpus,
        "allocation": allocation(attempt.allocation),
        "commit": attempt.commit,
        "spec_digest": attempt.spec_digest,
        "decided_at": instant(attempt.decided_at),
        "started_at": instant(attempt.started_at),
        "stop_asked_at": instant(attempt.stop_asked_at),
        "stop_cause": str(attempt.stop_cause) if attempt.stop_cause else None,
        "ended_at": instant(attempt.ended_at),
        "running_s": attempt.running_s(now),
        "exit_status": attempt.exit_status,
        "step": attempt.step,
        "checkpoint_step": attempt.checkpoint_step,
        "checkpoint_at": instant(attempt.checkpoint_at),
    }


def forecast_item(expectation: Expectation) -> dict[str, Any]:
    """Return when and where a job is expected to run."""
    return {
        "start_p50": instant(expectation.start_p50),
        "start_p90": instant(expectation.start_p90),
        "end_p50": instant(expectation.end_p50),
        "end_p90": instant(expectation.end_p90),
        "allocation": allocation(expectation.allocation),
        "rests_on": list(expectation.rests_on),
    }


def hold_item(hold: Hold) -> dict[str, Any]:
    """Return devices kept for a preemptor."""
    return {
        "freed_for": hold.freed_for,
        "allocation": allocation(hold.devices),
        "victims": list(hold.victims),
    }


def job_detail(
    status: JobStatus, expectation: Expectation | None, now: Instant
) -> Mapping[str, Any]:
    """Return everything the status branch holds of one job."""
    return {
        **job_item(status, expectation, now),
        "submission": status.submission,
        "observed_commit": status.observed_commit,
        "spec_digest": status.spec_digest,
        "attempts_made": status.attempts_made,
        "tries_used": status.tries_used,
        "lost": status.lost,
        "preemptions": status.preemptions,
        "retry_at": instant(status.retry_at),
        "absent_since": instant(status.absent_since),
        "attempts": [attempt_item(attempt, now) for attempt in status.attempts],
        "holds": [hold_item(hold) for hold in status.holds],
    }


def waited_s(status: JobStatus, now: Instant) -> int | None:
    """Return how long the job has waited in all: time since submission that it did not run.

    None once it has finished, and where it was never submitted as a valid document.
    """
    if status.summary is None or status.phase.is_finished or status.phase is JobPhase.INVALID:
        return None
    live = status.live_attempt
    ran = status.ran_s + (live.running_s(now) if live else 0)
    return max(now - status.summary.submitted_at - ran, 0)


def gpu_seconds(status: JobStatus, now: Instant) -> int:
    """Return the GPU-seconds used so far, the live attempt's included."""
    live = status.live_attempt
    return status.gpu_seconds + (live.running_s(now) * live.gpus if live else 0)
