from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.attempt import Attempt, AttemptPhase, ObservedState, Outcome, StopCause
from reconciler.domain.reason import Reason
from reconciler.domain.status import JobPhase
from reconciler.domain.units import Instant
from reconciler.planning.lifecycle import (
    LEGAL,
    LEGAL_ATTEMPTS,
    follow,
    how_it_ended,
    is_overdue,
    signal_name,
)
from tests.values import NOW, a_cluster, a_spec, an_attempt, an_observation, devices_of

ON = devices_of(a_cluster(), {"n1": [0]})


def attempt_in(phase: str, cause: str | None = None, **changed: Any) -> Attempt:
    attempt = an_attempt(a_spec(), ON, phase=phase, ran="1h")
    if cause is not None:
        attempt = replace(attempt, stop_cause=StopCause(cause), stop_asked_at=NOW)
    return replace(attempt, **changed)


def end_of(attempt: Attempt, state: str = "ended", **seen: Any) -> tuple[str, str]:
    after, _ = follow(attempt, an_observation(attempt, state, **seen), now=NOW)
    assert after.reason is not None
    return after.phase.value, after.reason.value


@pytest.mark.parametrize(
    ("seen", "end"),
    [
        ({"outcome": "succeeded", "exit_status": 0}, ("succeeded", "completed")),
        ({"outcome": "succeeded", "exit_status": 1}, ("succeeded", "completed")),
        ({"outcome": "diverged", "exit_status": 84}, ("diverged", "non_finite_loss")),
        ({"outcome": "failed", "exit_status": 1}, ("failed", "command_failed")),
        ({"outcome": "failed", "exit_status": 0}, ("failed", "command_failed")),
        ({"outcome": "stopped", "exit_status": 83}, ("lost", "attempt_lost")),
        ({"exit_status": 0}, ("failed", "no_completion_record")),
        ({"exit_status": None}, ("failed", "no_completion_record")),
        ({"exit_status": 3}, ("failed", "command_failed")),
        ({"exit_status": -9}, ("failed", "killed_by_signal")),
        ({"exit_status": -11, "outcome": "failed"}, ("failed", "killed_by_signal")),
    ],
)
def test_a_training_ends_as_its_result_says(seen: dict[str, Any], end: tuple[str, str]) -> None:
    assert end_of(attempt_in("running"), **seen) == end


@pytest.mark.parametrize(
    ("exit_status", "end"),
    [
        (0, ("succeeded", "completed")),
        (1, ("failed", "command_failed")),
        (-15, ("failed", "killed_by_signal")),
        (None, ("lost", "attempt_lost")),
    ],
)
def test_a_command_ends_as_its_exit_status_says(
    exit_status: int | None, end: tuple[str, str]
) -> None:
    assert end_of(attempt_in("running", runs_command=True), exit_status=exit_status) == end


@pytest.mark.parametrize(
    ("cause", "end"),
    [
        ("preempt", ("preempted", "freed_for_preemptor")),
        ("resize", ("preempted", "freed_for_preemptor")),
        ("drain", ("preempted", "node_draining")),
        ("suspend", ("preempted", "suspend_asked")),
        ("cancel", ("cancelled", "file_deleted")),
        ("time_limit", ("failed", "time_limit")),
    ],
)
@pytest.mark.parametrize(
    "seen",
    [
        {"outcome": "stopped", "exit_status": 83},
        {"exit_status": -9},
        {"outcome": "failed", "exit_status": 1},
        {"state": "lost"},
        {"state": "absent"},
    ],
    ids=str,
)
def test_what_was_asked_to_leave_ends_as_asked(
    cause: str, end: tuple[str, str], seen: dict[str, Any]
) -> None:
    assert end_of(attempt_in("stopping", cause), **seen) == end


def test_what_finished_while_asked_to_leave_has_succeeded() -> None:
    assert end_of(attempt_in("stopping", "preempt"), outcome="succeeded") == (
        "succeeded",
        "completed",
    )
    assert end_of(attempt_in("stopping", "cancel"), outcome="diverged") == (
        "diverged",
        "non_finite_loss",
    )


def test_a_command_that_left_when_asked_has_not_finished() -> None:
    stopping = attempt_in("stopping", "suspend", runs_command=True)

    assert end_of(stopping, exit_status=0) == ("preempted", "suspend_asked")


