"""What a budget has used and promised, to the GPU-second, and who waits for more."""

from dataclasses import replace
from typing import Any

from reconciler.domain.attempt import AttemptPhase
from reconciler.domain.budget import BudgetUse
from reconciler.domain.reason import Reason
from reconciler.domain.reservation import Occurrence, ReservationPhase
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import Instant
from reconciler.planning.bounds import most_gpus, own_bound_gpu_s
from reconciler.planning.budget import (
    hours,
    idle_in,
    spent_after,
    spent_key,
)
from reconciler.planning.plan import plan
from reconciler.planning.standing import standings
from tests.builders import a_snapshot
from tests.values import NOW, a_spec

HOUR = 3600


def use(**given: Any) -> BudgetUse:
    return plan(a_snapshot(**given))[0].budgets[0]


def test_what_runs_is_counted_so_far_and_its_bound_is_promised() -> None:
    found = use(
        budgets={"q4": {"limit": 100, "used": 10}},
        running={"train": {"gpus": 4, "ran": "2h", "limit": "5h", "grace": "2m",
                           "budget_group": "q4"}},
    )  # fmt: skip

    assert found.used_gpu_s == 10 * HOUR
    assert found.running_gpu_s == 4 * 2 * HOUR
    assert found.committed_gpu_s == 4 * (3 * HOUR + 120)  # its limit, and its grace
    assert found.left_gpu_s == 100 * HOUR - 10 * HOUR - 4 * 5 * HOUR - 480


def test_the_least_of_its_own_bounds_counts() -> None:
    spec = a_spec("job", gpus=2, limit="10h", max_gpu_hours=5.0)

    assert own_bound_gpu_s(spec, 2, ran_s=0, used_gpu_s=0) == 5 * HOUR
    assert own_bound_gpu_s(spec, 2, ran_s=9 * HOUR, used_gpu_s=HOUR) == 2 * HOUR
    assert own_bound_gpu_s(spec, 2, ran_s=11 * HOUR, used_gpu_s=0) == 0
    assert own_bound_gpu_s(a_spec("job"), 1, ran_s=0, used_gpu_s=0) is None


def test_a_job_without_a_bound_is_promised_its_p90() -> None:
    found = use(
        budgets={"q4": {"limit": 100}},
        pending={"job": {"gpus": 2, "estimate": "2h", "budget_group": "q4"}},
    )

    assert found.committed_gpu_s == 2 * 3 * HOUR


def test_only_what_lies_in_the_period_counts() -> None:
    found = use(
        budgets={"q4": {"limit": 100, "ends_in": "1h"}},
        running={"train": {"gpus": 4, "ran": "1h", "limit": "50h", "budget_group": "q4"}},
        reservations={
            "demo": {"gpus": 2, "start_in": "30m", "duration": "10h", "budget": "q4",
                     "booked": {"n1": [6, 7]}}
        },
    )  # fmt: skip

    assert found.committed_gpu_s == 4 * HOUR + 2 * HOUR // 2


def test_promises_are_made_by_class_then_submission_and_never_overrun_together() -> None:
    planned, _ = plan(
        a_snapshot(
            budgets={"q4": {"limit": 20}},
            pending={
                "old": {"gpus": 1, "limit": "9h", "budget_group": "q4", "submitted_ago": "3h"},
                "new": {"gpus": 1, "limit": "9h", "budget_group": "q4", "submitted_ago": "1h"},
                "urgent": {"gpus": 1, "limit": "9h", "budget_group": "q4", "priority": "P1"},
            },
        )
    )

    reasons = {job: decision.reason for job, decision in planned.decisions.items()}
    assert reasons == {
        "research/urgent": Reason.GPUS_FREE,
        "research/old": Reason.GPUS_FREE,
        "research/new": Reason.BUDGET_EXCEEDED,
    }
    assert planned.decisions["research/new"].detail == (
        "budget q4: 18.1 used and promised, this asks for 9, of 20 GPU-hours"
    )


