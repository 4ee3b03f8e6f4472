"""kill -9 of the reconciler at every point of a cycle: each attempt runs exactly once."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reconciler.domain.attempt import AttemptPhase
from reconciler.domain.status import JobPhase
from tests.faults.dying_reconciler import AFTER_PUSH, POINTS
from tests.faults.histories import assert_each_ran_once, assert_legal
from tests.live_fleets import ROOT, Fleet, eventually


def kill_at(fleet: Fleet, point: str) -> None:
    """Run a reconciler until it is killed at ``point``."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.dying_reconciler", point, fleet.remote.url,
         str(fleet.folder / "r1"), str(fleet.folder / "runs")],
        cwd=ROOT, timeout=60, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, f"{point} was never reached:\n{done.stderr}"


def reconcile_until(fleet: Fleet, name: str, phase: JobPhase) -> None:
    """Run cycles, one process life each, until the job is in ``phase``."""

    def is_there() -> bool:
        fleet.reconcile_once()
        return fleet.phase(name) is phase

    eventually(is_there, f"{name} {phase}", patience_s=30, detail=fleet.log.getvalue)


EACH_POINT = [
    pytest.param(point, marks=() if point == AFTER_PUSH else pytest.mark.slow) for point in POINTS
]


@pytest.mark.parametrize("point", EACH_POINT)
def test_a_killed_reconciler_is_followed_by_exactly_one_run(tmp_path: Path, point: str) -> None:
    fleet = Fleet(tmp_path)
    fleet.commit(fleet.job("a", seconds=0.3))
    kill_at(fleet, point)

    reconcile_until(fleet, "a", JobPhase.SUCCEEDED)

    assert len(fleet.started()) == 1
    assert_each_ran_once(fleet)
    assert_legal(fleet.history())
    status = fleet.status("a")
    assert status is not None
    assert [each.phase for each in status.attempts] == [AttemptPhase.SUCCEEDED]


@pytest.mark.slow
def test_being_killed_at_every_point_in_turn_still_runs_each_attempt_once(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    for number, point in enumerate(POINTS):
        fleet.commit(fleet.job(f"j{number}", seconds=0.3))
        kill_at(fleet, point)
    for number in range(len(POINTS)):
        reconcile_until(fleet, f"j{number}", JobPhase.SUCCEEDED)

    assert sorted(each.split(".")[1][:2] for each in fleet.started()) == [
        f"j{number}" for number in range(len(POINTS))
    ]
    assert_each_ran_once(fleet)
    assert_legal(fleet.history())


@pytest.mark.slow
def test_a_reconciler_killed_while_a_victim_stops_goes_on_with_the_preemption(
    tmp_path: Path,
) -> None:
    fleet = Fleet(tmp_path, order="score")
    fleet.commit(fleet.job("big", gpus=4, seconds=40, priority="P3"))
    fleet.reconcile_once()
    eventually(lambda: len(fleet.started()) == 1, "big runs")
    fleet.reconcile_once()
    fleet.commit(fleet.job("urgent", gpus=4, seconds=0.2, priority="P1"))
    fleet.reconcile_once()
    assert fleet.phase("big") is JobPhase.STOPPING
    eventually(lambda: any(line.startswith("asked") for line in fleet.lines()), "big was asked")
    kill_at(fleet, AFTER_PUSH)

    reconcile_until(fleet, "urgent", JobPhase.SUCCEEDED)
    eventually(lambda: (fleet.reconcile_once(), len(fleet.started()) == 3)[1], "big resumed")
    fleet.finish_everything()
    reconcile_until(fleet, "big", JobPhase.SUCCEEDED)

    assert [each.split("-")[0] for each in fleet.started()] == [
        "team.big",
        "team.urgent",
        "team.big",
    ]
    assert "resume=/" in fleet.lines()[-2]
    assert_each_ran_once(fleet)
    assert_legal(fleet.history())


@pytest.mark.slow
def test_a_run_lives_on_while_no_reconciler_does_and_is_adopted(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.commit(fleet.job("a", seconds=40))
    first = fleet.start()
    eventually(lambda: len(fleet.started()) == 1, "a runs", detail=fleet.said)
    first.send_signal(signal.SIGKILL)
    first.wait()
    fleet.finish_everything()
    eventually(lambda: any(line.startswith("ended") for line in fleet.lines()), "a ended alone")

    reconcile_until(fleet, "a", JobPhase.SUCCEEDED)
    assert_each_ran_once(fleet)


@pytest.mark.slow
def test_a_reconciler_asked_to_stop_leaves_runs_alive_and_the_lease_free(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, lease="60s")
    fleet.commit(fleet.job("a", seconds=40))
    first = fleet.start()
    eventually(lambda: len(fleet.started()) == 1, "a runs", detail=fleet.said)
    first.terminate()
    assert first.wait(timeout=20) == 0

    before = time.monotonic()
    fleet.reconcile_once("another-state")
    assert time.monotonic() - before < 30  # the lease was given back: nobody waited for it
    assert fleet.phase("a") is JobPhase.RUNNING
    fleet.finish_everything()
    eventually(
        lambda: (fleet.reconcile_once("another-state"), fleet.phase("a"))[1] is JobPhase.SUCCEEDED,
        "a succeeded",
    )
    assert_each_ran_once(fleet)


def run_random_kills(folder: Path, kills: int, seed: int) -> None:
    """Kill a living loop at random moments while jobs keep coming; then let one finish."""
    fleet, dice = Fleet(folder, slots=4), random.Random(seed)
    for number in range(kills):
        fleet.commit(
            fleet.job(f"j{number}", seconds=dice.uniform(0.1, 2), gpus=dice.choice((1, 2, 4)),
                      priority=dice.choice(("P1", "P2", "P3", "P4")))
        )  # fmt: skip
        victim = fleet.start()
        time.sleep(dice.uniform(0.5, 4.0))
        victim.send_signal(signal.SIGKILL)
        victim.wait()
    last = fleet.start()
    try:
        eventually(
            lambda: all(fleet.phase(f"j{n}") is JobPhase.SUCCEEDED for n in range(kills)),
            "every job succeeds", patience_s=60 + 10 * kills, detail=fleet.said,
        )  # fmt: skip
    finally:
        last.terminate()
        assert last.wait(timeout=30) == 0
    assert_each_ran_once(fleet)
    assert_legal(fleet.history())


@pytest.mark.slow
def test_a_loop_killed_at_random_moments_loses_and_repeats_nothing(tmp_path: Path) -> None:
    run_random_kills(tmp_path, kills=4, seed=7)


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_a_hundred_random_kills_lose_and_repeat_nothing(tmp_path: Path) -> None:
    run_random_kills(tmp_path, kills=100, seed=11)
