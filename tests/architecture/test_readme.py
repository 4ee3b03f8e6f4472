"""The README is true: its job validates, its commands run, its links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.cli.main import VERBS
from tests.git_worlds import run_git

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"`(headway [^`]+)`", README)))


def headway(*words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "reconciler.cli.boundary", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def test_there_is_something_to_hold() -> None:
    assert len(COMMANDS) >= 3
    assert "make demo" in README
    assert "make test" in README


def test_its_job_is_the_sample_and_validates(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    run_git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    for part in ("conf", "jobs"):
        subprocess.run(["cp", "-r", str(ROOT / part), str(tmp_path)], check=True)
    (tmp_path / "jobs" / "search" / "t2-intents.yaml").write_text(text, encoding="utf-8")
    run_git(tmp_path, "add", "--all")
    who = ("-c", "user.name=Reader", "-c", "user.email=reader@example.com")
    run_git(tmp_path, *who, "commit", "--quiet", "--message", "Try the README")

    done = headway("validate", "--repo", str(tmp_path), cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_it_names_exists(command: str) -> None:
    verb = command.split()[1].strip(",")
    if verb in ("submit",):
        assert f"`headway {verb}`" in README.split("## Not there yet")[1]
        return
    assert verb in VERBS


def test_the_render_command_runs_as_written() -> None:
    (command,) = [each for each in COMMANDS if each.startswith("headway render")]

    done = headway(*command.split()[1:], cwd=ROOT)

    assert done.returncode == 0, done.stderr
    assert "tuner_type: lora" in done.stdout
    assert "gpus: 4" in done.stdout


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#]+)\)", README))))
def test_every_link_leads_to_a_file(target: str) -> None:
    assert target.startswith("http") or (ROOT / target).exists()


@pytest.mark.parametrize("target", sorted(set(re.findall(r"(?:`|\n)make ([a-z]+)", README))))
def test_every_make_target_it_names_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