def test_a_job_that_waits_for_its_budget_is_expected_when_the_period_turns() -> None:
    planned, _ = plan(
        a_snapshot(
            budgets={"q4": {"limit": 20, "used": 19, "ends_in": "30h"}},
            pending={"job": {"gpus": 1, "limit": "9h", "budget_group": "q4"}},
        )
    )

    assert planned.forecast["research/job"].start_p50 == NOW + 30 * HOUR


def test_a_job_in_a_window_of_its_budget_is_not_paid_twice() -> None:
    given: dict[str, Any] = {
        "budgets": {"q4": {"limit": 41}},
        "pending": {"inside": {"gpus": 4, "limit": "9h", "budget_group": "q4"}},
        "reservations": {
            "demo": {"gpus": 4, "started_ago": "0s", "duration": "10h", "budget": "q4",
                     "for": ["inside"], "booked": {"n1": [0, 1, 2, 3]}, "phase": "active",
                     "idle_gpus": 4}
        },
    }  # fmt: skip
    planned, _ = plan(a_snapshot(**given))

    assert planned.decisions["research/inside"].reason is Reason.GPUS_FREE
    assert planned.budgets[0].committed_gpu_s == 40 * HOUR


def an_ended(snapshot: Snapshot) -> Snapshot:
    seen = {
        attempt: replace(each, state=type(each.state)("ended"), exit_status=1, ended_at=NOW)
        for attempt, each in snapshot.observations.items()
    }
    return replace(snapshot, observations=seen)


def test_an_attempt_is_charged_when_it_ends_to_both_sides_of_a_turn() -> None:
    snapshot = an_ended(
        a_snapshot(
            budgets={"q4": {"limit": 100, "ends_in": "10d", "used": 1}},
            running={"train": {"gpus": 4, "ran": "2h", "budget_group": "q4"}},
        )
    )
    jobs = {job: each for job, each in standings(snapshot).items() if each.has_ended}
    key = spent_key("q4", snapshot.budgets["q4"].periods[0])

    assert spent_after(snapshot, jobs)[key] == HOUR + 4 * 2 * HOUR
    planned, _ = plan(snapshot)
    assert planned.planner_state.spent[key] == HOUR + 4 * 2 * HOUR
    assert jobs["research/train"].attempt is not None
    assert jobs["research/train"].attempt.phase is AttemptPhase.FAILED


def test_a_budget_that_was_lowered_below_its_use_starts_nothing_new() -> None:
    planned, _ = plan(
        a_snapshot(
            budgets={"q4": {"limit": 5}},
            running={"train": {"gpus": 4, "ran": "2h", "limit": "5h", "budget_group": "q4"}},
            pending={"job": {"gpus": 1, "limit": "1h", "budget_group": "q4"}},
        )
    )

    assert planned.budgets[0].left_gpu_s < 0
    assert planned.decisions["research/job"].reason is Reason.BUDGET_EXCEEDED
    assert planned.decisions["research/train"].reason is Reason.RUNS


def test_idle_time_is_shared_evenly_over_a_turn() -> None:
    period = a_snapshot(budgets={"q4": {"limit": 1, "ends_in": "2h"}}).budgets["q4"].periods[0]
    over = Occurrence(
        start=Instant(NOW - 2 * HOUR),
        end=Instant(NOW + 6 * HOUR),
        phase=ReservationPhase.ENDED,
        reason=Reason.RESERVATION_OVER,
        idle_gpu_s=8000,
    )

    assert idle_in(over, period, Instant(NOW + 6 * HOUR)) == 4000


def test_hours_are_told_with_a_decimal_where_there_is_one() -> None:
    assert (hours(200 * HOUR), hours(5400)) == ("200", "1.5")


def test_an_elastic_job_is_promised_what_its_largest_gang_may_use() -> None:
    spec = a_spec("job", gpus=2, limit="2h", elastic=(1, 4))

    assert most_gpus(spec) == 4
    assert own_bound_gpu_s(spec, most_gpus(spec), ran_s=HOUR, used_gpu_s=0) == 4 * HOUR
