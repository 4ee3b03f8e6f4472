"""Figures worked out by hand."""

import pytest

from reconciler.simulate.baselines.ordered import Fifo
from reconciler.simulate.metrics import figures, percentile
from reconciler.simulate.outcome import HeldReservation, Integrals, JobOutcome, Played, Stay
from tests.unit.simulate.paper import ask, played


def outcome(
    name: str, submit: int, duration: int, start: float, end: float, **more: object
) -> JobOutcome:
    return JobOutcome(ask=ask(name, submit, 4, duration, **more), first_start_s=start, ended_s=end)


def run(*outcomes: JobOutcome, **more: object) -> Played:
    return Played(
        policy="hand",
        gpus=8,
        nodes=1,
        outcomes=outcomes,
        stays=(),
        integrals=Integrals(),
        **more,  # type: ignore[arg-type]
    )


def test_wait_counts_what_stopping_and_restarting_cost_too() -> None:
    said = figures(run(outcome("stopped", 0, 1000, 0, 1600)))
    assert (said["wait_mean_s"], said["first_start_wait_mean_s"]) == (600, 0)


def test_wait_is_never_below_zero_for_a_job() -> None:
    said = figures(run(outcome("grew", 0, 1000, 0, 700), outcome("waited", 0, 1000, 300, 1300)))
    assert said["wait_mean_s"] == 150


def test_percentiles_are_nearest_rank() -> None:
    assert [percentile([4, 1, 3, 2], share) for share in (0.5, 0.75, 0.95, 0.99)] == [2, 3, 4, 4]
    assert percentile([], 0.5) == 0


def test_slowdown_counts_short_jobs_as_ten_minutes() -> None:
    said = figures(run(outcome("short", 0, 6, 594, 600), outcome("long", 0, 1200, 1200, 2400)))
    assert said["bounded_slowdown_mean"] == pytest.approx((1 + 2) / 2)


def test_utilisation_ends_with_the_last_submission() -> None:
    stays = (Stay(job=0, gpus=8, began_s=0, ended_s=500, nodes=((0, 8),)),)
    said = figures(
        Played(
            policy="hand",
            gpus=8,
            nodes=1,
            outcomes=(outcome("first", 0, 500, 0, 500), outcome("last", 250, 100, 500, 600)),
            stays=stays,
            integrals=Integrals(queued_s=250, idle_gpu_s=500, stuck_s=25),
        )
    )
    assert said["utilisation_in_window"] == 1.0
    assert said["idle_while_queued"] == 0.25
    assert said["stuck_by_node"] == 0.1
    assert said["makespan_s"] == 600


def test_a_deadline_counts_only_where_the_teams_quota_could_meet_it() -> None:
    met = outcome("met", 0, 100, 0, 100, deadline_s=150)
    missed = outcome("missed", 0, 100, 100, 200, deadline_s=150)
    hopeless = outcome("hopeless", 0, 100, 0, 100, deadline_s=50)
    too_wide = outcome("too wide", 0, 100, 0, 100, deadline_s=150, team="small")
    said = figures(run(met, missed, hopeless, too_wide), quotas={"a": 8, "small": 2})
    assert (said["deadlines"], said["deadlines_feasible"]) == (4, 2)
    assert said["deadline_hit_rate"] == 0.5


def test_a_refused_job_waits_until_all_is_over_and_meets_no_deadline() -> None:
    served = outcome("served", 0, 100, 0, 1000, deadline_s=1000)
    refused = JobOutcome(
        ask=ask("refused", 200, 4, 100, deadline_s=900), first_start_s=0, ended_s=0, done=False
    )
    said = figures(run(served, refused))
    assert (said["jobs"], said["jobs_done"]) == (2, 1)
    assert said["wait_mean_s"] == (900 + 800) / 2
    assert said["jct_mean_s"] == (1000 + 800) / 2
    assert said["deadline_hit_rate"] == 0.5


def test_a_refused_reservation_is_not_a_kept_promise() -> None:
    def held(name: str, **more: object) -> HeldReservation:
        return HeldReservation(id=name, team="a", nodes=1, start_s=100, end_s=200, **more)  # type: ignore[arg-type]

    said = figures(
        run(
            reservations=(
                held("kept", accepted=True, ready_s=130.0),
                held("late", accepted=True, ready_s=400.0),
                held("refused", accepted=False),
                held("impossible", accepted=False, was_possible=False),
            )
        )
    )
    assert said["reservations_on_time"] == pytest.approx(1 / 3)
    assert (said["reservations_asked"], said["reservations_accepted"]) == (4, 2)
    assert said["reservation_start_error_max_s"] == 300


def test_the_urgent_are_judged_by_their_first_start() -> None:
    said = figures(
        run(
            outcome("urgent", 0, 100, 299, 399, priority=0),
            outcome("late", 0, 100, 301, 401, priority=0),
            outcome("other", 0, 100, 5000, 5100),
        )
    )
    assert (said["p0_jobs"], said["p0_start_p95_s"], said["p0_within_5_min"]) == (2, 301, 0.5)
    assert said["wait_mean_s_by_class"] == {"P0": 300, "P2": 5000}


def test_a_fleet_that_waits_with_free_gpus_is_told_so() -> None:
    jobs = (ask("runs", 0, 6, 100), ask("wide", 0, 8, 100))
    said = figures(played(Fifo(), jobs))
    assert said["idle_while_queued"] == pytest.approx(0.25)
    assert said["bound_jct_mean_s"] is None
    assert said["gpu_hours_lost"] == 0
