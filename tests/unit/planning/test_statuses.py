from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.attempt import AttemptPhase, StopCause
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.status import ATTEMPTS_KEPT, JobPhase, JobStatus
from reconciler.planning.plan import plan
from reconciler.planning.statuses import next_statuses
from tests.builders import a_snapshot
from tests.values import NOW, a_commit, a_job_id

JOB = a_job_id("job")


def after(snapshot: Snapshot, job: str = JOB) -> JobStatus | None:
    update = next_statuses(snapshot, plan(snapshot)[0])
    return next((status for status in update.changed if status.job == job), None)


def changed(**given: Any) -> JobStatus:
    status = after(a_snapshot(**given))
    assert status is not None, "nothing changed"
    return status


def unchanged(**given: Any) -> bool:
    return after(a_snapshot(**given)) is None


def test_a_start_is_recorded_as_an_intent() -> None:
    status = changed(pending={"job": {"gpus": 2, "submitted_ago": "5m"}})
    attempt = status.attempts[-1]

    assert (status.phase, status.reason.value) == (JobPhase.RUNNING, "gpus_free")
    assert (attempt.phase, attempt.number, attempt.started_at) == (AttemptPhase.LAUNCHING, 1, None)
    assert attempt.id.startswith("research.job-g1-a1-")
    assert (status.attempts_made, status.since, status.message) == (1, NOW, "2 GPUs on n1")


def test_the_next_attempt_counts_on() -> None:
    status = changed(pending={"job": {"attempts_made": 7, "reason": "gpus_busy"}})

    assert (status.attempts[-1].number, status.attempts_made) == (8, 8)


def test_only_the_last_attempts_are_kept() -> None:
    snapshot = a_snapshot(
        running={"job": {"seen": "ended", "outcome": "stopped", "cause": "drain"}}
    )
    old = snapshot.statuses[JOB].attempts[0]
    ended = tuple(
        replace(old, number=n, phase=AttemptPhase.LOST, ended_at=NOW) for n in range(1, 6)
    )
    pending = replace(
        snapshot.statuses[JOB], phase=JobPhase.PENDING, attempts=ended, attempts_made=5
    )

    status = after(replace(snapshot, statuses={JOB: pending}, observations={}))

    assert status is not None
    assert len(status.attempts) == ATTEMPTS_KEPT
    assert [attempt.number for attempt in status.attempts] == [2, 3, 4, 5, 6]


def test_the_first_sign_of_life_is_recorded_once() -> None:
    launched = {"attempt_phase": "launching", "ran": "10s", "seen": "running"}
    status = changed(running={"job": launched})

    assert status.attempts[-1].phase is AttemptPhase.RUNNING
    assert status.reason.value == "runs"
    assert unchanged(running={"job": {"reason": "runs"}})


@pytest.mark.parametrize("seen", [{"step": 50, "total_steps": 90}, {"since_checkpoint": "1s"}])
def test_progress_is_not_recorded(seen: dict[str, Any]) -> None:
    assert unchanged(running={"job": seen})


def test_a_stop_keeps_the_progress_of_the_moment() -> None:
    status = changed(running={"job": {"suspend": True, "step": 50, "since_checkpoint": "1m"}})
    attempt = status.attempts[-1]

    assert (status.phase, attempt.phase) == (JobPhase.STOPPING, AttemptPhase.STOPPING)
    assert (attempt.stop_cause, attempt.stop_asked_at) == (StopCause.SUSPEND, NOW)
    assert (attempt.step, attempt.checkpoint_at) == (50, NOW - 60)


def test_an_end_adds_up_what_ran() -> None:
    status = changed(
        running={
            "job": {
                "gpus": 4,
                "ran": "1h",
                "ran_before": "2h",
                "seen": "ended",
                "outcome": "succeeded",
            }
        }
    )

    assert status.phase is JobPhase.SUCCEEDED
    assert (status.ran_s, status.gpu_seconds) == (3 * 3600, 4 * 3600)
    assert status.attempts[-1].ended_at == NOW


def test_a_failure_is_counted_and_dated() -> None:
    status = changed(running={"job": {"seen": "ended", "outcome": "failed", "seen_message": "x"}})

    assert (status.tries_used, status.retry_at, status.message) == (1, NOW + 30, "x")


def test_a_start_clears_the_pause() -> None:
    status = changed(pending={"job": {"tries_used": 1, "retry_in": 0, "reason": "retry_backoff"}})

    assert status.retry_at is None


def test_a_preemption_is_counted_and_its_hold_recorded() -> None:
    snapshot = a_snapshot(
        running={"job": {"gpus": 8, "since_checkpoint": "1m"}},
        pending={"hotfix": {"gpus": 8, "priority": "P0"}},
    )
    victim, preemptor = after(snapshot), after(snapshot, a_job_id("hotfix"))

    assert victim is not None and preemptor is not None
    assert (victim.preemptions, victim.attempts[-1].stop_cause) == (1, StopCause.PREEMPT)
    assert preemptor.phase is JobPhase.PENDING
    assert preemptor.holds[0].victims == (victim.attempts[-1].id,)
    assert preemptor.holds[0].devices.gpus == 8


