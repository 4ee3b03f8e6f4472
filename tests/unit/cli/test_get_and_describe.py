"""Lists of jobs, attempts and teams, and everything about one job."""

import json
from pathlib import Path

import pytest

from reconciler.domain.launch import run_path
from reconciler.domain.units import JobId
from tests.unit.cli.command_line import Headway, in_process
from tests.unit.cli.sample_fleet import NOW, SUBMISSION, a_bare_repository, files, write_branch


def test_jobs_are_listed_by_name_finished_ones_too(headway: Headway) -> None:
    said = headway("get", "jobs", "-o", "name")
    assert said.lines == sorted(said.lines)
    assert "job/search/sft-001" in said.lines
    assert len(said.lines) == 10


def test_jobs_can_be_chosen_by_name_team_and_phase(headway: Headway) -> None:
    assert headway("get", "job", "vision/ocr", "-o", "name").out == "job/vision/ocr\n"
    assert len(headway("get", "jobs", "--team", "vision", "-o", "name").lines) == 2
    chosen = headway("get", "jobs", "--phase", "failed", "--phase", "held", "-o", "name")
    assert chosen.lines == ["job/ads/rerank", "job/vision/ocr"]


def test_an_attempt_shows_its_place_its_steps_and_why_it_ended(headway: Headway) -> None:
    lines = headway("get", "attempts", "recsys/qwen3-dpo", "--no-headers").lines
    assert len(lines) == 2
    assert "preempted" in lines[0]
    assert "node-1 [4-5]" in lines[0]
    assert lines[0].split()[7:12] == ["08:30", "40m", "40", "40", "83"]
    assert lines[0].endswith("preempted for a more urgent job")


def test_teams_add_up_their_jobs(headway: Headway) -> None:
    items = json.loads(headway("get", "teams", "-o", "json").out)["items"]
    vision = next(item for item in items if item["team"] == "vision")
    assert vision["phases"] == {"stopping": 1, "failed": 1}
    assert vision["gpus_in_use"] == 1
    assert sum(item["jobs"] for item in items) == 10


def test_hours_of_a_running_attempt_count(headway: Headway) -> None:
    (item,) = json.loads(headway("get", "jobs", "risk/align-70b", "-o", "json").out)["items"]
    assert item["running_s"] == NOW - (NOW - 45 - 22 * 60 - 6 * 3600)
    assert item["gpu_seconds"] == 8 * item["running_s"]


def test_nothing_to_list_is_said_on_stderr(headway: Headway) -> None:
    said = headway("get", "jobs", "--team", "nobody")
    assert (said.code, said.out, said.err) == (0, "", "headway: no jobs\n")


@pytest.mark.parametrize("verb", ["describe", "why", "logs"])
def test_a_name_that_is_nearly_right_gets_advice(verb: str, headway: Headway) -> None:
    said = headway(verb, "recsys/qwen3-dp0")
    assert said.code == 3
    assert "did you mean recsys/qwen3-dpo?" in said.err
    assert "did you mean recsys/qwen3-dpo?" in headway(verb, "other/qwen3-dpo").err


@pytest.mark.parametrize("name", ["qwen3-dpo", "a/b/c", "/", "a/", "node/x/y"])
def test_a_name_without_a_team_is_wrong_usage(name: str, headway: Headway) -> None:
    said = headway("describe", name)
    assert said.code == 64
    assert "TEAM/NAME" in said.err


def test_the_names_of_attempts_paste_into_describe(headway: Headway) -> None:
    for name in headway("get", "attempts", "-o", "name").lines:
        assert headway("describe", name).code == 0


def test_a_status_of_a_newer_version_is_not_called_missing(repo: Path, headway: Headway) -> None:
    write_branch(repo, {"status/vision/ocr.json": b'{"api_version": "headway/v9", "kind": "X"}\n'})
    said = headway("describe", "vision/ocr")
    assert said.code == 5
    assert "a newer one" in said.err
    assert "no job" not in said.err


@pytest.mark.parametrize("name", ["job/vision/ocr", "jobs/vision/ocr.yaml", "vision/ocr"])
def test_a_job_can_be_named_by_kind_and_by_path(name: str, headway: Headway) -> None:
    assert headway("describe", name).lines[0].endswith("vision/ocr")


def test_describe_says_who_is_kept_out_for_it_and_when_it_starts(headway: Headway) -> None:
    said = headway("describe", "search/embed-v2")
    assert "waits for preempted jobs to leave (preempting): vision/probe leaves node-1" in said.out
    assert "starts ~Mon 14:23 (p90 14:32), on node-1 [4-5], when vision/probe leaves" in said.out
    assert "node-1 [4] is kept for it until vision.probe-g1-a1-" in said.out


def test_describe_counts_what_was_used_and_how_often_it_was_stopped(headway: Headway) -> None:
    said = headway("describe", "recsys/qwen3-dpo")
    assert "19.5 GPU-hours, ran 5h12m in 2 attempts, 1 preempted" in said.out
    assert "ATTEMPT" in said.out


def test_describe_in_json_holds_every_field_of_the_status(headway: Headway) -> None:
    told = json.loads(headway("describe", "recsys/qwen3-dpo", "-o", "json").out)
    assert told["submission"] == SUBMISSION
    assert [attempt["number"] for attempt in told["attempts"]] == [1, 2]
    assert told["preemptions"] == 1
    assert told["changes"][0]["after"] == "running"


def test_describe_shows_progress_where_the_run_directory_is_at_hand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    folder = runs / run_path(JobId("recsys/qwen3-dpo"), SUBMISSION, 1, 2)
    folder.mkdir(parents=True)
    beat = {"step": 320, "total_steps": 500, "loss": 1.23456, "tokens_per_s": 1500.4}
    (folder / "heartbeat.json").write_text(json.dumps(beat | {"written_at": NOW - 4.2}))
    repo = a_bare_repository(tmp_path)
    write_branch(repo, files(runs=str(runs)))
    said = in_process(capsys, repo)("describe", "recsys/qwen3-dpo")
    assert "step 320 of 500, loss 1.235, 1500 tokens/s, told 4s ago" in said.out