@pytest.mark.parametrize("state", ["lost", "absent"])
def test_a_running_attempt_nobody_knows_is_lost(state: str) -> None:
    assert end_of(attempt_in("running"), state) == ("lost", "attempt_lost")


def test_a_launching_attempt_nobody_knows_is_still_launching() -> None:
    attempt = attempt_in("launching")

    assert follow(attempt, an_observation(attempt, "absent"), now=NOW) == (attempt, "")


@pytest.mark.parametrize("phase", ["launching", "running", "stopping"])
def test_no_answer_changes_nothing(phase: str) -> None:
    attempt = attempt_in(phase)

    assert follow(attempt, None, now=NOW) == (attempt, "")
    assert follow(attempt, an_observation(attempt, "unknown"), now=NOW) == (attempt, "")


def test_the_first_sign_of_life_makes_it_running() -> None:
    attempt = attempt_in("launching")
    seen = an_observation(attempt, started_at=Instant(NOW - 7), step=3)

    after, _ = follow(attempt, seen, now=NOW)

    assert (after.phase, after.started_at, after.step) == (AttemptPhase.RUNNING, NOW - 7, 3)


def test_progress_alone_changes_nothing() -> None:
    attempt = attempt_in("running")

    after, _ = follow(attempt, an_observation(attempt, step=50, checkpoint_step=40), now=NOW)

    assert after == attempt


def test_an_end_keeps_step_and_checkpoint() -> None:
    attempt = attempt_in("running", step=10, checkpoint_step=10)
    seen = an_observation(attempt, "ended", outcome="succeeded", step=99, ended_at=Instant(NOW - 3))

    after, _ = follow(attempt, seen, now=NOW)

    assert (after.step, after.checkpoint_step, after.ended_at) == (99, 10, NOW - 3)


@pytest.mark.parametrize("wrong_by", [-(10**6), 10**6])
def test_other_clocks_are_kept_between_launch_and_now(wrong_by: int) -> None:
    attempt = attempt_in("launching")
    seen = an_observation(
        attempt,
        "ended",
        outcome="succeeded",
        started_at=Instant(NOW + wrong_by),
        ended_at=Instant(NOW + wrong_by),
    )

    after, _ = follow(attempt, seen, now=NOW)

    assert after.started_at is not None and after.ended_at is not None
    assert attempt.decided_at <= after.started_at <= after.ended_at <= NOW


def test_a_message_of_the_trainer_is_kept() -> None:
    attempt = attempt_in("running")
    seen = an_observation(attempt, "ended", outcome="failed", message="CUDA out of memory")

    assert follow(attempt, seen, now=NOW)[1] == "CUDA out of memory"


def test_signals_are_called_by_name() -> None:
    assert signal_name(9) == "SIGKILL"
    assert signal_name(99) == "signal 99"


def test_every_ended_observation_has_an_end() -> None:
    seen = an_observation(attempt_in("running"))
    for state in (ObservedState.ENDED, ObservedState.LOST, ObservedState.ABSENT):
        for outcome in (None, *Outcome):
            for status in (None, 0, 1, -9):
                for cause in (None, *StopCause):
                    for command in (True, False):
                        end = how_it_ended(
                            replace(seen, state=state, outcome=outcome, exit_status=status),
                            cause=cause,
                            runs_command=command,
                        )
                        phase = AttemptPhase.STOPPING if cause else AttemptPhase.RUNNING
                        assert end.phase in LEGAL_ATTEMPTS[phase]


def test_a_stopping_attempt_is_overdue_after_its_grace_and_a_bit() -> None:
    attempt = attempt_in("stopping", "preempt", grace_s=60)

    assert not is_overdue(attempt, now=Instant(NOW + 90))
    assert is_overdue(attempt, now=Instant(NOW + 91))
    assert not is_overdue(attempt_in("running"), now=Instant(NOW + 10_000))


def test_every_phase_is_in_the_tables() -> None:
    assert set(LEGAL) == {None, *JobPhase}
    assert set(LEGAL_ATTEMPTS) == {None, *AttemptPhase}


def test_a_finished_job_never_stops_or_fails_again() -> None:
    for phase in JobPhase:
        if phase.is_finished:
            assert JobPhase.STOPPING not in LEGAL[phase]
            assert {p for p in LEGAL[phase] if p.is_finished} == {phase}


def test_reasons_of_ends_are_those_of_the_end() -> None:
    assert end_of(attempt_in("running"), "lost") == ("lost", Reason.ATTEMPT_LOST.value)
