"""The live world over a real repository, with a launcher that a test can make fail."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.cycle import CycleReport, run_cycle
from reconciler.devices.readings import DeviceSurvey
from reconciler.domain.attempt import AttemptPhase, Observation, ObservedState
from reconciler.domain.launch import LaunchRequest, RunRef
from reconciler.domain.plan import Launch
from reconciler.domain.reason import Reason
from reconciler.domain.status import JobPhase
from reconciler.domain.units import AttemptId, Instant, JobId, Seconds
from reconciler.engine.launches import Launches
from reconciler.engine.logging import Log
from reconciler.engine.machine import Machine
from reconciler.engine.main_reader import MainReader
from reconciler.engine.notifier import Notifier
from reconciler.engine.requests import Place
from reconciler.engine.sinks import Courier, Outbox
from reconciler.engine.state_dir import StateDir
from reconciler.engine.world import LiveWorld, Parts
from reconciler.errors import (
    DeposedError,
    GitError,
    InvariantError,
    LauncherError,
    StaleRevisionError,
)
from reconciler.snapshots.assemble import Assembler
from reconciler.snapshots.recorded import recorded_at
from reconciler.specs.cache import SpecCache
from reconciler.store.git.repository import open_mirror
from reconciler.store.lease import Lease
from reconciler.store.spec_source import SpecSource
from reconciler.store.status_store import StatusStore
from tests.live_fleets import Fleet


class ScriptedLauncher:
    """Runs nothing; says what the test told it to say."""

    def __init__(self) -> None:
        self.asked: list[AttemptId] = []
        self.error: LauncherError | None = None
        self.seen: dict[AttemptId, Observation] = {}

    def launch(self, request: LaunchRequest) -> None:
        self.asked.append(request.run.attempt)
        if self.error is not None:
            raise self.error
        attempt = request.run.attempt
        self.seen[attempt] = Observation(attempt=attempt, state=ObservedState.RUNNING)

    def poll(self, runs: Sequence[RunRef]) -> Mapping[AttemptId, Observation]:
        absent = ObservedState.ABSENT
        return {
            run.attempt: self.seen.get(run.attempt, Observation(attempt=run.attempt, state=absent))
            for run in runs
        }

    def stop(self, run: RunRef, grace_s: Seconds) -> None: ...

    def kill(self, run: RunRef) -> None: ...

    def end(self, attempt: AttemptId, exit_status: int = 0) -> None:
        self.seen[attempt] = Observation(
            attempt=attempt, state=ObservedState.ENDED, exit_status=exit_status
        )


class NoGpus:
    def survey(self) -> DeviceSurvey:
        return DeviceSurvey(devices=())


class Desk:
    """A live world put together by hand, on clocks the test moves."""

    def __init__(self, folder: Path, name: str = "r1") -> None:
        self.now, self.monotonic_s = 2_000_000_000, 0.0
        self.fleet = Fleet(folder) if name == "r1" else None
        self.launcher = ScriptedLauncher()
        self.written = io.StringIO()
        self.state = StateDir(folder / name)
        self.repo = folder / "remote.git"
        mirror = open_mirror(self.state.mirror, f"file://{self.repo}")
        self.source = SpecSource(mirror, "origin")
        self.statuses = StatusStore(mirror, "origin", "lab")
        self.lease = Lease(self.statuses, holder=name, lease_s=Seconds(30))
        self.lease.acquire(Instant(self.now), self.monotonic_s)
        self.world = LiveWorld(self._parts())

    def clock(self) -> Instant:
        return Instant(self.now)

    def _parts(self) -> Parts:
        log = Log(self.clock, self.written)
        cache = SpecCache(self.state.cache)
        main = MainReader(self.source, cache=cache, log=log)
        outbox = Outbox(self.state.outbox)
        courier = Courier(outbox, state_dir=self.state.path, clock=self.clock, log=log)
        return Parts(
            main=main,
            statuses=self.statuses,
            assembler=Assembler(self.source, cache),
            launches=Launches(
                self.source.tree, known=main.known, cache=cache, place=Place(runs_dir="/runs")
            ),
            launcher=self.launcher,
            machine=Machine(NoGpus(), log),
            notifier=Notifier(
                outbox=outbox, courier=courier, state=self.state, read=self.statuses.read,
                brought_by=self.source.brought_by, log=log,
            ),
            state=self.state,
            runs_dir="/runs",
            clock=self.clock,
            monotonic_s=lambda: self.monotonic_s,
            remote_poll_s=5.0,
            log=log,
            versions={"headway": "0"},
        )  # fmt: skip

    def cycle(self, after_s: int = 1) -> CycleReport:
        self.now += after_s
        self.monotonic_s += after_s
        return run_cycle(self.world)

    @property
    def live(self) -> Fleet:
        assert self.fleet is not None
        return self.fleet


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    made.live.commit(made.live.job("a"))
    return made


def test_the_intent_is_on_the_remote_before_the_launch_is_asked_for(desk: Desk) -> None:
    class Watching(ScriptedLauncher):
        def launch(self, request: LaunchRequest) -> None:
            status = desk.live.status("a")
            assert status is not None and status.live_attempt is not None
            assert status.live_attempt.id == request.run.attempt
            assert status.live_attempt.phase is AttemptPhase.LAUNCHING
            super().launch(request)

    desk.launcher = Watching()
    desk.world = LiveWorld(desk._parts())
    desk.cycle()

    assert len(desk.launcher.asked) == 1


def test_a_launch_that_fails_is_a_result_and_is_asked_for_again(desk: Desk) -> None:
    desk.launcher.error = LauncherError("the disk is full")
    first = desk.cycle()
    assert [outcome.ok for outcome in first.outcomes] == [False]
    assert "launch-failed" in desk.written.getvalue()

    desk.launcher.error = None
    second = desk.cycle()
    assert [outcome.ok for outcome in second.outcomes] == [True]
    assert len(set(desk.launcher.asked)) == 1
    desk.cycle()
    assert desk.live.phase("a") is JobPhase.RUNNING


def test_a_launch_that_is_refused_for_good_ends_as_lost_with_the_launchers_words(
    desk: Desk,
) -> None:
    desk.launcher.error = LauncherError("no such device", retryable=False)
    desk.cycle()
    desk.cycle()
    status = desk.live.status("a")

    assert status is not None
    assert status.attempts[0].phase is AttemptPhase.LOST
    assert status.lost == 1
    for _ in range(40):
        desk.cycle(after_s=60)
    status = desk.live.status("a")
    assert status is not None
    assert (status.phase, status.reason) == (JobPhase.HELD, Reason.LOST_TOO_OFTEN)
    assert "no such device" in desk.written.getvalue()


def test_nothing_that_changed_is_no_commit(desk: Desk) -> None:
    desk.cycle()
    desk.cycle()
    tip = desk.live.remote.tip("status/lab")
    for _ in range(3):
        desk.cycle()

    assert desk.live.remote.tip("status/lab") == tip


def test_our_own_commit_is_not_read_back_and_is_what_a_fresh_reader_finds(desk: Desk) -> None:
    desk.cycle()
    desk.cycle()
    kept = desk.world._branch
    assert kept is not None
    fresh = StatusStore(desk.statuses.repo, "origin", "lab").read(kept.tree.commit)

    assert fresh.statuses == kept.tree.statuses
    assert fresh.files == kept.tree.files
    assert kept.recorded == recorded_at(desk.statuses.repo, kept.tree.commit)
    assert kept.recorded is not None
    assert kept.inputs == kept.recorded.inputs()
    assert kept.forecast == fresh.forecast


def test_a_push_that_came_second_is_dropped_and_planned_again(desk: Desk) -> None:
    snapshot = desk.world.observe()
    report = desk.cycle()
    desk.live.commit(desk.live.job("b"))
    stale = replace(snapshot, now=Instant(desk.now))
    status = desk.live.remote.tip("status/lab")
    assert status is not None
    planned = report.plan
    desk.live.remote.commit({"status/team/x.json": "{}"}, branch="status/lab")

    with pytest.raises(StaleRevisionError):
        desk.world.record(stale, planned, report.update)


def test_nothing_is_launched_while_the_remote_refuses_the_status(desk: Desk) -> None:
    desk.live.remote.hook("update", 'case "$1" in refs/heads/status/*) exit 1;; esac')

    with pytest.raises(GitError, match="nothing starts until this account may push"):
        desk.cycle()
    assert desk.launcher.asked == []
    (desk.repo / "hooks" / "update").unlink()
    desk.cycle()
    assert len(desk.launcher.asked) == 1


def test_a_run_that_ends_is_news_and_progress_is_not(desk: Desk) -> None:
    desk.cycle()
    desk.cycle()
    assert desk.world.news() == ""
    (attempt,) = set(desk.launcher.asked)
    desk.launcher.seen[attempt] = replace(desk.launcher.seen[attempt], step=7)
    assert desk.world.news() == ""
    desk.launcher.end(attempt)

    assert desk.world.news() == f"run {attempt}"
    desk.cycle()
    assert desk.live.phase("a") is JobPhase.SUCCEEDED


def test_a_commit_on_main_is_news_when_the_remote_is_asked(desk: Desk) -> None:
    desk.cycle()
    desk.cycle()
    desk.world.news()
    desk.live.commit(desk.live.job("b"))

    assert desk.world.news() == ""
    desk.monotonic_s += 5
    assert desk.world.news() == "main moved"


def test_a_remote_that_does_not_answer_is_no_news(desk: Desk) -> None:
    desk.cycle()
    desk.cycle()
    desk.repo.rename(desk.repo.with_name("away.git"))
    desk.monotonic_s += 5

    assert desk.world.news() == ""


def test_a_deposed_world_observes_nothing(desk: Desk, tmp_path: Path) -> None:
    desk.cycle()
    desk.lease.release()
    other = Desk(tmp_path, "r2")

    assert other.lease.epoch == 2
    with pytest.raises(DeposedError):
        desk.world.observe()


def test_a_clock_that_goes_back_does_not_decide_before_the_last_decision(desk: Desk) -> None:
    first = desk.cycle()
    desk.now -= 3600

    assert desk.cycle().snapshot.now == first.snapshot.now


def test_the_evidence_of_a_broken_invariant_is_the_whole_snapshot(desk: Desk) -> None:
    desk.cycle()
    path = Path(desk.world.keep_evidence(InvariantError("t/j holds cpu-0 twice")))

    text = path.read_text()
    assert "holds cpu-0 twice" in text
    assert "team/a" in text


def test_actions_of_a_plan_name_only_recorded_attempts(desk: Desk) -> None:
    desk.cycle()
    unknown = Launch(job=JobId("team/a"), attempt=AttemptId("team.a-g1-a9-0123456789"))

    assert not desk.world.apply(unknown).ok
