"""Why a job waits, runs or ended, and what a person can do about it."""

import json
from dataclasses import replace

import pytest

from reconciler.cli.advice import advice
from reconciler.cli.explanation import score_words
from reconciler.domain.cluster import Allocation, NodeShare
from reconciler.domain.job import PriorityClass
from reconciler.domain.reason import Reason
from reconciler.domain.status import JobPhase
from reconciler.domain.units import DeviceId, Instant, JobId, NodeName, Seconds, TeamName
from reconciler.planning.counterfactual import Change, Suggestion
from reconciler.planning.explain import Apart, Check, Explanation
from reconciler.planning.priority import ScoreParts
from reconciler.planning.risk import Risk
from tests.unit.cli.command_line import Headway
from tests.unit.cli.sample_fleet import a_status


def test_a_waiting_job_says_for_what_until_when_and_behind_whom(headway: Headway) -> None:
    assert headway("why", "--quick", "ads/rerank-with-a-long-name").lines == [
        "ads/rerank-with-a-long-name is pending since 09:10, 5h12m in all (Asia/Shanghai).",
        "  x  waits for free GPUs (gpus_busy): needs 6 GPUs in one node",
        "     next: recsys/qwen3-dpo (running on node-1 [0-3], ends ~21:40)",
        "It starts ~Mon 21:40 (p90 23:05), on node-1 [0-5], when recsys/qwen3-dpo leaves, "
        "ends ~Tue 03:00 (p90 06:00).",
        "Ahead of it: search/embed-v2.",
    ]


def test_the_first_in_line_has_nobody_ahead(headway: Headway) -> None:
    assert headway("why", "--quick", "search/embed-v2").lines[-1] == "Ahead of it: nothing."


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
    said = headway("why", "--quick", "ads/rerank")
    assert "  x  held by its `after:` (dependency_failed): will not succeed: vision/ocr" in (
        said.lines
    )
    assert said.lines[-1].startswith("What to do: run that job again")
    assert "Ahead of it" not in said.out


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
    told = json.loads(headway("why", "--quick", "ads/rerank-with-a-long-name", "-o", "json").out)
    assert told["reason"] == "gpus_busy"
    assert told["ahead"] == ["search/embed-v2"]
    assert [each["job"] for each in told["rests_on"]] == ["recsys/qwen3-dpo"]
    assert told["rests_on"][0]["forecast"]["end_p50"] == "2026-11-30T13:40:00Z"


EXPLAINED = Explanation(
    job=JobId("ads/rerank-with-a-long-name"),
    phase=JobPhase.PENDING,
    headline="wait, gpus_busy",
    reason=Reason.GPUS_BUSY,
    detail="",
    checks=(
        Check(name="document", is_met=True, words="it is valid"),
        Check(name="gpus", is_met=False, words="needs 6 GPUs on one node; 3 are free"),
    ),
    ahead=(JobId("search/embed-v2"),),
    rank=2,
    ranked=2,
    expected=None,
    score=ScoreParts(
        priority_class=0.075, deadline=0.0, serves_online=0.2, model_heat=0.0, brevity=0.05
    ),
)
SUGGESTIONS = (
    Suggestion(
        change=Change.FEWER_GPUS,
        words="with 3 GPUs",
        gpus=3,
        starts_now=True,
        start_p50=Instant(0),
        end_p50=Instant(0),
        sooner_s=Seconds(3600),
        later_end_s=Seconds(7200),
    ),
    Suggestion(
        change=Change.OTHER_ENDS,
        words="if recsys/qwen3-dpo ends",
        gpus=6,
        starts_now=True,
        start_p50=Instant(0),
        end_p50=Instant(0),
        sooner_s=Seconds(3600),
        later_end_s=Seconds(-3600),
        other=JobId("recsys/qwen3-dpo"),
    ),
)


@pytest.fixture
def planner_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.cli.explanation.explain_at", lambda *_: EXPLAINED)


@pytest.mark.usefixtures("planner_says")
def test_each_condition_is_told_with_its_verdict(headway: Headway) -> None:
    lines = headway("why", "ads/rerank-with-a-long-name").lines
    assert lines[0].endswith("It starts when all of these hold:")
    assert lines[1] == "  ok document  it is valid"
    assert lines[2] == "  x  gpus      needs 6 GPUs on one node; 3 are free"
    assert lines[-2] == "Ahead of it: search/embed-v2."
    assert lines[-1] == (
        "Rank 2 of 2, score 0.33 = class 0.07 + serves online 0.20 + brevity 0.05."
    )


