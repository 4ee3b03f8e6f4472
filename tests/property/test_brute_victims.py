"""Whom an urgent job stops, against trying every set of running jobs, on tiny clusters."""

from itertools import chain, combinations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.plan import Verb
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import JobId
from reconciler.planning.plan import plan
from tests.builders import a_snapshot
from tests.property.brute import gang_fits
from tests.strategies import _Floor, clusters, orders
from tests.values import a_job_id

URGENT = a_job_id("urgent")


@st.composite
def crowded(draw: st.DrawFn) -> Snapshot:
    """One P0 close to its deadline, and jobs that hold nearly everything for hours to come."""
    nodes = draw(clusters())
    floor = _Floor(nodes)
    running: dict[str, Any] = {}
    for number in range(draw(st.integers(1, 8))):
        job = {
            "gpus": draw(st.sampled_from((1, 1, 2, 2, 3, 4))),
            "priority": draw(st.sampled_from(("P0", "P2", "P3", "P4"))),
            "preemptible": draw(st.integers(0, 4)) > 0,
            "estimate": "20h",
        }
        on = floor.take(f"r{number}", job)
        if on is None:
            continue
        running[f"r{number}"] = job | {
            "on": on,
            "ran": draw(st.sampled_from(("20m", "1h", "5h"))),
            "since_checkpoint": draw(st.sampled_from(("10s", "5m", "15m"))),
            "preemptions": draw(st.sampled_from((0, 0, 0, 20))),
        }
    urgent = {
        "gpus": draw(st.sampled_from((1, 2, 3, 4, 6, 8))),
        "within": draw(st.sampled_from(("node", "node", "rack", "cluster"))),
        "priority": "P0",
        "estimate": "10m",
        "deadline_in": "1h",
        "submitted_ago": "10m",
    }
    return a_snapshot(
        nodes=nodes, running=running, pending={URGENT: urgent}, policy={"order": draw(orders())}
    )


def plainly_cheapest(snapshot: Snapshot) -> tuple[JobId, ...] | None:
    """Return the cheapest victims, () where it fits without any; None where nothing helps."""
    spec = snapshot.desired.jobs[URGENT].spec
    assert spec is not None
    held = {
        job: frozenset(status.live_attempt.allocation.devices())
        for job, status in snapshot.statuses.items()
        if status.live_attempt is not None
    }
    may = [job for job in sorted(held) if may_be_stopped(snapshot, job)]
    sets = chain.from_iterable(combinations(may, size) for size in range(len(may) + 1))
    helping = [
        victims
        for victims in sets
        if gang_fits(
            spec.gpus,
            snapshot.cluster,
            set().union(*(held[job] for job in held if job not in victims)),
        )
    ]
    if not helping:
        return None
    return min(helping, key=lambda v: (sum(cost(snapshot, job) for job in v), len(v), v))


def may_be_stopped(snapshot: Snapshot, job: JobId) -> bool:
    spec, status = snapshot.desired.jobs[job].spec, snapshot.statuses[job]
    assert spec is not None
    return spec.preemptible and spec.priority > 0 and status.preemptions < 20


def cost(snapshot: Snapshot, job: JobId) -> int:
    """Return (work since the last durable checkpoint + restart) x GPUs."""
    attempt = snapshot.statuses[job].live_attempt
    assert attempt is not None
    saved_at = snapshot.observations[attempt.id].checkpoint_at
    assert saved_at is not None
    at_stake = snapshot.now - max(saved_at, attempt.started_at or 0)
    return (at_stake + snapshot.policy.preemption.restart_s) * attempt.gpus


@given(crowded())
def test_an_urgent_job_stops_the_cheapest_set_there_is(snapshot: Snapshot) -> None:
    decision = plan(snapshot)[0].decisions[URGENT]

    cheapest = plainly_cheapest(snapshot)
    if cheapest == ():
        assert decision.verb is Verb.START
    else:
        assert decision.victims == (cheapest or ())
        assert decision.verb is Verb.WAIT
        assert (decision.hold is None) == (cheapest is None)
