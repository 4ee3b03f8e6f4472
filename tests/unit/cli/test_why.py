"""Why a job waits, runs or ended, and what a person can do about it."""

import json

import pytest

from reconciler.cli.advice import advice
from reconciler.domain.reason import Reason
from reconciler.domain.status import JobPhase
from tests.unit.cli.command_line import Headway
from tests.unit.cli.sample_fleet import a_status


def test_a_waiting_job_says_for_what_until_when_and_behind_whom(headway: Headway) -> None:
    assert headway("why", "ads/rerank-with-a-long-name").lines == [
        "ads/rerank-with-a-long-name is pending since 09:10, 5h12m in all (Asia/Shanghai).",
        "  x  waits for free GPUs (gpus_busy): 6 on one node wanted, 3 free on node-1",
        "     next: recsys/qwen3-dpo (running on node-1 [0-3], ends ~21:40)",
        "It starts ~Mon 21:40 (p90 23:05), on node-1 [0-5], when recsys/qwen3-dpo leaves, "
        "ends ~Tue 03:00 (p90 06:00).",
        "Ahead of it: search/embed-v2 (P0).",
    ]


def test_the_first_in_line_has_nobody_ahead(headway: Headway) -> None:
    assert headway("why", "search/embed-v2").lines[-1] == "Ahead of it: nothing."


def test_a_running_job_says_where_why_and_until_when(headway: Headway) -> None:
    said = headway("why", "recsys/qwen3-dpo")
    assert "is running since 09:50, 4h32m (Asia/Shanghai)." in said.out
    assert "GPUs were freed for it (gpus_freed_by_victim)" in said.out
    assert "attempt 2 on node-1 [0-3]" in said.out
    assert "ends ~Mon 21:40 (p90 23:05)" in said.out


def test_a_failed_job_says_how_it_ended_and_what_to_do(headway: Headway) -> None:
    said = headway("why", "vision/ocr")
    assert said.lines[0] == "vision/ocr failed at 11:04, 3h18m ago (Asia/Shanghai)."
    assert "the command failed (command_failed): exit status 1" in said.out
    assert "headway logs vision/ocr --stderr" in said.lines[-1]
    assert "jobs/vision/ocr.yaml" in said.lines[-1]


def test_a_held_job_says_what_a_person_can_do(headway: Headway) -> None:
    assert headway("why", "ads/rerank").lines[-1].startswith("What to do: run that job again")


@pytest.mark.parametrize(
    "reason",
    [
        Reason.DEPENDENCY_FAILED, Reason.NEVER_FITS, Reason.LOST_TOO_OFTEN,
        Reason.HISTORY_REWRITTEN, Reason.SPEC_INVALID, Reason.WILDCARD_REQUEST,
        Reason.SUSPEND_ASKED, Reason.PRUNE_BLOCKED, Reason.COMMAND_FAILED, Reason.NON_FINITE_LOSS,
    ],
)  # fmt: skip
def test_whatever_waits_for_a_person_comes_with_advice(reason: Reason) -> None:
    said = advice(a_status("ads/rerank", JobPhase.HELD, reason))
    assert len(said) > 20
    assert "{" not in said


def test_what_only_needs_patience_comes_with_none() -> None:
    assert advice(a_status("ads/rerank", JobPhase.PENDING, Reason.GPUS_BUSY)) == ""


def test_json_has_the_same_answer(headway: Headway) -> None:
    told = json.loads(headway("why", "ads/rerank-with-a-long-name", "-o", "json").out)
    assert told["reason"] == "gpus_busy"
    assert told["ahead"] == ["search/embed-v2"]
    assert [each["job"] for each in told["rests_on"]] == ["recsys/qwen3-dpo"]
    assert told["rests_on"][0]["forecast"]["end_p50"] == "2026-11-30T13:40:00Z"
