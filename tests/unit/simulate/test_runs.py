import pytest

from reconciler.domain.attempt import Observation
from reconciler.domain.units import AttemptId, Instant, JobId, Seconds
from reconciler.simulate.runs import Behaviour, Fault, Run, Trouble

T = Instant(1000)


def a_run(
    fault: str | None = None, *, resumed: int = 0, runs_command: bool = False, save: int = 5
) -> Run:
    return Run(
        attempt=AttemptId("a"),
        job=JobId("x/y"),
        began_at=T,
        resumed_s=Seconds(resumed),
        behaviour=Behaviour(
            work_s=Seconds(1000), checkpoint_every_s=Seconds(100), save_s=Seconds(save)
        ),
        runs_command=runs_command,
        trouble=None if fault is None else Trouble(fault=Fault(fault), after_s=Seconds(250)),
    )


def seen(run: Run, after_s: int) -> Observation:
    return run.observe(Instant(T + after_s))


def test_a_run_ends_when_its_work_is_done() -> None:
    assert seen(a_run(), 999).state.value == "running"
    done = seen(a_run(), 1000)
    assert (done.state.value, done.outcome, done.exit_status) == ("ended", "succeeded", 0)


def test_a_resumed_run_has_less_to_do() -> None:
    assert a_run(resumed=900).ending().at == T + 100
    assert seen(a_run(resumed=900), 50).step == 950


def test_checkpoints_come_at_their_interval() -> None:
    assert seen(a_run(), 99).checkpoint_step is None
    assert (seen(a_run(), 250).checkpoint_step, seen(a_run(), 250).checkpoint_at) == (200, T + 200)
    assert seen(a_run(resumed=50), 250).checkpoint_step == 250


def test_a_stop_saves_what_was_done() -> None:
    run = a_run()
    run.stop_at, run.grace_s = Instant(T + 250), Seconds(60)

    left = seen(run, 255)

    assert (left.state.value, left.outcome, left.exit_status) == ("ended", "stopped", 83)
    assert (left.checkpoint_step, left.checkpoint_at) == (250, T + 255)


@pytest.mark.parametrize(("fault", "save"), [("ignores_stop", 5), (None, 61)])
def test_what_does_not_leave_in_its_grace_is_killed(fault: str | None, save: int) -> None:
    run = a_run(fault, save=save)
    run.stop_at, run.grace_s = Instant(T + 250), Seconds(60)

    assert run.ending().at == T + 310
    assert (run.ending().exit_status, run.ending().saved_s) == (-9, 300)


def test_what_survives_its_grace_needs_a_kill() -> None:
    run = a_run("survives_grace")
    run.stop_at, run.grace_s = Instant(T + 250), Seconds(60)
    assert run.ending().at == T + 1000

    run.kill_at = Instant(T + 400)

    assert (run.ending().at, run.ending().exit_status) == (T + 400, -9)


@pytest.mark.parametrize(
    ("fault", "state", "exit_status", "outcome"),
    [
        ("fails", "ended", 1, "failed"),
        ("killed", "ended", -9, None),
        ("no_result", "ended", 0, None),
        ("diverges", "ended", 84, "diverged"),
        ("lost", "lost", None, None),
    ],
)
def test_faults_end_a_run_their_way(
    fault: str, state: str, exit_status: int | None, outcome: str | None
) -> None:
    end = seen(a_run(fault), 300)

    assert (end.state.value, end.exit_status, end.outcome) == (state, exit_status, outcome)
    assert (end.ended_at, end.checkpoint_step) == (T + 250, 200)


def test_a_command_keeps_nothing_and_has_no_result() -> None:
    run = a_run(runs_command=True)
    assert (seen(run, 1000).outcome, seen(run, 1000).exit_status) == (None, 0)
    run.stop_at, run.grace_s = Instant(T + 250), Seconds(60)

    assert (run.ending().exit_status, run.ending().saved_s) == (143, 0)


def test_the_first_ending_counts() -> None:
    run = a_run("fails")
    run.lost_at = Instant(T + 100)

    assert seen(run, 500).state.value == "lost"
