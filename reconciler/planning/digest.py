"""The digest of a plan: the same decisions give the same digest on every machine.

sha256 over canonical JSON of the decisions that change something and of the actions.  ``Keep``
and a ``Wait`` that is already recorded are left out, so a cycle in which nothing happens has the
digest of nothing, however many jobs there are and whenever it runs.  Ranks and scores explain;
they are not decided.
"""

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from reconciler.domain.cluster import Allocation
from reconciler.domain.plan import Action, Decision, Kill, Launch, Stop, Verb
from reconciler.domain.reason import Reason
from reconciler.domain.reservation import ReservationDecision
from reconciler.domain.status import JobPhase, JobStatus
from reconciler.domain.units import Digest, JobId

HELD_FOR = frozenset((Reason.DEPENDENCY_FAILED, Reason.NEVER_FITS, Reason.LOST_TOO_OFTEN))
"""Reasons to wait that need a person: the job is ``held``, not ``pending``."""


def waiting_phase(reason: Reason) -> JobPhase:
    """Return the phase of a job that waits for ``reason``."""
    return JobPhase.HELD if reason in HELD_FOR else JobPhase.PENDING


def is_change(decision: Decision, recorded: JobStatus | None) -> bool:
    """True for a decision that is not already what the status says."""
    if decision.verb is Verb.KEEP:
        return False
    if decision.verb is not Verb.WAIT or recorded is None:
        return True
    held = recorded.holds[0].devices if recorded.holds else None
    return (
        recorded.phase is not waiting_phase(decision.reason)
        or recorded.reason is not decision.reason
        or held != decision.hold
    )


def plan_digest(
    decisions: Mapping[JobId, Decision],
    actions: Iterable[Action],
    statuses: Mapping[JobId, JobStatus],
) -> Digest:
    """Return ``sha256:<hex>`` over the changed decisions and the actions."""
    changed = [job for job in sorted(decisions) if is_change(decisions[job], statuses.get(job))]
    return digest_of_changes((decisions[job] for job in changed), actions)


def digest_of_changes(
    decisions: Iterable[Decision],
    actions: Iterable[Action],
    reservations: Iterable[ReservationDecision] = (),
) -> Digest:
    """Return the digest of these changed decisions, sorted by job, and these actions.

    Where no reservation is decided about, it is as if there were none.
    """
    document: dict[str, Any] = {
        "version": 1,
        "decisions": [_decision(decision) for decision in decisions],
        "actions": [_action(action) for action in actions],
    }
    if booked := [_reservation(decision) for decision in reservations]:
        document["reservations"] = booked
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return Digest(f"sha256:{sha256(text.encode()).hexdigest()}")


def _decision(decision: Decision) -> dict[str, Any]:
    attempt = decision.attempt
    return {
        "job": decision.job,
        "verb": decision.verb.value,
        "reason": decision.reason.value,
        "detail": decision.detail,
        "attempt": None
        if attempt is None
        else {
            "id": attempt.id,
            "commit": attempt.commit,
            "spec_digest": attempt.spec_digest,
            "allocation": _allocation(attempt.allocation),
        },
        "victims": list(decision.victims),
        "for_job": decision.for_job,
        "hold": None if decision.hold is None else _allocation(decision.hold),
    }


def _reservation(decision: ReservationDecision) -> dict[str, Any]:
    occurrence = decision.occurrence
    devices = occurrence.devices
    return {
        "reservation": decision.reservation,
        "verb": decision.verb.value,
        "reason": decision.reason.value,
        "detail": decision.detail,
        "start": occurrence.start,
        "end": occurrence.end,
        "devices": None if devices is None else _allocation(devices),
        "windows": [[window.first, window.last] for window in occurrence.windows],
        "idle_gpu_s": occurrence.idle_gpu_s,
    }


def _allocation(allocation: Allocation) -> list[list[Any]]:
    return [[share.node, list(share.devices)] for share in allocation.shares]


def _action(action: Action) -> dict[str, Any]:
    match action:
        case Launch():
            return {"launch": action.attempt}
        case Stop():
            return {"stop": action.attempt, "grace_s": action.grace_s, "cause": action.cause.value}
        case Kill():
            return {"kill": action.attempt}
