"""Two reconcilers on one repository: one acts, the other is refused and says so."""

import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from reconciler.domain.status import JobPhase
from reconciler.engine import service
from reconciler.engine.logging import Log
from reconciler.errors import DeposedError
from tests.faults.histories import assert_each_ran_once, assert_legal
from tests.live_fleets import Fleet, eventually

SLICE = 5
ROUNDS = 50


class Rival:
    """One reconciler in a thread of this process, with a state folder of its own."""

    def __init__(self, fleet: Fleet, name: str, delay_s: float) -> None:
        self.stop = threading.Event()
        self.refused: DeposedError | None = None
        self._fleet, self._name, self._delay_s = fleet, name, delay_s
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        time.sleep(self._delay_s)
        try:
            service.reconcile(
                self._fleet.options(self._name), log=Log(service.now, self._fleet.log),
                stop=self.stop,
            )  # fmt: skip
        except DeposedError as error:
            self.refused = error

    def leave(self) -> None:
        self.stop.set()
        self._thread.join(timeout=30)
        assert not self._thread.is_alive()


def race(fleet: Fleet, number: int, dice: random.Random) -> None:
    """Start two at once on a fleet with one new job; stop both when the job is done."""
    fleet.commit(fleet.job(f"j{number}"))
    rivals = [Rival(fleet, name, dice.uniform(0, 0.1)) for name in ("r1", "r2")]
    eventually(
        lambda: fleet.phase(f"j{number}") is JobPhase.SUCCEEDED,
        f"round {number}", patience_s=30, detail=fleet.log.getvalue,
    )  # fmt: skip
    eventually(lambda: any(each.refused for each in rivals), "one is refused", patience_s=20)
    for each in rivals:
        each.leave()
    refused = [each for each in rivals if each.refused]
    assert len(refused) == 1
    said = str(refused[0].refused)
    assert "is held by" in said or "was first" in said


def run_rounds(folder: Path, rounds: int, seed: int) -> None:
    fleet = Fleet(folder, lease="30s")
    dice = random.Random(seed)
    for number in range(rounds):
        race(fleet, number, dice)
    assert len(fleet.started()) == rounds
    assert_each_ran_once(fleet)
    assert_legal(fleet.history())


@pytest.mark.slow
def test_of_two_reconcilers_started_at_once_one_acts_and_the_other_is_refused(
    tmp_path: Path,
) -> None:
    run_rounds(tmp_path, SLICE, seed=1)


@pytest.mark.campaign
def test_fifty_rounds_of_two_reconcilers_run_no_attempt_twice(tmp_path: Path) -> None:
    run_rounds(tmp_path, ROUNDS, seed=2)


@pytest.mark.slow
def test_a_second_process_is_refused_with_exit_code_75_and_names_the_holder(
    tmp_path: Path,
) -> None:
    fleet = Fleet(tmp_path, lease="30s")
    fleet.commit(fleet.job("a"))
    first = fleet.start("r1", "--holder", "the-first")
    try:
        eventually(lambda: fleet.phase("a") is JobPhase.SUCCEEDED, "a", detail=fleet.said)
        second = fleet.start("r2")
        assert second.wait(timeout=30) == 75
        assert "held by the-first" in fleet.said("r2")
        third = fleet.start("r1")
        assert third.wait(timeout=30) == 75
        assert f"pid {first.pid}" in fleet.said("r1")
    finally:
        first.terminate()
        assert first.wait(timeout=30) == 0
    assert_each_ran_once(fleet)


@pytest.mark.slow
def test_a_deposed_reconciler_that_wakes_up_records_nothing_and_leaves(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, lease="2s")
    fleet.commit(fleet.job("a"))
    first = fleet.start("r1", "--holder", "sleeper")
    second = None
    try:
        eventually(lambda: fleet.phase("a") is JobPhase.SUCCEEDED, "a", detail=fleet.said)
        os.kill(first.pid, signal.SIGSTOP)
        second = fleet.start("r2", "--standby", "--holder", "heir")
        eventually(lambda: "lease-taken holder=heir epoch=2" in fleet.said("r2"), "take-over",
                   detail=lambda: fleet.said("r2"))  # fmt: skip
        fleet.commit(fleet.job("b"))
        os.kill(first.pid, signal.SIGCONT)
        assert first.wait(timeout=30) == 75
        eventually(lambda: fleet.phase("b") is JobPhase.SUCCEEDED, "b",
                   detail=lambda: fleet.said("r2"))  # fmt: skip
    finally:
        os.kill(first.pid, signal.SIGCONT) if first.poll() is None else None
        for process in (first, second):
            if process is not None and process.poll() is None:
                process.terminate()
                process.wait(timeout=30)
    writers = {tree.lease.holder: tree.lease.epoch for tree in fleet.history() if tree.lease}
    assert writers == {"sleeper": 1, "heir": 2}
    assert len(fleet.started()) == 2
    assert_each_ran_once(fleet)
    assert_legal(fleet.history())
