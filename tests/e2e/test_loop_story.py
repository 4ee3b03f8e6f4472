"""The customer-service story in small, over a real repository, loop, launcher and commands.

T1 (high) and T2 (medium, preemptible, most of the cards) run, T3 (low) waits, an urgent T4
arrives as a commit: T2 is asked to leave, T4 runs, T2 resumes and finishes.  What is left is a
history that is legal, that names every attempt that ran, and that can be derived again.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from reconciler.domain.attempt import AttemptPhase
from reconciler.domain.reason import Reason
from reconciler.domain.status import JobPhase
from tests.faults.histories import assert_each_ran_once, assert_legal
from tests.git_worlds import run_git
from tests.live_fleets import ROOT, Fleet, eventually

NOTIFY = "notify: {on_start: [monitor], on_finish: [monitor]}\n"
pytestmark = [pytest.mark.slow, pytest.mark.e2e]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Play the story to its end and stop the loop; what is left is looked at by each test."""
    os.environ["GIT_CONFIG_GLOBAL"] = "/dev/null"
    fleet = Fleet(tmp_path_factory.mktemp("story"), slots=4)
    fleet.commit({"conf/sinks/monitor.yaml": "kind: file\npath: monitor.jsonl\n"})
    loop = fleet.start()
    try:
        play(fleet)
        eventually(lambda: len(monitored(fleet)) == 2, "the sink was told", detail=fleet.said)
    finally:
        fleet.finish_everything()
        loop.terminate()
        assert loop.wait(timeout=30) == 0
    yield fleet


def play(fleet: Fleet) -> None:
    def comes(phase: JobPhase, *names: str) -> None:
        for name in names:
            eventually(
                lambda name=name: fleet.phase(name) is phase,  # type: ignore[misc]
                f"{name} {phase}",
                detail=fleet.said,
            )

    fleet.commit(fleet.job("t1", seconds=90, priority="P1", more=NOTIFY))
    comes(JobPhase.RUNNING, "t1")
    fleet.commit(fleet.job("t2", gpus=3, seconds=90, priority="P2"))
    eventually(lambda: len(fleet.started()) == 2, "t2 runs", detail=fleet.said)
    fleet.commit(fleet.job("t3", gpus=2, priority="P3", estimate="5h"))
    comes(JobPhase.PENDING, "t3")
    wild = fleet.job("wild")["jobs/team/wild.yaml"].replace("gpus: 1", 'gpus: "*"')
    fleet.commit({"jobs/team/wild.yaml": wild})
    comes(JobPhase.INVALID, "wild")
    soon = datetime.fromtimestamp(time.time() + 1800, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    urgent = f'deadline: "{soon}"\n'
    fleet.commit(fleet.job("t4", gpus=3, seconds=1, priority="P0", more=urgent))
    comes(JobPhase.SUCCEEDED, "t4")
    eventually(
        lambda: sum("team.t2-" in each for each in fleet.started()) == 2, "t2 resumes",
        detail=fleet.said,
    )  # fmt: skip
    for name in ("t1", "t2"):
        fleet.finish(name)
    comes(JobPhase.SUCCEEDED, "t1", "t2", "t3")


def monitored(fleet: Fleet) -> list[dict[str, str]]:
    path = fleet.folder / "r1" / "monitor.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_the_urgent_job_ran_while_its_victim_waited_and_the_victim_resumed(told: Fleet) -> None:
    order = [each.split("-")[0].removeprefix("team.") for each in told.started()]
    assert order == ["t1", "t2", "t4", "t2", "t3"]
    second = [line for line in told.lines() if line.startswith("started team.t2-g1-a2-")]
    assert len(second) == 1
    assert "resume=/" in second[0]
    t2 = told.status("t2")
    assert t2 is not None
    assert [each.phase for each in t2.attempts] == [AttemptPhase.PREEMPTED, AttemptPhase.SUCCEEDED]


def test_every_change_was_legal_and_each_attempt_ran_once(told: Fleet) -> None:
    assert_legal(told.history())
    assert_each_ran_once(told)


def test_the_devices_a_victim_freed_were_held_for_its_preemptor(told: Fleet) -> None:
    holds = [
        hold.freed_for
        for tree in told.history()
        for status in tree.statuses.values()
        for hold in status.holds
    ]
    assert set(holds) == {"team/t4"}


def test_the_wildcard_request_was_refused_recorded_and_said(told: Fleet) -> None:
    status = told.status("wild")
    assert status is not None
    assert (status.phase, status.reason) == (JobPhase.INVALID, Reason.WILDCARD_REQUEST)
    assert told.said().count("security:") == 1


def test_the_sink_heard_of_start_and_end_once(told: Fleet) -> None:
    assert [(each["event"], each["job"]) for each in monitored(told)] == [
        ("started", "team/t1"), ("finished", "team/t1"),
    ]  # fmt: skip


def test_git_log_tells_the_story(told: Fleet) -> None:
    log = run_git(told.remote.path, "log", "--reverse", "--format=%B", f"status/{told.cluster}")

    assert "team/t2: running -> stopping (freed_for_preemptor)" in log
    assert "team/t4: pending -> running (gpus_freed_by_victim)" in log
    assert "Headway-Intent: launch team.t4-g1-a1-" in log
    assert log.index("Headway-Intent: stop team.t2-g1-a1-") < log.index("launch team.t2-g1-a2-")


def test_a_cycle_in_which_nothing_happened_committed_nothing(told: Fleet) -> None:
    log = run_git(told.remote.path, "log", "--format=%s", f"status/{told.cluster}")

    assert len(log.splitlines()) < 40  # dozens of cycles, one commit for each change


@pytest.mark.parametrize("seed", ["1", "4242"])
def test_every_decision_is_derived_again_from_commits_alone(told: Fleet, seed: str) -> None:
    clone = told.folder / f"replayed-{seed}"
    run_git(told.folder, "clone", "--quiet", "--mirror", told.remote.url, str(clone))
    done = subprocess.run(
        [sys.executable, "-m", "reconciler.cli.boundary", "replay", "--all", "--repo", str(clone),
         "-o", "json"],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT),
             "XDG_CACHE_HOME": str(told.folder / f"cache-{seed}")},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    items = json.loads(done.stdout)["items"]
    decisions = [each for each in items if each["is_decision"]]
    assert len(decisions) >= 10
    assert all(each["plan"]["stated"] == each["plan"]["derived"] for each in decisions)
    assert all(each["inputs"]["stated"] == each["inputs"]["derived"] for each in decisions)


def test_a_changed_record_is_found_by_its_replay(told: Fleet) -> None:
    clone = told.folder / "forged"
    run_git(told.folder, "clone", "--quiet", "--mirror", told.remote.url, str(clone))
    branch = f"refs/heads/status/{told.cluster}"
    tip = run_git(clone, "log", "-1", "--format=%H", "--grep=Headway-Plan", branch)
    message = run_git(clone, "log", "-1", "--format=%B", tip)
    stated = next(line for line in message.splitlines() if line.startswith("Headway-Plan: "))
    message = message.replace(stated, "Headway-Plan: sha256:" + "0" * 64)
    forged = run_git(
        clone, "commit-tree", f"{tip}^{{tree}}", "-p", f"{tip}^", "-m", message,
        GIT_AUTHOR_NAME="x", GIT_AUTHOR_EMAIL="x@x", GIT_COMMITTER_NAME="x",
        GIT_COMMITTER_EMAIL="x@x",
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "reconciler.cli.boundary", "replay", forged, "--repo", str(clone)],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 1
    assert "DIFFERENT" in done.stdout
