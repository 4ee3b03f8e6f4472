"""Who runs, who waits, and when: the rows, their order, and every form they are printed in."""

import json
from datetime import UTC
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from reconciler.cli.commands.queue import rows_of
from reconciler.cli.footer import footer_line
from reconciler.domain.attempt import AttemptPhase
from reconciler.domain.cluster import Allocation, NodeShare
from reconciler.domain.reason import Reason
from reconciler.domain.status import JobPhase
from reconciler.domain.units import DeviceId, NodeName
from reconciler.errors import GitError
from reconciler.specs.serialize import status_to_json
from tests.unit.cli.command_line import Headway
from tests.unit.cli.sample_fleet import a_status, an_attempt, at, forecast, statuses, write_branch

IN_ORDER = [
    "risk/align-70b", "recsys/qwen3-dpo", "vision/probe", "search/embed-v2",
    "ads/rerank-with-a-long-name", "ads/rerank", "nlp/摘要", "nlp/star",
]  # fmt: skip


def jobs(text: str) -> list[str]:
    return [line.split()[1] for line in text.splitlines()]


def test_running_jobs_come_first_then_the_pending_by_start_then_the_held(headway: Headway) -> None:
    said = headway("-q", "queue", "--no-headers")
    assert jobs(said.out) == IN_ORDER


def test_only_pending_jobs_have_a_place(headway: Headway) -> None:
    lines = headway("-q", "queue", "--no-headers").lines
    assert [line.split()[0] for line in lines] == ["-", "-", "-", "1", "2", "-", "-", "-"]


def test_finished_jobs_are_hidden_counted_and_shown_when_asked(headway: Headway) -> None:
    said = headway("queue")
    assert "search/sft-001" not in said.out
    assert "8 jobs (2 finished: --all)" in said.out
    assert jobs(headway("-q", "queue", "--all", "--no-headers").out)[-2:] == [
        "vision/ocr", "search/sft-001",
    ]  # fmt: skip


def test_without_a_forecast_the_pending_are_ordered_by_class_and_submission() -> None:
    late, early, urgent = (
        a_status(name, JobPhase.PENDING, Reason.GPUS_BUSY, priority=priority, submitted_at=when)
        for name, priority, when in (
            ("a/late", "P2", at("Mon 10:00")),
            ("b/early", "P2", at("Mon 09:00")),
            ("c/p0", "P0", at("Mon 11:00")),
        )
    )
    rows = rows_of([late, early, urgent], {})
    assert [row.status.job for row in rows] == ["c/p0", "b/early", "a/late"]
    assert [row.position for row in rows] == [1, 2, 3]


def test_the_order_does_not_depend_on_the_order_of_the_files() -> None:
    one = rows_of(statuses(), forecast().jobs, shows_all=True)
    other = rows_of(tuple(reversed(statuses())), forecast().jobs, shows_all=True)
    assert one == other


def test_a_start_shows_how_sure_it_is_and_the_head_names_the_zone(headway: Headway) -> None:
    said = headway("queue")
    assert "START (Asia/Shanghai)" in said.lines[0]
    (late,) = [line for line in said.lines if "with-a-long-name" in line]
    assert "~Mon 21:40 (p90 23:05)" in late
    (soon,) = [line for line in said.lines if "embed-v2" in line]
    assert "~Mon 14:23 (p90 14:32)" in soon


def test_a_running_job_says_where_and_until_when(headway: Headway) -> None:
    (line,) = [line for line in headway("queue").lines if "qwen3-dpo" in line]
    assert line.endswith("Mon 09:50                   -  node-1 [0-3], ends ~21:40")


def test_waiting_counts_from_submission_and_not_while_it_ran(headway: Headway) -> None:
    items = json.loads(headway("queue", "-o", "json").out)["items"]
    waits = {item["job"]: item["wait_s"] for item in items}
    assert waits["search/embed-v2"] == 165
    assert waits["recsys/qwen3-dpo"] == 110 * 60 - 40 * 60
    assert waits["nlp/star"] is None


def test_the_footer_counts_jobs_gpus_and_age(headway: Headway) -> None:
    footer = headway("queue").lines[-1]
    assert "13 GPUs in use, state of 14:22:07 (commit " in footer
    assert footer.endswith(", 38s old)")


def test_one_team_can_be_shown(headway: Headway) -> None:
    said = headway("queue", "--team", "vision")
    assert jobs("\n".join(said.lines[1:-1])) == ["vision/probe"]
    assert "1 job (1 finished: --all), 13 GPUs in use" in said.lines[-1]


