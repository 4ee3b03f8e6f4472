from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.job import Submission
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.status import JobPhase
from reconciler.domain.units import Instant
from reconciler.planning.standing import Standing, clamped_submission, standing, standings
from tests.builders import a_snapshot
from tests.values import MAIN, NOW, a_commit, a_job_id

JOB = a_job_id("job")


def stands(**given: Any) -> Standing:
    return standing(a_snapshot(**given), JOB)


def with_submission(snapshot: Snapshot, commit: str, at: int) -> Snapshot:
    found = {JOB: Submission(commit=a_commit(commit), committed_at=Instant(at))}
    return replace(snapshot, desired=replace(snapshot.desired, submissions=found))


def test_a_new_job_gets_a_fresh_status() -> None:
    here = stands(pending={"job": {"gpus": 4, "priority": "P1", "submitted_ago": "1h"}})

    assert here.recorded is None
    assert here.status is not None and here.status.summary is not None
    assert here.status.submission == a_commit(f"submission of {JOB}")
    assert (here.status.summary.gpus, here.status.summary.submitted_at) == (4, NOW - 3600)


def test_a_job_nobody_saw_appear_is_submitted_now() -> None:
    snapshot = a_snapshot(pending={"job": {}})
    snapshot = replace(snapshot, desired=replace(snapshot.desired, submissions={}))

    here = standing(snapshot, JOB)

    assert here.status is not None and here.status.summary is not None
    assert (here.status.submission, here.status.summary.submitted_at) == (MAIN, NOW)


@pytest.mark.parametrize(("committed_ago", "submitted_ago"), [(50, 50), (5000, 100), (-50, 0)])
def test_nobody_backdates_a_submission(committed_ago: int, submitted_ago: int) -> None:
    snapshot = replace(a_snapshot(), previous_look_at=Instant(NOW - 100))

    assert clamped_submission(Instant(NOW - committed_ago), snapshot) == NOW - submitted_ago


def test_the_first_look_believes_the_committer() -> None:
    assert clamped_submission(Instant(NOW - 5000), a_snapshot()) == NOW - 5000


def test_an_edit_keeps_the_status_and_the_place() -> None:
    here = stands(pending={"job": {"reason": "gpus_busy", "submitted_ago": "5h"}})

    assert here.status == here.recorded


def test_a_finished_job_starts_over_by_generation_or_submission() -> None:
    raised = stands(others={"job": {"phase": "failed", "generation": 2, "recorded_generation": 1}})
    again = stands(others={"job": {"phase": "failed", "resubmitted": True}})
    lowered = stands(others={"job": {"phase": "failed", "generation": 1, "recorded_generation": 2}})

    assert raised.status is not None and raised.status.phase is JobPhase.PENDING
    assert (raised.status.generation, raised.status.attempts_made) == (2, 0)
    assert again.status is not None and again.status.phase is JobPhase.PENDING
    assert lowered.status == lowered.recorded


def test_a_lowered_generation_seen_as_a_submission_is_none() -> None:
    snapshot = with_submission(
        a_snapshot(others={"job": {"phase": "succeeded", "recorded_generation": 2}}), "old", NOW
    )

    assert standing(snapshot, JOB).status == standing(snapshot, JOB).recorded


def test_a_file_that_was_seen_gone_may_come_back_with_any_generation() -> None:
    gone = {"phase": "succeeded", "recorded_generation": 2, "absent_for": "1h"}
    snapshot = with_submission(a_snapshot(others={"job": gone}), "new", NOW)

    here = standing(snapshot, JOB)

    assert here.status is not None
    assert (here.status.generation, here.status.phase) == (1, JobPhase.PENDING)


def test_a_live_attempt_keeps_its_submission_until_it_has_left() -> None:
    here = stands(running={"job": {"resubmitted": True}})

    assert here.status == here.recorded
    assert here.newer is not None


def test_a_remembered_submission_starts_once_the_attempt_has_left() -> None:
    snapshot = a_snapshot(others={"job": {"phase": "cancelled", "reason": "new_submission"}})
    waiting = Submission(commit=a_commit("second"), committed_at=NOW)
    statuses = {JOB: replace(snapshot.statuses[JOB], resubmitted=waiting)}

    here = standing(replace(snapshot, statuses=statuses), JOB)

    assert here.status is not None
    assert here.status.submission == a_commit("second")
    assert here.status.resubmitted is None


def test_a_rewritten_main_starts_nothing_over() -> None:
    raised = {"phase": "failed", "generation": 2, "recorded_generation": 1}
    here = stands(rewritten=True, others={"job": raised})
    new = stands(rewritten=True, pending={"job": {}})

    assert here.status == here.recorded
    assert new.status is None


def test_a_document_that_becomes_valid_is_submitted() -> None:
    here = stands(others={"job": {"phase": "invalid"}})

    assert here.status is not None
    assert (here.status.phase, here.status.submission) == (JobPhase.PENDING, MAIN)


def test_an_invalid_document_has_no_status_to_plan_from() -> None:
    assert stands(pending={"job": {"file": "never_valid"}}).status is None


def test_an_attempt_is_followed() -> None:
    here = stands(running={"job": {"seen": "ended", "outcome": "succeeded"}})

    assert here.has_ended
    assert here.live is None


def test_standings_cover_files_and_statuses_sorted() -> None:
    snapshot = a_snapshot(
        pending={"b": {}, "vision/a": {}}, others={"c": {"phase": "succeeded", "file": "gone"}}
    )

    assert list(standings(snapshot)) == ["research/b", "research/c", "vision/a"]
