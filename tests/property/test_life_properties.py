"""What holds over whole lives of a fleet: many cycles, failures, losses, edits, crashes."""

from typing import Any

from hypothesis import given

from reconciler.domain.plan import Verb
from reconciler.domain.policy import Order
from reconciler.domain.reason import Reason
from reconciler.planning.lifecycle import LEGAL
from tests.property.lives import Life, quota_use, spec_of
from tests.strategies import Step, clusters, lives, orders, quotas

DAY_S = 86_400


def shared(limits: dict[str, Any]) -> list[list[str]]:
    """Teams whose quotas of all types are counted together, those of no cohort alone."""
    bounded = [team for team, limit in limits.items() if "*" in limit["quota"]]
    cohort = [team for team in bounded if limits[team]["cohort"] is not None]
    alone = [[team] for team in bounded if team not in cohort]
    return [*alone, cohort] if cohort else alone


@given(clusters(capped=True), quotas(), lives(), orders())
def test_a_life_keeps_every_rule(
    nodes: dict[str, Any], limits: dict[str, Any], steps: list[Step], order: Order
) -> None:
    """Invariants are checked inside each cycle; here is what they cannot see."""
    life = Life(nodes, limits, steps, order)
    for _ in life.cycles(rest_s=DAY_S):
        held = [pair for devices in life.really_running().values() for pair in devices]
        assert len(held) == len(set(held)), "two runs really share a device"
        for teams in shared(limits):
            together = sum(limits[team]["quota"]["*"] for team in teams)
            assert sum(quota_use(life.world, team) for team in teams) <= together

    illegal = [t for _, t in life.world.log if t.after not in LEGAL[t.before]]
    assert illegal == []
    assert len(life.world.launches) == len(set(life.world.launches))


@given(clusters(capped=True), quotas(), lives(), orders())
def test_a_settled_world_does_nothing(
    nodes: dict[str, Any], limits: dict[str, Any], steps: list[Step], order: Order
) -> None:
    life = Life(nodes, limits, steps, order)
    for _ in life.cycles(rest_s=60):
        pass
    reports = [next(iter(life.world.cycles(0))) for _ in range(8)]

    assert not reports[-1].update, "it never settles"
    assert reports[-1].plan.digest == reports[-2].plan.digest


@given(clusters(calm=True, capped=True), quotas(), lives(calm=True), orders())
def test_nobody_is_stopped_in_vain(
    nodes: dict[str, Any], limits: dict[str, Any], steps: list[Step], order: Order
) -> None:
    life = Life(nodes, limits, steps, order)
    waiting: dict[str, int] = {}
    for report in life.cycles(rest_s=2 * 3600):
        now = report.snapshot.now
        for job, decision in report.plan.decisions.items():
            if decision.verb is Verb.PREEMPT and decision.for_job is not None:
                victim = spec_of(report, job)
                assert victim is not None
                gone = now + victim.grace_s + 5
                waiting[decision.for_job] = max(waiting.get(decision.for_job, 0), gone)
            if decision.verb is Verb.START:
                waiting.pop(job, None)
        assert all(now <= due for due in waiting.values()), f"victims left in vain for {waiting}"


@given(clusters(calm=True, capped=True), lives(calm=True, most=10), orders())
def test_there_are_no_loops_and_everything_ends(
    nodes: dict[str, Any], steps: list[Step], order: Order
) -> None:
    """Without new jobs the preemptions are finite, and whatever can run at all has run."""
    life = Life(nodes, {}, steps, order)
    preemptions = 0
    for report in life.cycles(rest_s=10 * DAY_S):
        preemptions += sum(d.verb is Verb.PREEMPT for d in report.plan.decisions.values())

    jobs = len(life.world.statuses)
    assert preemptions <= jobs * jobs
    for status in life.world.statuses.values():
        hopeless = status.reason in (Reason.NEVER_FITS, Reason.NODES_UNAVAILABLE)
        assert status.phase.is_finished or hopeless, status
