"""What people are told before it happens: when a job starts, what a submission would do, how good
such words were.

Each test is a thread of complaints about schedulers that told nothing, or something else than
what then happened.
"""

from copy import deepcopy
from typing import Any

import pytest

from reconciler.cli.history import JobChange, Recorded
from reconciler.cli.predictions import Scored, Version, calibration, runs_of, scored
from reconciler.domain.plan import Verb
from reconciler.domain.units import CommitId, Instant, JobId
from reconciler.planning.compare import compare
from reconciler.planning.plan import plan
from reconciler.planning.risk import risks
from reconciler.simulate.runs import Behaviour
from reconciler.simulate.world import SimWorld
from reconciler.specs.serialize import Forecast
from tests.builders import a_snapshot
from tests.values import NOW, a_cluster, a_job_id, a_policy, a_spec, seconds

ORDERS = ("score", "value")


def a_world(order: str, nodes: dict[str, int], **jobs: tuple[int, str]) -> SimWorld:
    """Return a world in which these jobs, (GPUs, exact duration), were submitted."""
    world = SimWorld(a_cluster(nodes), now=NOW, policy=a_policy(order=order))
    for name, (gpus, lasts) in jobs.items():
        submit(world, name, gpus, lasts)
    return world


def submit(world: SimWorld, name: str, gpus: int, lasts: str) -> JobId:
    job = a_job_id(name)
    world.behaviours[job] = Behaviour(work_s=seconds(lasts))
    spec = a_spec(name, gpus=gpus, estimate=lasts, limit=lasts, preemptible=False)
    world.main.write(spec, now=world.now)
    return job


@pytest.mark.parametrize("order", ORDERS)
def test_nobody_has_to_ask_how_long_a_job_will_wait(order: str) -> None:
    """kubernetes-sigs/kueue#13159: the time until a job starts was left out of what is shown.

    Every waiting job, however far back, is told a start, an end and whose end it waits for.
    """
    waiting = {f"w{number:02}": (1 + number % 4, f"{1 + number % 5}h") for number in range(40)}
    world = a_world(order, {"n1": 4, "n2": 4}, **waiting)
    list(world.cycles(60))

    planned, _ = plan(world.observe())

    waits = [job for job, told in planned.decisions.items() if told.verb is Verb.WAIT]
    assert len(waits) >= 30
    for job in waits:
        told = planned.forecast[job]
        assert world.now < told.start_p50 <= told.start_p90
        assert told.start_p50 < told.end_p50
        assert told.rests_on, f"{job} is not told whose end it waits for"


@pytest.mark.parametrize("order", ORDERS)
def test_a_submission_can_be_tried_without_being_made(order: str) -> None:
    """kubernetes-sigs/kueue#15614: people and machines submit by trial and error.

    The very planner says beforehand when a job would start and who would start later for it;
    nothing has changed by asking, and then it comes as it was told.
    """
    world = a_world(order, {"n1": 4, "n2": 4}, a=(4, "1h"), b=(4, "2h"), c=(4, "3h"))
    list(world.cycles(120))
    before, _ = plan(world.observe())
    twin = deepcopy(world)
    job = submit(twin, "tried", 4, "30m")

    after, _ = plan(twin.observe())

    told = after.forecast[job]
    assert job not in world.main.desired().jobs
    assert plan(world.observe())[0].digest == before.digest
    later = {shift.job for shift in compare(before, after).delayed}
    submit(world, "tried", 4, "30m")
    list(world.cycles(5 * 3600))
    assert abs(_started(world, job) - told.start_p50) <= 60
    assert all(_started(world, each) > before.forecast[each].start_p50 + 60 for each in later)


