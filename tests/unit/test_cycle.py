"""The order of one cycle: observe, plan, check, record, act."""

from dataclasses import replace

import pytest

from reconciler.cycle import run_cycle
from reconciler.domain.plan import Action, Plan
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.status import StatusUpdate
from reconciler.errors import StaleRevisionError
from reconciler.ports import ApplyResult
from tests.builders import a_snapshot


class Recorder:
    """A world that writes down what is asked of it."""

    def __init__(self, snapshot: Snapshot, *, is_stale: bool = False) -> None:
        self.snapshot = snapshot
        self.is_stale = is_stale
        self.asked: list[str] = []

    def observe(self) -> Snapshot:
        self.asked.append("observe")
        return self.snapshot

    def record(self, snapshot: Snapshot, plan: Plan, update: StatusUpdate) -> None:
        assert plan.now == snapshot.now
        if self.is_stale:
            raise StaleRevisionError("somebody else was first")
        self.asked.append(f"record {len(update.changed)}")

    def apply(self, action: Action) -> ApplyResult:
        self.asked.append(type(action).__name__.lower())
        return ApplyResult(action=action, ok=False, message="it did not work")


def test_what_is_decided_is_recorded_before_it_is_done() -> None:
    world = Recorder(a_snapshot(pending={"a": {}, "b": {}}))

    report = run_cycle(world)

    assert world.asked == ["observe", "record 2", "launch", "launch"]
    assert len(report.outcomes) == 2


def test_a_cycle_that_changes_nothing_records_nothing() -> None:
    world = Recorder(a_snapshot(running={"a": {}}))

    report = run_cycle(world)

    assert world.asked == ["observe"]
    assert not report.update


def test_what_is_asked_again_is_not_recorded_again() -> None:
    world = Recorder(a_snapshot(running={"a": {"attempt_phase": "launching", "seen": "absent"}}))

    run_cycle(world)

    assert world.asked == ["observe", "launch"]


def test_nothing_is_done_when_somebody_else_recorded_first() -> None:
    world = Recorder(a_snapshot(pending={"a": {}}), is_stale=True)

    with pytest.raises(StaleRevisionError):
        run_cycle(world)

    assert world.asked == ["observe"]


def test_a_failed_request_is_told_not_raised() -> None:
    report = run_cycle(Recorder(a_snapshot(pending={"a": {}})))

    assert [(outcome.ok, outcome.message) for outcome in report.outcomes] == [
        (False, "it did not work")
    ]


def test_the_memo_of_one_cycle_serves_the_next() -> None:
    snapshot = a_snapshot(pending={"a": {"gpus": 4}})
    first = run_cycle(Recorder(snapshot))

    second = run_cycle(Recorder(replace(snapshot, now=snapshot.now)), first.memo)

    assert second.plan == first.plan
    assert second.memo.known.where is first.memo.known.where
