"""An attempt that cannot be launched does not hold its devices for ever."""

from collections.abc import Mapping, Sequence

import pytest

from reconciler.domain.attempt import Observation, ObservedState
from reconciler.domain.launch import LaunchRequest, RunRef
from reconciler.domain.units import AttemptId, Seconds
from reconciler.engine.launch_failures import LaunchFailures
from reconciler.errors import GitError, LauncherError

RUN = RunRef(attempt=AttemptId("t.j-g1-a1-0123456789"), path="t/j/c-g1/a1")
ABSENT = Observation(attempt=RUN.attempt, state=ObservedState.ABSENT)


class FakeLauncher:
    def __init__(self) -> None:
        self.killed: list[RunRef] = []
        self.is_silent = False

    def launch(self, request: LaunchRequest) -> None: ...

    def poll(self, runs: Sequence[RunRef]) -> Mapping[AttemptId, Observation]:
        return {}

    def stop(self, run: RunRef, grace_s: Seconds) -> None: ...

    def kill(self, run: RunRef) -> None:
        if self.is_silent:
            raise LauncherError("no answer")
        self.killed.append(run)


class World:
    def __init__(self) -> None:
        self.launcher = FakeLauncher()
        self.now_s = 0.0
        self.failures = LaunchFailures(self.launcher, lambda: self.now_s)

    def judged(self, seen: Observation = ABSENT) -> Observation:
        return self.failures.judge({RUN.attempt: seen}, [RUN], Seconds(120))[RUN.attempt]


def test_a_launch_that_never_failed_here_is_only_absent() -> None:
    world = World()
    world.now_s = 10_000

    assert world.judged() == ABSENT


def test_a_failure_is_explained_at_once_and_lost_after_a_while() -> None:
    world = World()
    world.failures.failed(RUN.attempt, LauncherError("the disk is full"))
    assert world.judged().state is ObservedState.ABSENT
    assert world.judged().message == "could not be launched: the disk is full"

    world.now_s = 100
    world.failures.failed(RUN.attempt, LauncherError("the disk is full"))
    assert world.judged().state is ObservedState.ABSENT
    world.now_s = 121
    assert world.judged().state is ObservedState.LOST
    assert world.launcher.killed == [RUN]


def test_a_refusal_for_good_is_lost_at_once() -> None:
    world = World()
    world.failures.failed(RUN.attempt, LauncherError("no such device", retryable=False))

    assert world.judged().state is ObservedState.LOST


def test_a_git_error_on_the_way_to_a_launch_is_not_a_refusal_for_good() -> None:
    world = World()
    world.failures.failed(RUN.attempt, GitError("blob missing", retryable=False))

    assert world.judged().state is ObservedState.ABSENT


@pytest.mark.parametrize("state", [ObservedState.RUNNING, ObservedState.UNKNOWN])
def test_an_attempt_that_runs_after_all_or_may_run_is_left_alone(state: ObservedState) -> None:
    world = World()
    world.failures.failed(RUN.attempt, LauncherError("timed out", retryable=False))
    seen = Observation(attempt=RUN.attempt, state=state)

    assert world.judged(seen) == seen
    assert world.launcher.killed == []


def test_a_launch_that_is_taken_forgets_the_failures() -> None:
    world = World()
    world.failures.failed(RUN.attempt, LauncherError("the disk is full"))
    world.failures.launched(RUN.attempt)
    world.now_s = 10_000

    assert world.judged() == ABSENT


def test_what_cannot_be_killed_is_not_given_up() -> None:
    world = World()
    world.launcher.is_silent = True
    world.failures.failed(RUN.attempt, LauncherError("no such device", retryable=False))

    assert world.judged().state is ObservedState.ABSENT


def test_failures_of_attempts_that_are_over_are_forgotten() -> None:
    world = World()
    world.failures.failed(RUN.attempt, LauncherError("no such device", retryable=False))

    assert world.failures.judge({}, [], Seconds(120)) == {}
    assert world.judged() == ABSENT
