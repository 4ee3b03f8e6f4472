"""What teams used lately, and what that does to their jobs' places in the order."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.plan import PlannerState, Used
from reconciler.domain.policy import FairUse
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import Instant, Seconds, TeamName
from reconciler.planning.books import open_books
from reconciler.planning.explain import explain
from reconciler.planning.fair_use import Factors, factor_of, factors, used_after
from reconciler.planning.plan import plan
from reconciler.planning.shapes import Shapes
from reconciler.planning.statuses import next_statuses
from reconciler.snapshots.plain import plain, restore
from tests.builders import a_snapshot
from tests.values import NOW, a_job_id

DAY = 86_400
WEEK = FairUse(half_life_s=Seconds(7 * DAY))
HEAVY, LIGHT = TeamName("heavy"), TeamName("light")


def a_fleet(*, used: dict[str, int] | None = None, order: str = "value", **world: Any) -> Snapshot:
    """A fleet that counts fair use; ``used`` is what teams used, in GPU-seconds, just now."""
    snapshot = a_snapshot(
        **{"nodes": {"n1": 8}, "policy": {"order": order, "fair_use": WEEK}, **world}
    )
    known = {TeamName(team): Used(gpu_seconds=s, at=NOW) for team, s in (used or {}).items()}
    return replace(snapshot, planner_state=PlannerState(used=known))


def found(snapshot: Snapshot) -> Factors:
    books = open_books(snapshot, Shapes(snapshot.cluster, None))
    return factors(snapshot, used_after(snapshot, books.ended), books.live)


def test_a_team_that_used_nothing_goes_up_and_one_that_used_all_goes_down() -> None:
    factor = found(a_fleet(used={"heavy": 10_000}, teams={"heavy": {}, "light": {}}))

    assert (factor_of("heavy", factor), factor_of("light", factor)) == (0.5, 2.0)
    assert factor_of("unheard-of", factor) == 2.0


def test_teams_that_used_their_shares_stay_where_they_are() -> None:
    teams = {"heavy": {"quota": {"*": 12}}, "light": {"quota": {"*": 4}}}

    factor = found(a_fleet(used={"heavy": 30_000, "light": 10_000}, teams=teams))

    assert (factor_of("heavy", factor), factor_of("light", factor)) == (1.0, 1.0)


def test_use_counts_half_after_a_half_life() -> None:
    old = Used(gpu_seconds=20_000, at=Instant(NOW - 7 * DAY))
    new = Used(gpu_seconds=10_000, at=NOW)
    snapshot = a_fleet(teams={"heavy": {}, "light": {}})

    factor = found(replace(snapshot, planner_state=PlannerState(used={HEAVY: old, LIGHT: new})))

    assert factor_of("heavy", factor) == factor_of("light", factor) == 1.0


def test_what_runs_counts_without_being_recorded() -> None:
    factor = found(
        a_fleet(running={"heavy/a": {"gpus": 4, "ran": "1h"}}, teams={"heavy": {}, "light": {}})
    )

    assert (factor_of("heavy", factor), factor_of("light", factor)) == (0.5, 2.0)


def test_an_attempt_that_ended_is_remembered_with_its_end() -> None:
    snapshot = a_fleet(
        running={"heavy/a": {"gpus": 4, "ran": "1h", "seen": "ended", "outcome": "succeeded"}},
        used={"light": 77},
    )

    planned, _ = plan(snapshot)

    state = planned.planner_state.used
    assert state[LIGHT] == Used(gpu_seconds=77, at=NOW)
    assert state[HEAVY].at == NOW
    assert state[HEAVY].gpu_seconds == pytest.approx(4 * 3600, rel=0.01)
    assert next_statuses(snapshot, planned).changed


@pytest.mark.parametrize("order", ["score", "value"])
def test_the_team_that_used_less_goes_first(order: str) -> None:
    """Without fair use the other job would: it came first."""
    world: dict[str, Any] = {
        "order": order,
        "pending": {
            "heavy/first": {"gpus": 8, "submitted_ago": "20m", "estimate": "1h"},
            "light/second": {"gpus": 8, "submitted_ago": "5m", "estimate": "1h"},
        },
    }

    fair, _ = plan(a_fleet(used={"heavy": 10_000}, **world))
    unused, _ = plan(a_fleet(**world))

    first, second = a_job_id("heavy/first"), a_job_id("light/second")
    assert (fair.decisions[second].rank, fair.decisions[first].rank) == (1, 2)
    assert (unused.decisions[first].rank, unused.decisions[second].rank) == (1, 2)


@pytest.mark.parametrize("order", ["score", "value"])
def test_where_all_jobs_are_of_one_team_nothing_moves(order: str) -> None:
    world: dict[str, Any] = {
        "running": {"long": {"gpus": 4, "ran": "5h", "estimate": "3d"}},
        "pending": {
            name: {"gpus": gpus, "estimate": estimate}
            for name, gpus, estimate in (("a", 8, "1m"), ("b", 2, "5h"), ("c", 4, "10m"))
        },
    }

    counted, _ = plan(a_fleet(order=order, teams={"research": {}, "idle": {}}, **world))
    plain, _ = plan(a_snapshot(nodes={"n1": 8}, policy={"order": order}, **world))

    def told(planned: Any) -> list[Any]:
        return [
            (d.job, d.verb, d.reason, d.victims, d.attempt, d.rank)
            for d in planned.decisions.values()
        ]

    assert told(counted) == told(plain)


def test_fair_use_stops_nobody() -> None:
    """By their rates alone the waiting job may not stop the running one, however much that
    team used."""
    snapshot = a_fleet(
        running={"heavy/runs": {"gpus": 8, "ran": "2h", "estimate": "4h"}},
        pending={"light/waits": {"gpus": 8, "estimate": "90m"}},
        used={"heavy": 10**9},
    )

    planned, _ = plan(snapshot)

    assert planned.decisions[a_job_id("heavy/runs")].verb.value == "keep"


def test_why_says_what_a_team_used() -> None:
    snapshot = a_fleet(
        running={"heavy/runs": {"gpus": 8, "ran": "2h"}},
        pending={"light/waits": {"gpus": 8}},
        teams={"heavy": {}, "light": {}},
    )
    planned, _ = plan(snapshot)

    said = explain(snapshot, planned, a_job_id("light/waits"))

    check = next(check for check in said.checks if check.name == "fair use")
    assert check.words == (
        "team light used 0% of the fleet lately (half life 7 d), its share is 50%: its jobs go up,"
        " score x 2.00"
    )
    assert said.score is not None
    assert said.score.total == pytest.approx(planned.decisions[a_job_id("light/waits")].score)


def test_a_policy_that_counts_no_use_remembers_none() -> None:
    snapshot = a_snapshot(
        nodes={"n1": 8},
        running={"a": {"gpus": 4, "ran": "1h", "seen": "ended", "outcome": "succeeded"}},
    )

    assert plan(snapshot)[0].planner_state.used == {}


def test_what_is_remembered_comes_back_from_its_recorded_form() -> None:
    state = PlannerState(used={HEAVY: Used(gpu_seconds=12, at=NOW)})

    assert restore(PlannerState, plain(state)) == state
