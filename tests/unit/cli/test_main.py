"""The table of verbs, options given before the verb, and completion."""

import json
from pathlib import Path

import click
import pytest

from reconciler.cli.main import VERBS
from reconciler.cli.main import headway as root
from tests.unit.cli.command_line import Headway, in_process


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_of_the_table_exists_and_explains_itself(name: str) -> None:
    command = root.get_command(click.Context(root), name)
    assert isinstance(command, click.Command)
    assert command.help
    assert len(VERBS[name].help) <= 70


def test_no_verb_is_outside_the_table() -> None:
    folder = Path(__file__).parents[3] / "reconciler" / "cli" / "commands"
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    named = {verb.module.rpartition(".")[2] for verb in VERBS.values()}
    parts = {name for name in modules if any(name.startswith(f"{verb}_") for verb in named)}
    assert modules - parts == named


def test_options_before_the_verb_are_its_defaults(
    repo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    headway = in_process(capsys, None)
    before = headway("--repo", str(repo), "-q", "queue", "-o", "name")
    after = headway("queue", "--repo", str(repo), "-q", "-o", "name")
    assert before == after
    assert before.code == 0


def test_an_option_after_the_verb_wins(headway: Headway) -> None:
    assert "START (UTC)" in headway("queue", "--tz", "UTC").out


def test_version_is_told_in_words_and_json(headway: Headway) -> None:
    said = headway("version")
    assert [line.split()[0] for line in said.lines] == ["headway", "python", "git"]
    told = json.loads(headway("version", "-o", "json").out)
    assert told["api_version"] == "headway/v1"
    assert told["git"].startswith("2.")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_serves_both_names(shell: str, headway: Headway) -> None:
    said = headway("completion", shell)
    assert said.code == 0
    assert "_HEADWAY_COMPLETE" in said.out
    assert "_HW_COMPLETE" in said.out


def completions(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    monkeypatch.setenv("_HEADWAY_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    in_process(capsys, None)()
    capsys.readouterr()
    from reconciler.cli.boundary import main

    main([])
    offered = capsys.readouterr().out.splitlines()
    return [line.partition(",")[2] for line in offered if line]


def test_verbs_and_job_names_complete(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADWAY_REPO", str(repo))
    assert completions("headway qu", monkeypatch, capsys) == ["queue"]
    assert completions("headway describe vi", monkeypatch, capsys) == [
        "vision/ocr", "vision/probe",
    ]  # fmt: skip
    assert completions("headway --no", monkeypatch, capsys) == []
    assert "--color" in completions("headway --co", monkeypatch, capsys)


def test_completion_outside_of_a_repository_offers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADWAY_REPO", str(tmp_path))
    assert completions("headway describe vi", monkeypatch, capsys) == []
