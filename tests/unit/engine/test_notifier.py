"""What is recorded is told, once, also across a crash; alarms are raised once."""

import io
from dataclasses import replace
from pathlib import Path

from reconciler.domain.attempt import Attempt, AttemptPhase
from reconciler.domain.cluster import Allocation, NodeShare
from reconciler.domain.job import GpuRequest, JobSpec, TopologyDomain
from reconciler.domain.policy import Policy
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
from reconciler.engine.logging import Log
from reconciler.engine.main_reader import Look
from reconciler.engine.notifier import Notifier
from reconciler.engine.sinks import Courier, Outbox
from reconciler.engine.state_dir import StateDir
from reconciler.errors import GitError
from reconciler.specs.platform import NO_PLATFORM, Sink
from reconciler.specs.reading import SpecEntry, SpecReading
from reconciler.store.status_tree import StatusTree

JOB = JobId("t/j")
SPEC = JobSpec(
    team=TeamName("t"),
    name=JobName("j"),
    gpus=GpuRequest(count=1, within=TopologyDomain.NODE),
    notify_on_start=("monitor",),
    notify_on_finish=("monitor",),
)
WILD = SpecProblem(
    file="jobs/t/j.yaml", line=3, code="HW012", message="gpus: *", is_security_event=True
)
RUNNING = Attempt(
    id=AttemptId("t.j-g1-a1-0123456789"),
    number=1,
    phase=AttemptPhase.RUNNING,
    commit=CommitId("c" * 40),
    spec_digest=Digest("sha256:1"),
    allocation=Allocation(shares=(NodeShare(node=NodeName("n"), devices=(DeviceId("cpu-0"),)),)),
    decided_at=Instant(5),
    started_at=Instant(6),
)


def tree(digit: str, *attempts: Attempt, phase: JobPhase = JobPhase.RUNNING) -> StatusTree:
    status = JobStatus(job=JOB, phase=phase, reason=Reason.RUNS, attempts=attempts)
    return StatusTree(commit=CommitId(digit * 40), statuses={JOB: status}, files={})


EMPTY = StatusTree(commit=CommitId("0" * 40), statuses={}, files={})
STARTED = tree("1", RUNNING)
FINISHED = tree("2", replace(RUNNING, phase=AttemptPhase.SUCCEEDED), phase=JobPhase.SUCCEEDED)


def reading(*problems: SpecProblem, blob: str = "b" * 40) -> SpecReading:
    sinks = {name: Sink(name=name, kind="log") for name in ("monitor", "security")}
    entry = SpecEntry(
        JOB, "jobs/t/j.yaml", blob, None if problems else SPEC, problems=tuple(problems)
    )
    platform = replace(NO_PLATFORM, sinks=sinks, policy=Policy())
    return SpecReading(platform=platform, entries={JOB: entry}, problems=tuple(problems))


def look(read: SpecReading) -> Look:
    commit = CommitId("d" * 40)
    return Look(commit=commit, tip=commit, reading=read, is_rewritten=False, allowed_prune=0)


class Told:
    """A notifier on a state folder, and what it put into the outbox."""

    def __init__(self, folder: Path, *known: StatusTree) -> None:
        self.written = io.StringIO()
        self.state = StateDir(folder)
        self.outbox = Outbox(self.state.outbox)
        log = Log(lambda: Instant(0), self.written)
        self.notifier = Notifier(
            outbox=self.outbox,
            courier=Courier(self.outbox, state_dir=folder, clock=lambda: Instant(0), log=log),
            state=self.state,
            read=self._read,
            brought_by=lambda commit, path: (CommitId("e" * 40), "Eve <eve@x>"),
            log=log,
        )
        self._known = {each.commit: each for each in known}

    def _read(self, commit: CommitId) -> StatusTree:
        if commit not in self._known:
            raise GitError(f"{commit} is not here", retryable=False)
        return self._known[commit]

    def events(self) -> list[str]:
        return [f"{each.body['event']}:{each.sink}" for _, each in self.outbox.waiting()]


def test_a_recorded_start_is_told(tmp_path: Path) -> None:
    told = Told(tmp_path)
    told.notifier.look(look(reading()), EMPTY)
    told.notifier.recorded(EMPTY, STARTED, reading())

    assert told.events() == ["started:monitor"]
    assert told.state.handed_on() == STARTED.commit


def test_a_first_start_of_a_reconciler_tells_nothing_old(tmp_path: Path) -> None:
    told = Told(tmp_path)
    told.notifier.look(look(reading()), FINISHED)

    assert told.events() == []


def test_what_was_recorded_before_a_crash_is_told_after_it(tmp_path: Path) -> None:
    Told(tmp_path).notifier.look(look(reading()), EMPTY)

    after = Told(tmp_path, EMPTY)
    after.notifier.look(look(reading()), FINISHED)
    assert after.events() == ["started:monitor", "finished:monitor"]
    after.notifier.look(look(reading()), FINISHED)
    assert len(after.events()) == 2


def test_a_commit_that_cannot_be_read_any_more_is_a_gap_that_is_said(tmp_path: Path) -> None:
    Told(tmp_path).notifier.look(look(reading()), EMPTY)

    after = Told(tmp_path)
    after.notifier.look(look(reading()), FINISHED)
    assert after.events() == []
    assert "notify-gap" in after.written.getvalue()
    assert after.state.handed_on() == FINISHED.commit


def test_a_security_event_is_alarmed_once_with_who_brought_it(tmp_path: Path) -> None:
    told = Told(tmp_path)
    for _ in range(3):
        told.notifier.look(look(reading(WILD)), EMPTY)

    assert told.written.getvalue().count("security:") == 1
    assert "Eve <eve@x>" in told.written.getvalue()
    assert "e" * 40 in told.written.getvalue()
    assert told.events() == ["security:security"]


def test_another_such_document_is_alarmed_again(tmp_path: Path) -> None:
    told = Told(tmp_path)
    told.notifier.look(look(reading(WILD)), EMPTY)
    told.notifier.look(look(reading(WILD, blob="a" * 40)), EMPTY)

    assert told.written.getvalue().count("security:") == 2


def test_one_that_is_recorded_already_is_not_alarmed_after_a_restart(tmp_path: Path) -> None:
    status = JobStatus(job=JOB, phase=JobPhase.INVALID, reason=Reason.WILDCARD_REQUEST)
    known = StatusTree(commit=CommitId("3" * 40), statuses={JOB: status}, files={})
    told = Told(tmp_path)
    told.notifier.look(look(reading(WILD)), known)

    assert told.written.getvalue().count("security:") == 0