def test_a_score_that_fair_use_moves_says_so() -> None:
    assert EXPLAINED.score is not None
    moved = replace(EXPLAINED, score=replace(EXPLAINED.score, favour=0.5))

    assert score_words(moved) == (
        "score 0.16 = (class 0.07 + serves online 0.20 + brevity 0.05) x 0.50 for fair use"
    )


def test_what_would_start_it_sooner_is_told(
    headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = replace(EXPLAINED, suggestions=SUGGESTIONS)
    monkeypatch.setattr("reconciler.cli.explanation.explain_at", lambda *_: answer)

    lines = headway("why", "ads/rerank-with-a-long-name").lines
    told = json.loads(headway("why", "ads/rerank-with-a-long-name", "-o", "json").out)

    assert lines[-3:] == [
        "It would start sooner, as planned for each change alone:",
        "     now with 3 GPUs (ends 2h later)",
        "     now if recsys/qwen3-dpo ends (ends 1h sooner), which is expected ~21:40",
    ]
    assert [each["change"] for each in told["explanation"]["suggestions"]] == [
        "fewer_gpus",
        "other_ends",
    ]


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        (0, "it takes 1.28 times as long so, the policy says."),
        (7, "it takes 1.28 times as long so, the policy and 7 runs of this fleet say."),
    ],
)
def test_what_a_job_gives_up_for_a_better_place_is_told(
    headway: Headway, monkeypatch: pytest.MonkeyPatch, runs: int, said: str
) -> None:
    shares = tuple(
        NodeShare(node=NodeName(node), devices=(DeviceId("gpu-0"),)) for node in ("n1", "n2")
    )
    ends = Instant(1_772_460_000)
    apart = Apart(allocation=Allocation(shares=shares), end_p50=ends, slowdown=1.28, runs=runs)
    answer = replace(EXPLAINED, apart=apart)
    monkeypatch.setattr("reconciler.cli.explanation.explain_at", lambda *_: answer)

    lines = headway("why", "ads/rerank-with-a-long-name").lines
    told = json.loads(headway("why", "ads/rerank-with-a-long-name", "-o", "json").out)

    assert any(
        line.startswith("Spread over n1 [0], n2 [0] it could start now, and would end ~")
        and line.endswith(said)
        for line in lines
    )
    assert told["explanation"]["apart"]["nodes"] == {"n1": 1, "n2": 1}
    assert told["explanation"]["apart"]["slowdown"] == 1.28
    assert told["explanation"]["apart"]["slowdown_runs"] == runs


def test_a_running_job_is_told_what_would_make_it_leave(
    headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    risk = Risk(
        words="if team ads asks for 1 GPU of its own quota",
        team=TeamName("ads"),
        priority=PriorityClass.P2,
        gpus=1,
        resumes=None,
    )
    answers = iter([replace(EXPLAINED, risks=(risk,)), EXPLAINED])
    monkeypatch.setattr("reconciler.cli.explanation.explain_at", lambda *_: next(answers))

    assert headway("why", "--risk", "recsys/qwen3-dpo").lines[-2:] == [
        "It would be asked to leave, as planned for each newcomer alone:",
        "     if team ads asks for 1 GPU of its own quota",
    ]
    assert "it would not be asked to leave" in headway("why", "--risk", "recsys/qwen3-dpo").out


@pytest.mark.usefixtures("planner_says")
def test_json_holds_the_planners_explanation(headway: Headway) -> None:
    told = json.loads(headway("why", "ads/rerank-with-a-long-name", "-o", "json").out)
    assert told["explanation"]["rank"] == 2
    assert [check["is_met"] for check in told["explanation"]["checks"]] == [True, False]
    assert told["explanation"]["score"]["total"] == 0.325


def test_where_the_planner_cannot_be_asked_the_branch_still_answers(headway: Headway) -> None:
    said = headway("why", "search/embed-v2")
    assert said.code == 0
    assert "the conditions could not be checked one by one" in said.err
    assert "waits for preempted jobs to leave" in said.out
