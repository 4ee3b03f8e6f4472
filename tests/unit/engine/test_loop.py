"""The loop around the cycle: what follows an error, when the next cycle comes."""

import io
import threading
from collections.abc import Callable

import pytest

from reconciler.cycle import CycleReport
from reconciler.domain.plan import Action, Plan
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.status import StatusUpdate
from reconciler.domain.units import Instant
from reconciler.engine import loop as loop_module
from reconciler.engine.logging import Log
from reconciler.engine.loop import LONGEST_WAIT_S, ONCE_TRIES, Loop, Patience
from reconciler.errors import (
    BackendError,
    DeposedError,
    InvariantError,
    StaleRevisionError,
)
from reconciler.ports import ApplyResult
from tests.builders import a_snapshot


class ScriptedWorld:
    """Answers each observation with the next of ``answers``: an error, or a settled snapshot.

    Waits are not slept: the stop event counts them, and ends the loop when the script does.
    """

    cycle_s = 15.0

    def __init__(self, *answers: Exception | None, news: tuple[str, ...] = ()) -> None:
        self.answers = list(answers)
        self.news_to_come = list(news)
        self.looks = 0
        self.pending: dict[str, dict[str, int]] = {}
        self.recorded: list[StatusUpdate] = []
        self.stop = CountingEvent(lambda: not self.answers)
        self.written = io.StringIO()
        self.lease: Exception | None = None
        self.loop = Loop(
            self, check_lease=self.check_lease, log=Log(lambda: Instant(0), self.written),
            stop=self.stop,
        )  # fmt: skip

    def check_lease(self) -> None:
        if self.lease is not None:
            raise self.lease

    def observe(self) -> Snapshot:
        self.looks += 1
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer
        return a_snapshot(pending=self.pending)

    def record(self, snapshot: Snapshot, plan: Plan, update: StatusUpdate) -> None:
        self.recorded.append(update)

    def apply(self, action: Action) -> ApplyResult:
        return ApplyResult(action=action, ok=True)

    def news(self) -> str:
        return self.news_to_come.pop(0) if self.news_to_come else ""

    def keep_evidence(self, error: InvariantError) -> str:
        return "/state/crashes/1.json"


class CountingEvent(threading.Event):
    """Never sleeps; is set once ``is_over`` says so."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        super().__init__()
        self.is_over = is_over
        self.waits: list[float] = []

    def is_set(self) -> bool:
        return super().is_set() or self.is_over()

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        return self.is_set()


def test_a_settled_world_is_looked_at_again_when_the_cycle_time_is_over() -> None:
    world = ScriptedWorld(None, None, None)
    world.loop.run()

    assert world.looks == 3
    assert world.stop.waits[:30] == [1.0] * 30  # fifteen seconds twice, a second at a time


def test_news_brings_the_next_cycle_at_once() -> None:
    world = ScriptedWorld(None, None, news=("", "", "main moved"))
    world.loop.run()

    assert world.looks == 2
    assert len(world.stop.waits) == 3 + 1


def test_a_cycle_that_changed_something_is_followed_by_the_next_after_a_moment() -> None:
    world = ScriptedWorld(None, None)
    world.pending = {"job": {"gpus": 1}}  # started in each of these cycles
    world.loop.run()

    assert world.looks == 2
    assert world.stop.waits == [1.0, 1.0]


def test_a_lost_push_race_is_planned_again_from_a_fresh_look() -> None:
    world = ScriptedWorld(StaleRevisionError("somebody else wrote first"), None)
    world.loop.run()

    assert world.looks == 2
    assert "push-race-lost tries=1" in world.written.getvalue()
    assert 0.1 <= world.stop.waits[0] <= 0.2


def test_a_silent_remote_is_waited_for_longer_and_longer_and_said() -> None:
    world = ScriptedWorld(*[BackendError("no answer")] * 9, None)
    world.loop.run()

    waits = world.stop.waits[:9]
    assert max(waits) <= LONGEST_WAIT_S
    assert waits[8] >= LONGEST_WAIT_S / 2
    assert world.written.getvalue().count("backend-silent") == 9


def test_what_waiting_cannot_mend_ends_the_loop() -> None:
    world = ScriptedWorld(BackendError("the status branch was rewound", retryable=False), None)

    with pytest.raises(BackendError, match="rewound"):
        world.loop.run()


def test_a_lost_lease_ends_the_loop_before_another_look() -> None:
    world = ScriptedWorld(None)
    world.lease = DeposedError("deposed by b")

    with pytest.raises(DeposedError):
        world.loop.run()
    assert world.looks == 0


def test_a_doubtful_lease_is_waited_for_without_a_look() -> None:
    world = ScriptedWorld(None)
    world.lease = BackendError("the lease could not be renewed in time")

    assert world.loop.cycle() is None
    assert world.looks == 0


def test_a_broken_invariant_is_kept_as_evidence_and_ends_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> CycleReport:
        raise InvariantError("t/j holds cpu-0 twice")

    monkeypatch.setattr(loop_module, "run_cycle", broken)
    world = ScriptedWorld(None)

    with pytest.raises(InvariantError, match=r"twice; nothing was recorded.*1\.json"):
        world.loop.run()
    assert "invariant-broken" in world.written.getvalue()
    assert world.recorded == []


def test_once_gives_up_after_some_tries() -> None:
    world = ScriptedWorld(*[StaleRevisionError("first")] * (ONCE_TRIES + 1))

    with pytest.raises(StaleRevisionError):
        world.loop.run_once()
    assert world.looks == ONCE_TRIES


def test_once_is_one_cycle() -> None:
    world = ScriptedWorld(BackendError("no answer"), None, None)
    report = world.loop.run_once()

    assert world.looks == 2
    assert not report.update


def test_a_cycle_without_a_status_change_still_offers_its_forecast_for_recording() -> None:
    world = ScriptedWorld(None, None)
    world.loop.run_once()

    assert world.recorded == [StatusUpdate()]


def test_waits_grow_to_a_bound_and_start_over_after_a_success() -> None:
    patience = Patience()
    waits = [patience.next_s() for _ in range(12)]
    patience.calm()

    assert all(wait <= LONGEST_WAIT_S for wait in waits)
    assert waits[-1] >= LONGEST_WAIT_S / 2
    assert patience.next_s() <= 0.2