def test_a_new_wording_of_the_same_wait_is_no_change() -> None:
    waits = {"gpus": 8, "reason": "gpus_busy", "message": "said differently"}

    assert unchanged(running={"other": {"gpus": 8}}, pending={"job": waits})


def test_a_new_reason_to_wait_is() -> None:
    status = changed(
        running={"other": {"gpus": 8}}, pending={"job": {"gpus": 8, "reason": "quota_exceeded"}}
    )

    assert (status.phase, status.reason.value) == (JobPhase.PENDING, "gpus_busy")
    assert status.since == NOW - 3 * 3600, "the phase did not change"


def test_a_live_edit_of_priority_reaches_the_summary() -> None:
    snapshot = a_snapshot(running={"job": {"priority": "P1"}})
    recorded = snapshot.statuses[JOB]
    assert recorded.summary is not None
    older = replace(
        recorded,
        summary=replace(recorded.summary, priority=recorded.summary.priority.__class__.P4),
        spec_digest=recorded.spec_digest.__class__("sha256:older"),
        observed_commit=a_commit("older"),
    )

    status = after(replace(snapshot, statuses={JOB: older}))

    assert status is not None
    assert status.summary == recorded.summary
    assert (status.spec_digest, status.observed_commit) == (
        recorded.spec_digest,
        recorded.observed_commit,
    )
    assert status.attempts[-1].spec_digest == recorded.attempts[-1].spec_digest


def test_a_new_tip_alone_changes_no_status() -> None:
    snapshot = a_snapshot(running={"job": {}})
    newer = replace(snapshot.desired.jobs[JOB], commit=a_commit("newer"))

    moved = replace(snapshot, desired=replace(snapshot.desired, jobs={JOB: newer}))

    assert after(moved) is None


def test_an_edit_of_a_finished_job_changes_nothing() -> None:
    snapshot = a_snapshot(others={"job": {"phase": "succeeded", "gpus": 4}})
    recorded = replace(
        snapshot.statuses[JOB], spec_digest=snapshot.statuses[JOB].spec_digest.__class__("old")
    )

    assert after(replace(snapshot, statuses={JOB: recorded})) is None


def test_a_file_that_is_gone_and_back_is_dated_and_forgotten() -> None:
    assert changed(running={"job": {"file": "gone"}, "b": {}}).absent_since == NOW
    assert changed(running={"job": {"absent_for": "1m"}}).absent_since is None


def test_a_finished_jobs_file_that_is_gone_is_dated_too() -> None:
    status = changed(others={"job": {"phase": "succeeded", "file": "gone"}})

    assert (status.phase, status.absent_since) == (JobPhase.SUCCEEDED, NOW)


def test_a_refusal_of_a_finished_jobs_document_is_told_and_taken_back() -> None:
    told = changed(others={"job": {"phase": "succeeded", "file": "wildcard"}})
    back = changed(others={"job": {"phase": "succeeded", "message": told.message}})

    assert told.phase is JobPhase.SUCCEEDED
    assert "Ada <ada@example.org>" in told.message
    assert a_commit("broken")[:12] in told.message
    assert back.message == ""


def test_a_newer_submission_is_remembered_while_the_old_one_leaves() -> None:
    status = changed(running={"job": {"resubmitted": True}})

    assert status.resubmitted is not None
    assert status.resubmitted.commit == a_commit(f"another submission of {JOB}")
    assert status.phase is JobPhase.STOPPING


def test_a_cancelled_attempt_says_why() -> None:
    stopping = {"cause": "cancel", "reason": "new_submission", "seen": "ended"}
    status = changed(running={"job": stopping})

    assert status.phase is JobPhase.CANCELLED
    assert status.attempts[-1].reason is not None
    assert status.attempts[-1].reason.value == status.reason.value == "new_submission"


def test_transitions_say_where_from_and_why() -> None:
    snapshot = a_snapshot(pending={"job": {}}, running={"runs": {"suspend": True}})
    update = next_statuses(snapshot, plan(snapshot)[0])

    assert [
        (t.job.split("/")[1], t.before and t.before.value, t.after.value, t.reason.value)
        for t in update.transitions
    ] == [
        ("job", None, "running", "gpus_free"),
        ("runs", "running", "stopping", "suspend_asked"),
    ]
    assert [t.attempt for t in update.transitions] == [s.attempts[-1].id for s in update.changed]


def test_an_empty_update_is_false() -> None:
    snapshot = a_snapshot(running={"job": {}})

    assert not next_statuses(snapshot, plan(snapshot)[0])