def test_an_empty_queue_is_only_a_footer(headway: Headway) -> None:
    said = headway("queue", "--team", "nobody")
    assert said.code == 0
    assert said.lines[-1].startswith("0 jobs, ")


def test_wide_adds_attempt_devices_model_and_submission(headway: Headway) -> None:
    said = headway("queue", "-o", "wide")
    for word in ("ATTEMPT", "DEVICES", "MODEL", "SUBMITTED"):
        assert word in said.lines[0]
    assert "recsys.qwen3-dpo-g1-a2-" in said.out
    assert "BAAI/bge-m3" in said.out


def test_json_has_utc_instants_seconds_and_whole_gpus(headway: Headway) -> None:
    document = json.loads(headway("queue", "-o", "json").out)
    assert document["api_version"] == "headway/v1"
    assert document["kind"] == "JobList"
    assert document["state"]["age_s"] == 38
    assert document["state"]["committed_at"] == "2026-11-30T06:22:07Z"
    assert [item["job"] for item in document["items"]] == IN_ORDER
    first, *_, pending = document["items"][:5]
    assert first["gpus"] == 8
    assert first["attempt"]["started_at"] == "2026-11-30T00:00:00Z"
    assert first["attempt"]["allocation"] == [
        {"node": "node-3", "devices": [f"gpu-{number}" for number in range(8)]}
    ]
    assert pending["position"] == 2
    assert pending["forecast"]["start_p50"] == "2026-11-30T13:40:00Z"
    assert pending["reason"] == "gpus_busy"


def test_yaml_says_the_same_as_json(headway: Headway) -> None:
    told = yaml.safe_load(headway("queue", "-o", "yaml").out)
    assert told == json.loads(headway("queue", "-o", "json").out)


def test_names_paste_into_describe(headway: Headway) -> None:
    for name in headway("queue", "-o", "name").lines:
        assert headway("describe", name).code == 0


def test_machine_output_is_never_coloured_or_footed(headway: Headway) -> None:
    for form in ("json", "yaml", "name"):
        said = headway("queue", "-o", form, "--color", "always")
        assert "\x1b" not in said.out
        assert "in use" not in said.out


def test_colour_never_carries_the_state_alone(headway: Headway) -> None:
    plain = headway("queue").out
    painted = headway("queue", "--color", "always").out
    assert "\x1b[32mrunning\x1b[0m" in painted
    for word in ("running", "stopping", "pending", "held", "suspended", "invalid"):
        assert word in plain


def test_watching_prints_each_change_once_and_ends_when_interrupted(
    repo: Path, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = a_status("search/embed-v2", JobPhase.SUCCEEDED, Reason.COMPLETED)
    looks = iter((None, {"status/search/embed-v2.json": status_to_json(finished)}, None))

    def pause(_: float) -> None:
        try:
            change = next(looks)
        except StopIteration:
            raise KeyboardInterrupt from None
        if change:
            write_branch(repo, change)

    monkeypatch.setattr("reconciler.cli.watching.sleep", pause)
    said = headway("-q", "queue", "-w", "-o", "json", "--team", "search")
    assert said.code == 130
    first, second = (json.loads(line)["items"] for line in said.lines)
    assert [item["job"] for item in first] == ["search/embed-v2"]
    assert second == []


def test_watching_outlives_a_remote_that_does_not_answer(
    headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter((None, None))

    def fail(*_: object, **__: object) -> None:
        raise GitError("git for-each-ref: no answer within its time limit")

    def pause(_: float) -> None:
        monkeypatch.setattr("reconciler.cli.options.open_branch", fail)
        if next(looks, "over") == "over":
            raise KeyboardInterrupt

    monkeypatch.setattr("reconciler.cli.watching.sleep", pause)
    said = headway("queue", "-w")
    assert said.code == 130
    assert said.out.count("in use") == 1
    assert said.err.count("warning: git for-each-ref") == 2


def test_with_nothing_in_use_past_attempts_tell_what_the_fleet_is_made_of() -> None:
    slots = Allocation(shares=(NodeShare(node=NodeName("laptop"), devices=(DeviceId("cpu-0"),)),))
    ended = an_attempt("a/b", 1, slots, phase=AttemptPhase.SUCCEEDED, ended_at=at("Mon 10:00"))
    done = a_status("a/b", JobPhase.SUCCEEDED, Reason.COMPLETED, attempts=(ended,))
    branch = SimpleNamespace(
        cursor=SimpleNamespace(devices=8), seen_at=at("Mon 10:00"), ref=SimpleNamespace(commit="a1")
    )
    said = footer_line(branch, [done], UTC, at("Mon 10:01"), shown=0)  # type: ignore[arg-type]

    assert "0 of 8 CPU slots in use" in said
