from dataclasses import replace

import pytest

from reconciler.domain.job import PendingJob, PriorityClass
from reconciler.domain.policy import Policy, ScoreWeights
from reconciler.domain.units import Instant, Seconds, TeamName
from reconciler.planning.priority import (
    brevity_share,
    class_share,
    deadline_share,
    is_urgent,
    presses,
    rank_instant,
    rank_key,
    score,
    slack,
)
from tests.values import NOW, a_spec, a_team

HOUR = 3600


def pending(remaining_s: int = HOUR, submitted_at: int = NOW, **spec: object) -> PendingJob:
    return PendingJob(
        spec=a_spec(**spec),  # type: ignore[arg-type]
        submitted_at=Instant(submitted_at),
        remaining_s=Seconds(remaining_s),
        remaining_p90_s=Seconds(remaining_s),
    )


def parts_of(job: PendingJob, heat: dict[str, float] | None = None) -> dict[str, float]:
    found = score(job, now=NOW, weights=ScoreWeights(), heat=heat or {})
    return {name: getattr(found, name) for name in found.__slots__} | {"total": found.total}


def test_the_five_weights_are_those_of_the_mission() -> None:
    best = pending(remaining_s=0, priority="P0", serves_online=True, model="hot", deadline_in=0)

    assert parts_of(best, {"hot": 1.0}) == pytest.approx(
        {
            "priority_class": 0.30,
            "deadline": 0.25,
            "serves_online": 0.20,
            "model_heat": 0.15,
            "brevity": 0.10,
            "favour": 1.0,
            "total": 1.0,
        }
    )


def test_the_worst_job_scores_nothing() -> None:
    assert parts_of(pending(remaining_s=48 * HOUR, priority="P4"))["total"] == 0.0


@pytest.mark.parametrize(
    ("priority", "share"), [("P0", 1.0), ("P1", 0.75), ("P2", 0.5), ("P3", 0.25), ("P4", 0.0)]
)
def test_classes_are_even_steps(priority: str, share: float) -> None:
    assert class_share(PriorityClass[priority]) == share


def test_slack_is_deadline_minus_now_minus_remaining_time() -> None:
    assert slack(pending(remaining_s=HOUR, deadline_in="3h"), now=NOW) == 2 * HOUR
    assert slack(pending(), now=NOW) is None


def test_the_deadline_share_doubles_under_two_hours_of_slack() -> None:
    just_over = pending(remaining_s=HOUR, deadline_in="3h")
    just_under = pending(remaining_s=HOUR + 1, deadline_in="3h")

    assert deadline_share(just_over, now=NOW) == pytest.approx(0.5 * (1 - 2 / 24))
    assert deadline_share(just_under, now=NOW) == pytest.approx(1 - 2 / 24, abs=1e-3)


def test_a_missed_deadline_is_as_urgent_as_can_be_and_no_more() -> None:
    assert deadline_share(pending(remaining_s=9 * HOUR, deadline_in="1h"), now=NOW) == 1.0


def test_a_deadline_more_than_a_day_away_is_not_urgent() -> None:
    assert deadline_share(pending(deadline_in="3d"), now=NOW) == 0.0


def test_brevity_fades_over_a_day() -> None:
    assert brevity_share(Seconds(0)) == 1.0
    assert brevity_share(Seconds(12 * HOUR)) == 0.5
    assert brevity_share(Seconds(100 * HOUR)) == 0.0


def test_heat_outside_of_its_range_is_cut() -> None:
    assert parts_of(pending(model="m"), {"m": 7.0})["model_heat"] == pytest.approx(0.15)
    assert parts_of(pending(model="m"), {"m": -1.0})["model_heat"] == 0.0


def test_only_a_p0_with_a_tight_deadline_is_urgent() -> None:
    assert is_urgent(pending(priority="P0", deadline_in="2h"), now=NOW)
    assert not is_urgent(pending(priority="P0", deadline_in="9h"), now=NOW)
    assert not is_urgent(pending(priority="P0"), now=NOW)
    assert not is_urgent(pending(priority="P1", deadline_in="2h"), now=NOW)


@pytest.mark.parametrize(
    ("deadline_in", "waited_s", "says"),
    [
        pytest.param("3h", 2 * HOUR - 1, False, id="more than half of the slack is left"),
        pytest.param("3h", 2 * HOUR, True, id="half of it is gone"),
        pytest.param("1h", HOUR, True, id="it has to start now"),
        pytest.param("59m", HOUR, False, id="it is too late"),
        pytest.param(None, HOUR, False, id="there is no deadline"),
    ],
)
def test_a_deadline_presses_once_half_of_the_slack_is_gone(
    deadline_in: str | None, waited_s: int, says: bool
) -> None:
    job = pending(remaining_s=HOUR, deadline_in=deadline_in)
    assert presses(job, delay_s=waited_s, now=NOW) is says


def test_ranks_use_now_rounded_down() -> None:
    policy = Policy()

    assert rank_instant(Instant(NOW + 119), policy) == NOW
    assert rank_instant(Instant(NOW + 120), policy) == NOW + 120


def test_a_teams_own_weights_count_for_its_jobs_alone() -> None:
    only_class = {
        "priority_class": 1.0,
        "deadline": 0.0,
        "serves_online": 0.0,
        "model_heat": 0.0,
        "brevity": 0.0,
    }
    teams = {TeamName("research"): a_team(weights=only_class)}
    mine = rank_key(pending(priority="P0"), now=NOW, policy=Policy(), teams=teams)
    theirs = rank_key(
        pending(name="vision/job", priority="P0"), now=NOW, policy=Policy(), teams=teams
    )

    assert mine[1] == -1.0
    assert theirs[1] > -1.0


def test_ties_go_by_submission_then_by_job() -> None:
    jobs = [
        pending(name="c", submitted_at=NOW - 5),
        pending(name="b", submitted_at=NOW - 9),
        pending(name="a", submitted_at=NOW - 5),
    ]

    ranked = sorted(jobs, key=lambda job: rank_key(job, now=NOW, policy=Policy(), teams={}))

    assert [job.spec.name for job in ranked] == ["b", "a", "c"]


def test_weights_that_do_not_sum_to_one_are_refused() -> None:
    with pytest.raises(ValueError, match="sum to 1"):
        replace(ScoreWeights(), brevity=0.5)
