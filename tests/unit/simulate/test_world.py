import pytest

from reconciler.domain.attempt import ObservedState
from reconciler.domain.cluster import NodeState
from reconciler.domain.plan import Launch
from reconciler.domain.units import AttemptId, Instant, JobId, Seconds
from reconciler.simulate.events import Events
from reconciler.simulate.runs import Behaviour
from reconciler.simulate.world import SimWorld
from tests.values import NOW, a_cluster, a_job_id, a_problem, a_spec

JOB = a_job_id("job")


def a_world(work_s: int = 3600) -> SimWorld:
    world = SimWorld(a_cluster({"n1": 8, "n2": 8}), now=NOW)
    world.behaviours[JOB] = Behaviour(work_s=Seconds(work_s))
    world.main.write(a_spec("job", gpus=8), now=NOW)
    return world


def live(world: SimWorld) -> AttemptId:
    attempt = world.statuses[JOB].live_attempt
    assert attempt is not None
    return attempt.id


def play(world: SimWorld, span_s: int) -> int:
    """Run cycles for a span and return how many there were."""
    return len(list(world.cycles(span_s)))


def test_a_job_runs_from_its_commit_to_its_end() -> None:
    world = a_world()

    play(world, 4000)

    assert [(t.before and t.before.value, t.after.value) for _, t in world.log] == [
        (None, "running"),
        ("running", "running"),
        ("running", "succeeded"),
    ]
    assert world.commits == 3


def test_time_passes_only_in_events_and_cycles() -> None:
    world = a_world()
    play(world, 0)
    assert world.now == NOW

    world.advance(100)

    assert world.now == NOW + 100
    assert play(world, 60) == 6, "one now, one a second after the change, then every 15 s"


def test_what_resumes_goes_on_from_its_checkpoint() -> None:
    world = a_world()
    play(world, 1000)
    world.set_node("n1", NodeState.DOWN)
    play(world, 60)

    runs = [world.runs[attempt] for attempt in world.launches]

    assert [run.resumed_s for run in runs] == [0, 900]


def test_a_launch_nobody_recorded_is_refused() -> None:
    world = a_world()
    play(world, 60)

    result = world.apply(Launch(job=JOB, attempt=AttemptId("research.job-g1-a9-0000000000")))

    assert (result.ok, "never recorded" in result.message) == (False, True)


def test_a_launch_asked_twice_is_one_run() -> None:
    world = a_world()
    play(world, 0)
    again = world.apply(Launch(job=JOB, attempt=live(world)))

    assert again.ok
    assert len(world.launches) == 1


def test_a_silent_launcher_answers_nothing() -> None:
    world = a_world()
    play(world, 60)
    world.is_silent = True

    assert world.observe().observations[live(world)].state is ObservedState.UNKNOWN
    assert not world.apply(Launch(job=JOB, attempt=live(world))).ok


def test_main_tells_what_was_first_seen_since_the_cursor() -> None:
    world = a_world()
    assert set(world.main.desired().submissions) == {JOB}
    play(world, 0)
    assert world.main.desired().submissions == {}

    world.main.write(a_spec("job", gpus=4), now=world.now)
    assert world.main.desired().submissions == {}, "an edit is no submission"
    world.main.write(a_spec("job", gpus=4, generation=2), now=world.now)
    assert set(world.main.desired().submissions) == {JOB}


def test_a_broken_file_keeps_the_last_valid_spec() -> None:
    world = a_world()
    world.main.break_file(JOB, a_problem(), now=NOW)
    wanted = world.main.desired().jobs[JOB]

    assert wanted.spec is not None and wanted.problems
    assert wanted.commit != wanted.problems_commit == world.main.tip


@pytest.mark.parametrize("until", [5, 6, 100])
def test_events_happen_in_order(until: int) -> None:
    events, happened = Events(), []
    for at in (7, 5, 6, 5):
        events.at(Instant(at), lambda at=at: happened.append(at))  # type: ignore[misc]

    events.happen(Instant(until))

    assert happened == [at for at in (5, 5, 6, 7) if at <= until]
    assert events.next_at() == (None if until >= 7 else min(at for at in (6, 7) if at > until))


def test_a_job_unknown_to_luck_cannot_run() -> None:
    world = a_world()
    world.main.write(a_spec("other", gpus=1), now=NOW)

    with pytest.raises(KeyError):
        play(world, 0)
    assert JobId("research/other") in world.statuses
