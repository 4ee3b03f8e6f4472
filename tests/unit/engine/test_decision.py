"""The commit that records a plan: which files, when a forecast is due, what the message says."""

from dataclasses import replace
from typing import Any

from reconciler.domain.plan import Expectation, Plan
from reconciler.domain.reason import Reason
from reconciler.domain.snapshot import DesiredJob
from reconciler.domain.status import JobPhase, JobStatus, StatusUpdate, Transition
from reconciler.domain.units import CommitId, Digest, Instant, JobId
from reconciler.engine.decision import FORECAST_EVERY_S, Decided, decision_commit
from reconciler.snapshots.inputs import INPUTS_FILE, Inputs
from reconciler.specs.serialize import Forecast
from reconciler.store.commit_message import parse_message
from reconciler.store.status_tree import CURSOR_FILE, FORECAST_FILE
from tests.builders import a_snapshot

SNAPSHOT = a_snapshot()
NOW = SNAPSHOT.now
JOB = JobId("team/j")


def expected(start: int) -> dict[JobId, Expectation]:
    return {
        JOB: Expectation(
            job=JOB,
            start_p50=Instant(start),
            start_p90=Instant(start),
            end_p50=Instant(start + 10),
            end_p90=Instant(start + 10),
            allocation=None,
        )
    }


def decided(**more: Any) -> Decided:
    fields: dict[str, Any] = {
        "snapshot": SNAPSHOT,
        "plan": Plan(now=NOW, decisions={}, digest=Digest("sha256:abc")),
        "update": StatusUpdate(),
        "inputs": Inputs(desired=SNAPSHOT.desired.commit, now=NOW, looked_at=NOW),
        "before": None,
        "published": None,
        "runs_dir": "/runs",
        "epoch": 3,
    }
    return Decided(**(fields | more))


def changed(phase: JobPhase = JobPhase.PENDING, reason: Reason = Reason.GPUS_BUSY) -> StatusUpdate:
    status = JobStatus(job=JOB, phase=phase, reason=reason)
    transition = Transition(job=JOB, before=None, after=phase, reason=reason)
    return StatusUpdate(changed=(status,), transitions=(transition,))


def test_a_cycle_in_which_nothing_happened_is_no_commit() -> None:
    assert decision_commit(decided()) is None


def test_a_changed_status_is_written_with_cursor_and_inputs() -> None:
    made = decision_commit(decided(update=changed()))

    assert made is not None
    assert set(made.files) == {"status/team/j.json", CURSOR_FILE, INPUTS_FILE}
    message = parse_message(made.message)
    assert (message.plan, message.epoch) == ("sha256:abc", 3)
    assert message.desired == SNAPSHOT.desired.commit
    assert message.inputs is not None


def test_the_cursor_stays_where_it_is_while_main_is_rewritten() -> None:
    rewritten = replace(SNAPSHOT, desired=replace(SNAPSHOT.desired, is_rewritten=True))
    made = decision_commit(decided(update=changed(), snapshot=rewritten))

    assert made is not None
    assert CURSOR_FILE not in made.files


def test_a_first_forecast_is_published_even_if_no_status_changed() -> None:
    plan = Plan(now=NOW, decisions={}, forecast=expected(NOW + 100))
    made = decision_commit(decided(plan=plan))

    assert made is not None
    assert FORECAST_FILE in made.files
    assert made.published == Forecast(published_at=NOW, jobs=plan.forecast)
    assert parse_message(made.message).subject == "status: forecast"


def test_a_forecast_that_moved_waits_for_its_minute() -> None:
    plan = Plan(now=NOW, decisions={}, forecast=expected(NOW + 9000))
    young = Forecast(published_at=Instant(NOW - FORECAST_EVERY_S + 1), jobs=expected(NOW))
    old = replace(young, published_at=Instant(NOW - FORECAST_EVERY_S))

    assert decision_commit(decided(plan=plan, published=young)) is None
    made = decision_commit(decided(plan=plan, published=old))
    assert made is not None and FORECAST_FILE in made.files


def test_a_forecast_that_stays_is_not_published_again_and_is_remembered() -> None:
    plan = Plan(now=NOW, decisions={}, forecast=expected(NOW + 100))
    published = Forecast(published_at=Instant(0), jobs=expected(NOW + 101))
    made = decision_commit(decided(plan=plan, published=published, update=changed()))

    assert made is not None
    assert FORECAST_FILE not in made.files
    assert made.published == published


def test_a_refused_wildcard_request_is_told_with_its_author() -> None:
    job = DesiredJob(id=JOB, commit=CommitId("c" * 40), spec=None, author="Eve <eve@x>")
    snapshot = replace(SNAPSHOT, desired=replace(SNAPSHOT.desired, jobs={JOB: job}))
    update = changed(JobPhase.INVALID, Reason.WILDCARD_REQUEST)
    made = decision_commit(decided(snapshot=snapshot, update=update))

    assert made is not None
    assert "security: refused team/j, by Eve <eve@x>" in made.message


def test_the_second_decision_records_only_what_changed() -> None:
    first = decision_commit(decided(update=changed()))
    assert first is not None
    second = decision_commit(decided(update=changed(), before=first.recorded))

    assert second is not None
    assert second.recorded.sequence == first.recorded.sequence + 1
    assert second.files[INPUTS_FILE] != first.files[INPUTS_FILE]
