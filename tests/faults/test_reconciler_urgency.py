"""P0 is judged once, when it is asked for, and on main too: not every push went through CI."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.domain.reason import Reason
from reconciler.domain.status import JobPhase
from reconciler.domain.units import Instant, rfc3339
from reconciler.engine.replay import Replayer
from tests.live_fleets import Fleet, eventually

pytestmark = pytest.mark.slow


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path)
    yield made
    made.finish_everything()


def due_in(hours: float) -> str:
    return f'deadline: "{rfc3339(Instant(int(time.time() + hours * 3600)))}"\n'


def test_p0_with_a_distant_deadline_is_refused_by_the_reconciler_too(fleet: Fleet) -> None:
    fleet.commit(fleet.job("a", priority="P0", more=due_in(3)))
    fleet.reconcile_once()
    fleet.reconcile_once()

    status = fleet.status("a")
    assert status is not None
    assert (status.phase, status.reason) == (JobPhase.INVALID, Reason.SPEC_INVALID)
    assert "HW053" in status.message
    assert fleet.started() == []


def test_p0_that_was_due_soon_when_asked_for_stays_valid(fleet: Fleet) -> None:
    fleet.commit(fleet.job("a", priority="P0", seconds=60, more=due_in(1)))
    fleet.reconcile_once()
    eventually(lambda: len(fleet.started()) == 1, "a runs")
    fleet.commit(fleet.job("b"))  # another look at the same document

    fleet.reconcile_once()

    assert fleet.phase("a") is JobPhase.RUNNING


def test_a_running_job_can_not_be_edited_into_a_p0_that_is_not_due(fleet: Fleet) -> None:
    fleet.commit(fleet.job("a", seconds=60))
    fleet.reconcile_once()
    eventually(lambda: len(fleet.started()) == 1, "a runs")
    fleet.commit(fleet.job("a", seconds=60, priority="P0", more=due_in(5)))

    fleet.reconcile_once()

    status = fleet.status("a")
    assert status is not None and status.summary is not None
    assert status.phase is JobPhase.RUNNING
    assert status.summary.priority.name == "P2"


def test_the_refusal_is_derived_again_from_commits(fleet: Fleet) -> None:
    fleet.commit(fleet.job("a", priority="P0", more=due_in(3)))
    fleet.reconcile_once()

    tip = fleet.remote.tip(f"status/{fleet.cluster}")
    assert tip is not None
    newest = Replayer(fleet.remote.path).replay(tip)

    assert newest.stated_plan is not None
    assert newest.holds
