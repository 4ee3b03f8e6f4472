"""What the simulator counts by itself: quotas that plans break, and time stuck by node."""

from collections.abc import Sequence

import pytest

from reconciler.domain.policy import Policy
from reconciler.domain.team import Team
from reconciler.domain.units import JobId, TeamName
from reconciler.simulate.asks import HOUR_S
from reconciler.simulate.audit import Audit, is_stuck
from reconciler.simulate.costs import Costs
from reconciler.simulate.metrics import figures
from reconciler.simulate.overlay_world import OverlayWorld
from reconciler.simulate.paper_fleet import paper_cluster
from reconciler.simulate.play_headway import play_headway
from tests.unit.simulate.paper import ask


def team(name: str, gpus: int, cohort: str | None = None) -> Team:
    return Team(name=TeamName(name), quota_gpus={"*": gpus}, cohort=cohort)


def audit(*teams: Team) -> Audit:
    return Audit({each.name: each for each in teams})


def job(name: str) -> JobId:
    return JobId(name)


def test_a_launch_above_the_quota_is_a_violation_until_somebody_has_left() -> None:
    one = audit(team("a", 8))
    one.launched(job("a/x"), 8, lambda _: 0)
    assert one.quota_violations == 0
    one.launched(job("a/y"), 1, lambda _: 0)
    assert one.quota_violations == 1
    one.left(job("a/x"), 8)
    one.launched(job("a/z"), 7, lambda _: 0)
    assert one.quota_violations == 1


def test_a_cohort_is_bounded_by_its_quotas_together_and_other_teams_by_none() -> None:
    one = audit(team("a", 8, "c"), team("b", 8, "c"), team("d", 4))
    one.launched(job("a/x"), 16, lambda _: 0)
    one.launched(job("free/x"), 99, lambda _: 0)
    one.launched(job("d/x"), 4, lambda _: 0)
    assert one.quota_violations == 0
    one.launched(job("b/x"), 1, lambda _: 0)
    assert one.quota_violations == 1


def test_what_an_open_window_keeps_counts_as_held() -> None:
    one = audit(team("a", 8))
    one.launched(job("a/x"), 4, lambda members: 4 if "a" in members else 0)
    assert one.quota_violations == 0
    one.launched(job("a/y"), 1, lambda members: 4 if "a" in members else 0)
    assert one.quota_violations == 1


def test_time_counts_as_stuck_only_while_the_next_job_is() -> None:
    one = audit()
    one.passed(5)
    one.is_stuck = True
    one.passed(7)
    assert one.stuck_s == 7


@pytest.mark.parametrize(
    ("gpus", "free_on", "expected"),
    [
        (4, (2, 2), True),
        (4, (4, 0), False),
        (4, (3, 0), False),  # not enough of them: it is not the nodes
        (12, (8, 4), False),
        (12, (6, 6), True),
        (12, (8, 2, 2), True),
        (12, (8, 8), False),
        (16, (8, 7, 7), True),
        (0, (8,), False),
    ],
)
def test_a_gang_is_stuck_where_its_gpus_are_free_on_the_wrong_nodes(
    gpus: int, free_on: Sequence[int], expected: bool
) -> None:
    assert is_stuck(gpus, free_on, (), 8) is expected


def test_a_closed_node_holds_nothing() -> None:
    assert not is_stuck(8, (8, 4), {0}, 8)
    assert is_stuck(8, (8, 4, 4), {0}, 8)


def test_headway_is_measured_stuck_while_halves_are_free_and_a_whole_node_is_wanted() -> None:
    jobs = (
        ask("a", 0, 6, 2 * HOUR_S, preemptible=False),
        ask("b", 0, 6, HOUR_S, preemptible=False),
        ask("pair", 60, 4, HOUR_S, preemptible=False),
    )
    played = play_headway(
        jobs,
        paper_cluster(2, 8),
        gpus_per_node=8,
        tor_size=None,
        costs=Costs.times(1),
        policy=Policy(),
        quotas={"a": 16},
        check_every=1,
    )
    said = figures(played)
    assert said["stuck_by_node"] == pytest.approx(1.0, abs=0.01)
    assert said["quota_violations"] == 0


def test_a_launch_the_quota_does_not_allow_is_counted_whoever_decided_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The world counts by the teams it was made with; its planner is told of larger quotas."""
    made = OverlayWorld.observe

    def lied_to(world: OverlayWorld) -> object:
        world.teams = {name: team(name, 100) for name in world.teams}
        return made(world)

    monkeypatch.setattr(OverlayWorld, "observe", lied_to)
    played = play_headway(
        tuple(ask(f"j{n}", 0, 4, HOUR_S, preemptible=False) for n in range(3)),
        paper_cluster(2, 8),
        gpus_per_node=8,
        tor_size=None,
        costs=Costs.times(1),
        policy=Policy(),
        quotas={"a": 8},
        check_every=1,
    )
    assert figures(played)["quota_violations"] == 1