@pytest.mark.parametrize("order", ORDERS)
def test_nobody_submits_a_job_that_does_nothing_to_learn_whether_it_would_wait(order: str) -> None:
    """kubernetes-sigs/kueue#4580: people submit `echo 0` to see whether a job of its kind waits.

    A job that would wait and one that would not are told apart by planning them, and a smaller
    one is found that starts at once.
    """
    world = a_world(order, {"n1": 4}, a=(2, "5h"))
    list(world.cycles(60))

    def answer(gpus: int) -> Verb:
        twin = deepcopy(world)
        job = submit(twin, "probe", gpus, "10m")
        return plan(twin.observe())[0].decisions[job].verb

    assert [answer(gpus) for gpus in (1, 2, 3, 4)] == [
        *(Verb.START, Verb.START),
        *(Verb.WAIT, Verb.WAIT),
    ]


@pytest.mark.parametrize("order", ORDERS)
def test_what_was_told_is_held_against_what_came(order: str) -> None:
    """fedonman/sqwatch#32: is the expected start to be trusted?  Nobody publishes how good it was.

    Every forecast that was published is scored.  Where people's estimates are true the median
    start is told within a minute, and where they are not, the score says so.
    """
    true = _scores(order, true_share=1.0)
    wrong = _scores(order, true_share=0.25)

    starts = next(row for row in calibration(true) if row.name == "starts")
    wrong_starts = next(row for row in calibration(wrong) if row.name == "starts")
    assert starts.predictions >= 6
    assert starts.error_p50_s <= 60
    assert wrong_starts.error_p50_s > 1800


def _scores(order: str, *, true_share: float) -> tuple[Scored, ...]:
    """Return every start forecast in ten hours in which jobs take a share of what is said."""
    jobs = {f"j{number:02}": (4, f"{1 + number % 3}h") for number in range(8)}
    world = a_world(order, {"n1": 4, "n2": 4}, **jobs)
    for job, said in list(world.behaviours.items()):
        world.behaviours[job] = Behaviour(work_s=seconds(int(said.work_s * true_share)))
    published = [
        Version(
            commit=CommitId(f"{number:040x}"),
            at=report.plan.now,
            forecast=Forecast(published_at=report.plan.now, jobs=dict(report.plan.forecast)),
        )
        for number, report in enumerate(world.cycles(10 * 3600))
        if report.update
    ]
    at = Recorded(
        commit=CommitId("0" * 40),
        at=world.now,
        subject="",
        by="",
        desired=None,
        epoch=None,
        plan=None,
    )
    ended = [
        JobChange(job=job, recorded=at, before=None, after=status)
        for job, status in sorted(world.statuses.items())
    ]
    return scored(published, runs_of(ended))[0]


def _started(world: SimWorld, job: JobId) -> Instant:
    attempt = world.statuses[job].attempts[0]
    assert attempt.started_at is not None
    return attempt.started_at


def test_who_runs_on_what_was_lent_is_told_who_may_take_it_back() -> None:
    """kubernetes-sigs/kueue#7127: how likely is it that my borrowed job is stopped next?

    Two jobs run, one of them on what the other team lent.  Each is told what would make it leave,
    and that is what happens.
    """
    given: dict[str, Any] = {
        "nodes": {"n1": 8, "n2": 8},
        "policy": {"order": "value"},
        "teams": {
            "research": {"quota": {"*": 8}, "cohort": "models"},
            "vision": {"quota": {"*": 8}, "cohort": "models"},
        },
        "running": {
            "cheap": {"gpus": 8, "node": "n1", "ran": "2h", "since_checkpoint": "1m"},
            "dear": {"gpus": 8, "node": "n2", "ran": "2h", "since_checkpoint": "1h"},
        },
    }
    snapshot = a_snapshot(**given)
    planned, memo = plan(snapshot)

    cheap = risks(snapshot, planned, a_job_id("cheap"), memo)
    dear = risks(snapshot, planned, a_job_id("dear"), memo)

    assert [risk.words for risk in cheap] == [
        "if team vision asks for 1 GPU of its own quota",
        "for an urgent (P0) gang of 1 GPU",
    ]
    assert dear == []
    pending = {"vision/mine": {"gpus": 1}}
    then, _ = plan(a_snapshot(**given, pending=pending))
    assert then.decisions[a_job_id("cheap")].verb is Verb.PREEMPT
    assert then.decisions[a_job_id("dear")].verb is Verb.KEEP
