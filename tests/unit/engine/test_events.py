"""What sinks are told, derived from two statuses."""

from dataclasses import replace

from reconciler.domain.attempt import Attempt, AttemptPhase
from reconciler.domain.cluster import Allocation, NodeShare
from reconciler.domain.job import GpuRequest, JobSpec, TopologyDomain
from reconciler.domain.problem import SpecProblem
from reconciler.domain.reason import Reason
from reconciler.domain.status import JobPhase, JobStatus
from reconciler.domain.units import (
    AttemptId,
    CommitId,
    DeviceId,
    Digest,
    Instant,
    JobId,
    JobName,
    NodeName,
    TeamName,
)
from reconciler.engine.events import notifications, security_notification

SPEC = JobSpec(
    team=TeamName("t"),
    name=JobName("j"),
    gpus=GpuRequest(count=1, within=TopologyDomain.NODE),
    notify_on_start=("monitor",),
    notify_on_finish=("monitor", "mail"),
)
LAUNCHING = Attempt(
    id=AttemptId("t.j-g1-a1-0123456789"),
    number=1,
    phase=AttemptPhase.LAUNCHING,
    commit=CommitId("c" * 40),
    spec_digest=Digest("sha256:1"),
    allocation=Allocation(shares=(NodeShare(node=NodeName("n"), devices=(DeviceId("cpu-0"),)),)),
    decided_at=Instant(5),
)
RUNNING = replace(LAUNCHING, phase=AttemptPhase.RUNNING, started_at=Instant(10))
ENDED = replace(RUNNING, phase=AttemptPhase.SUCCEEDED, ended_at=Instant(60), exit_status=0)


def status(phase: JobPhase, *attempts: Attempt, generation: int = 1) -> JobStatus:
    return JobStatus(
        job=JobId("t/j"),
        phase=phase,
        reason=Reason.COMPLETED,
        attempts=attempts,
        submission=CommitId("c" * 40),
        generation=generation,
    )


def test_a_start_is_told_when_the_attempt_was_seen_to_run() -> None:
    launching = status(JobPhase.RUNNING, LAUNCHING)
    told = notifications(launching, status(JobPhase.RUNNING, RUNNING), SPEC)

    assert [(each.sink, each.body["event"]) for each in told] == [("monitor", "started")]
    assert told[0].body["at"] == "1970-01-01T00:00:10Z"
    assert notifications(None, launching, SPEC) == ()


def test_an_end_is_told_to_every_sink_the_document_names() -> None:
    told = notifications(status(JobPhase.RUNNING, RUNNING), status(JobPhase.SUCCEEDED, ENDED), SPEC)

    assert [each.sink for each in told] == ["monitor", "mail"]
    assert told[0].body["phase"] == "succeeded"
    assert told[0].body["exit_status"] == 0


def test_a_run_that_started_and_ended_between_two_looks_is_told_of_both() -> None:
    told = notifications(
        status(JobPhase.RUNNING, LAUNCHING), status(JobPhase.SUCCEEDED, ENDED), SPEC
    )

    assert [each.body["event"] for each in told] == ["started", "finished", "finished"]


def test_nothing_is_told_twice_when_a_finished_status_changes_again() -> None:
    done = status(JobPhase.SUCCEEDED, ENDED)

    assert notifications(done, replace(done, message="looked at"), SPEC) == ()


def test_another_generation_that_ends_is_told_again_under_another_id() -> None:
    first = notifications(None, status(JobPhase.FAILED, ENDED), SPEC)
    second = notifications(
        status(JobPhase.FAILED, ENDED), status(JobPhase.FAILED, generation=2), SPEC
    )

    assert {each.id for each in first}.isdisjoint(each.id for each in second)
    assert [each.body["event"] for each in second] == ["finished", "finished"]


def test_the_same_change_has_the_same_ids_however_often_it_is_derived() -> None:
    change = (status(JobPhase.RUNNING, RUNNING), status(JobPhase.SUCCEEDED, ENDED), SPEC)

    assert notifications(*change) == notifications(*change)


def test_a_security_event_names_author_and_commit_and_goes_to_the_security_sink() -> None:
    problem = SpecProblem(file="jobs/t/j.yaml", line=3, code="HW012", message="gpus: *")
    told = security_notification(problem, author="Eve <eve@x>", commit=CommitId("d" * 40))

    assert told.sink == "security"
    assert (told.body["author"], told.body["commit"]) == ("Eve <eve@x>", "d" * 40)
