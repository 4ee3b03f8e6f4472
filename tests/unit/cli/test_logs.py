"""What a job writes, read where it runs, and how following it ends."""

import json
from pathlib import Path

import pytest

from reconciler.cli.commands import logs as logs_module
from reconciler.cli.runs import last_lines, open_plain
from reconciler.domain.launch import run_path
from reconciler.domain.units import JobId
from tests.unit.cli.command_line import Headway, in_process
from tests.unit.cli.sample_fleet import SUBMISSION, a_bare_repository, files, write_branch

JOB = "recsys/qwen3-dpo"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def headway(tmp_path: Path, runs: Path, capsys: pytest.CaptureFixture[str]) -> Headway:
    repo = a_bare_repository(tmp_path)
    write_branch(repo, files(runs=str(runs)))
    return in_process(capsys, repo)


def attempt(runs: Path, number: int, **content: str) -> Path:
    """Make the run directory of one attempt with these files (``_`` stands for the dot)."""
    folder = runs / run_path(JobId(JOB), SUBMISSION, 1, number)
    folder.mkdir(parents=True)
    for name, text in content.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
    return folder


def test_the_last_attempt_is_meant_unless_another_is_named(runs: Path, headway: Headway) -> None:
    attempt(runs, 1, stdout_log="first\n")
    attempt(runs, 2, stdout_log="second\n", stderr_log="trouble\n")
    assert headway("logs", JOB).out == "second\n"
    assert headway("logs", JOB, "--attempt", "1").out == "first\n"
    assert headway("logs", JOB, "--stderr").out == "trouble\n"


def test_only_the_end_can_be_asked_for(runs: Path, headway: Headway) -> None:
    attempt(runs, 2, stdout_log="".join(f"step {step}\n" for step in range(50_000)))
    assert headway("logs", JOB, "--tail", "2").out == "step 49998\nstep 49999\n"
    assert headway("logs", JOB, "--tail", "0").out == ""
    assert len(headway("logs", JOB, "--tail", "99999").lines) == 50_000


@pytest.mark.parametrize(
    ("content", "count", "rest"),
    [
        (b"a\nb\nc\n", 1, b"c\n"), (b"a\nb\nc", 1, b"c"), (b"a\nb\nc", 2, b"b\nc"),
        (b"a", 1, b"a"), (b"", 3, b""), (b"\n\n\n", 2, b"\n\n"),
    ],
)  # fmt: skip
def test_a_line_counts_also_without_its_end(
    content: bytes, count: int, rest: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    with path.open("rb") as file:
        assert content[last_lines(file, count) :] == rest


def test_logs_of_another_machine_say_where_they_lie(headway: Headway, runs: Path) -> None:
    said = headway("logs", JOB)
    assert said.code == 3
    assert str(runs) in said.err
    assert "--runs DIR" in said.err


def test_a_mounted_copy_can_be_named(headway: Headway, runs: Path, tmp_path: Path) -> None:
    attempt(tmp_path / "mounted", 2, stdout_log="here\n")
    assert headway("logs", JOB, "--runs", str(tmp_path / "mounted")).out == "here\n"


def test_a_job_that_has_not_run_says_how_to_learn_when(headway: Headway) -> None:
    said = headway("logs", "search/embed-v2")
    assert said.code == 3
    assert "`headway why search/embed-v2`" in said.err


def test_an_attempt_that_was_never_made_is_not_found(headway: Headway, runs: Path) -> None:
    attempt(runs, 2)
    said = headway("logs", JOB, "--attempt", "3")
    assert said.code == 3
    assert "has made 2 attempts" in said.err
    assert headway("logs", JOB, "--attempt", "1").code == 3


def test_silence_points_to_the_other_stream(headway: Headway, runs: Path) -> None:
    attempt(runs, 2, stderr_log="trouble\n")
    assert "add --stderr" in headway("logs", JOB).err


def test_a_log_that_is_a_link_is_not_followed(headway: Headway, runs: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2", encoding="utf-8")
    folder = attempt(runs, 2)
    (folder / "stdout.log").symlink_to(secret)
    assert "hunter2" not in headway("logs", JOB).out
    assert open_plain(folder / "stdout.log") is None


RESULT = {"outcome": "succeeded", "reason": "completed", "step": 500, "artifacts": {}}


@pytest.mark.parametrize(
    ("result", "exit_status", "code", "words"),
    [
        (RESULT, 0, 0, "succeeded at step 500"),
        (RESULT | {"outcome": "stopped", "reason": "stop_asked", "step": 40}, 83, 1, "stopped at"),
        (
            RESULT | {"outcome": "failed", "reason": "out_of_memory"},
            1,
            1,
            "failed at step 500 (out of memory, exit status 1)",
        ),
        (None, 0, 1, "failed (no completion record)"),
        (None, 1, 1, "failed (exit status 1)"),
        (None, -9, 1, "failed (signal 9)"),
    ],
)
def test_following_an_ended_attempt_exits_by_its_outcome(
    result: dict[str, object] | None,
    exit_status: int,
    code: int,
    words: str,
    runs: Path,
    headway: Headway,
) -> None:
    content = {"exit_json": json.dumps({"exit_status": exit_status}), "stdout_log": "step 1\n"}
    if result is not None:
        content["result_json"] = json.dumps(result)
    attempt(runs, 2, **content)
    said = headway("logs", JOB, "-f")
    assert said.code == code
    assert said.out == "step 1\n"
    assert f"attempt 2 of {JOB} {words}" in said.err


def test_following_says_where_what_was_made_lies(runs: Path, headway: Headway) -> None:
    result = RESULT | {"artifacts": {"adapter": "/srv/runs/adapter"}}
    attempt(runs, 2, exit_json='{"exit_status": 0}', result_json=json.dumps(result))
    assert "adapter: /srv/runs/adapter" in headway("logs", JOB, "-f").err


def test_following_prints_what_is_added_until_the_end(
    runs: Path, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = attempt(runs, 2, stdout_log="old 1\nold 2\n")
    added = iter(("new 1\n", "new 2 摘", "要\n"))

    def pause(_: float) -> None:
        text = next(added, None)
        with (folder / "stdout.log").open("a", encoding="utf-8") as log:
            log.write(text or "last\n")
        if text is None:
            (folder / "result.json").write_text(json.dumps(RESULT), encoding="utf-8")
            (folder / "exit.json").write_text('{"exit_status": 0}', encoding="utf-8")

    monkeypatch.setattr(logs_module, "sleep", pause)
    said = headway("logs", JOB, "-f", "--tail", "1")
    assert said.out == "old 2\nnew 1\nnew 2 摘要\nlast\n"
    assert said.code == 0


def test_following_an_attempt_that_was_lost_ends_by_the_status_branch(
    runs: Path, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt(runs, 1, stdout_log="then it died\n")
    monkeypatch.setattr(logs_module, "sleep", lambda _: None)
    said = headway("logs", JOB, "--attempt", "1", "-f")
    assert said.code == 1
    assert "attempt 1 of recsys/qwen3-dpo preempted at step 40" in said.err
    assert "`headway why recsys/qwen3-dpo` says when it goes on" in said.err


def test_following_can_be_interrupted(
    runs: Path, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    attempt(runs, 2, stdout_log="step 1\n")
    monkeypatch.setattr(logs_module, "sleep", interrupt)
    assert headway("logs", JOB, "-f").code == 130
