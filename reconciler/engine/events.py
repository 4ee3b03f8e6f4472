"""Who wants to hear of what happened?  Two statuses of a job become its notifications.

Derived from what is recorded, not from what a cycle remembers: after a crash the statuses of the
last commit that was handed on and those of the tip give the same notifications, with the same
ids, so a receiver that drops repeated ids hears of everything exactly once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.domain.attempt import Attempt
from reconciler.domain.job import JobSpec
from reconciler.domain.problem import SpecProblem
from reconciler.domain.status import JobStatus
from reconciler.domain.units import CommitId, rfc3339

EVENT_VERSION = "headway.event/v1"
SECURITY_SINK = "security"
"""A sink of this name in conf also hears of wildcard, negative and absurd requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One event for one sink; ``id`` is the same however often it is made."""

    id: str
    sink: str
    body: Mapping[str, Any]


def notifications(
    before: JobStatus | None, after: JobStatus, spec: JobSpec | None
) -> tuple[Notification, ...]:
    """Return what the sinks named by ``spec`` are told of the change; nothing without a spec."""
    if spec is None:
        return ()
    told: list[Notification] = []
    for attempt in _started(before, after):
        body = _body("started", after, attempt) | {
            "at": rfc3339(attempt.started_at or attempt.decided_at)
        }
        told += [
            Notification(id=f"{attempt.id}:started:{sink}", sink=sink, body=body)
            for sink in spec.notify_on_start
        ]
    if _has_finished(before, after):
        last = after.attempts[-1] if after.attempts else None
        body = _body("finished", after, last)
        run = f"{after.job}:{after.submission}:g{after.generation}"
        told += [
            Notification(id=f"{run}:finished:{sink}", sink=sink, body=body)
            for sink in spec.notify_on_finish
        ]
    return tuple(told)


def security_notification(problem: SpecProblem, *, author: str, commit: CommitId) -> Notification:
    """Return what the sink named ``security`` is told of ``problem``."""
    return Notification(
        id=f"{commit}:{problem.file}:{problem.line}:{problem.code}:{SECURITY_SINK}",
        sink=SECURITY_SINK,
        body={
            "version": EVENT_VERSION,
            "event": "security",
            "file": problem.file,
            "line": problem.line,
            "code": problem.code,
            "message": problem.message,
            "author": author,
            "commit": commit,
        },
    )


def _started(before: JobStatus | None, after: JobStatus) -> list[Attempt]:
    known = {each.id for each in before.attempts if each.started_at} if before else set()
    return [each for each in after.attempts if each.started_at and each.id not in known]


def _has_finished(before: JobStatus | None, after: JobStatus) -> bool:
    if not after.phase.is_finished:
        return False
    if before is None or not before.phase.is_finished:
        return True
    return (before.submission, before.generation) != (after.submission, after.generation)


def _body(event: str, status: JobStatus, attempt: Attempt | None) -> dict[str, Any]:
    body: dict[str, Any] = {
        "version": EVENT_VERSION,
        "event": event,
        "job": status.job,
        "submission": status.submission,
        "generation": status.generation,
        "phase": status.phase.value,
        "reason": status.reason.value,
        "message": status.message,
        "attempt": attempt.id if attempt else None,
    }
    if attempt and attempt.ended_at and event == "finished":
        body["at"] = rfc3339(attempt.ended_at)
        body["exit_status"] = attempt.exit_status
    return body
