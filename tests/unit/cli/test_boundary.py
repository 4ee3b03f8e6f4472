"""However a command ends, a person gets one clear message and the right exit code."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from reconciler.cli import boundary
from reconciler.cli.report import hide, hide_arguments
from reconciler.errors import (
    BackendError,
    DeposedError,
    HeadwayError,
    InvariantError,
    NotFoundError,
    StaleRevisionError,
    UsageError,
)
from tests.unit.cli.command_line import Said, in_process


@pytest.fixture
def ended_by(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """Return what a verb that raises the given exception makes the command say."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(error: BaseException) -> Said:
        @click.command()
        def version() -> None:
            raise error

        monkeypatch.setattr("reconciler.cli.commands.version.version", version)
        return in_process(capsys, None)("version")

    return run


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("name a job as TEAM/NAME"), 64),
        (NotFoundError("no job a/b"), 3),
        (StaleRevisionError("someone was first"), 4),
        (BackendError("git did not answer"), 5),
        (DeposedError("another reconciler holds the lease"), 75),
    ],
)
def test_an_error_of_ours_is_one_message_and_its_code(
    error: HeadwayError, code: int, ended_by
) -> None:
    said = ended_by(error)
    assert said == Said(code, "", f"headway: {error}\n")


def test_an_interrupt_is_130(ended_by) -> None:
    assert ended_by(KeyboardInterrupt()).code == 130


def test_a_readers_departure_is_silent(ended_by) -> None:
    assert ended_by(BrokenPipeError()) == Said(141, "", "")


@pytest.mark.parametrize("error", [KeyError("job"), InvariantError("a GPU was given twice")])
def test_a_bug_is_70_and_leaves_a_report(error: Exception, ended_by, tmp_path: Path) -> None:
    said = ended_by(error)

    (report,) = (tmp_path / "state" / "headway").iterdir()
    assert said.code == 70
    assert "this is a bug in headway" in said.err
    assert str(report) in said.err
    assert "Traceback" not in said.err
    text = report.read_text(encoding="utf-8")
    assert "Traceback" in text
    assert "command: headway --tz Asia/Shanghai version" in text
    assert type(error).__name__ in text
    assert report.stat().st_mode & 0o077 == 0


def test_a_bug_without_a_folder_to_write_to_shows_its_traceback(
    ended_by, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.cli.report._folders", lambda: (Path("/dev/null/no"),))
    said = ended_by(KeyError("job"))
    assert said.code == 70
    assert "Traceback" in said.err
    assert "KeyError" in said.err


def test_a_report_holds_no_secret(ended_by, tmp_path: Path) -> None:
    ended_by(
        RuntimeError("cannot push to https://ann:hunter2@git.example/fleet with token=hunter2")
    )
    (report,) = (tmp_path / "state" / "headway").iterdir()
    text = report.read_text(encoding="utf-8")
    assert "hunter2" not in text.split("Traceback")[1].split("raise error")[1]
    assert "git.example/fleet" in text


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["--token", "abc", "queue"], ["--token", "***", "queue"]),
        (["--api-key=abc"], ["--api-key=***"]),
        (["--repo", "https://me:pw@host/x"], ["--repo", "https://***@host/x"]),
        (["render", "train.hub_token=abc"], ["render", "train.hub_token=***"]),
        (["queue", "--team", "ads"], ["queue", "--team", "ads"]),
    ],
)
def test_arguments_are_reported_without_secrets(argv: list[str], shown: list[str]) -> None:
    assert hide_arguments(argv) == shown


def test_text_without_secrets_stays_as_it_is() -> None:
    assert hide("no status branch in /srv/fleet.git") == "no status branch in /srv/fleet.git"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["quue"], "Did you mean 'queue'?"),
        (["frobnicate"], "See `headway --help`."),
        (["queue", "--nope"], "No such option"),
        (["queue", "-o", "xml"], "'xml' is not one of"),
        (["describe"], "Missing argument 'JOB'"),
        (["--tz"], "requires an argument"),
    ],
)
def test_wrong_usage_is_64_and_says_what_to_type(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = boundary.main(words)
    said = capsys.readouterr()
    assert code == 64
    assert expected in said.err
    assert said.out == ""


def test_help_is_not_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--help"], ["-h"], ["queue", "--help"]):
        assert boundary.main(words) == 0
        assert "Usage: headway" in capsys.readouterr().out


def test_a_reader_that_left_gets_no_traceback(repo: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "reconciler.cli.boundary", "--repo", str(repo), "queue", "-q"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_the_command_knows_its_short_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/hw"])
    boundary.main(["--help"])
    assert "Usage: hw" in capsys.readouterr().out
