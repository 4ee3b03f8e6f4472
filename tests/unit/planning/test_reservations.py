"""Windows are booked where they fit, opened in time, handed back, and refused with a way out."""

from typing import Any

import pytest

from reconciler.domain.cluster import NodeState
from reconciler.domain.reservation import ReservationDecision
from reconciler.domain.units import rfc3339
from reconciler.planning.agenda import Agenda, keep_agenda
from reconciler.planning.booking import Booking
from reconciler.planning.books import open_books
from reconciler.planning.shapes import Shapes
from reconciler.simulate.world import SimWorld
from tests.builders import a_snapshot
from tests.calendars import a_reservation
from tests.values import NOW, a_cluster, a_job_id, a_policy


def agenda(**given: Any) -> Agenda:
    snapshot = a_snapshot(**given)
    shapes = Shapes(snapshot.cluster, None)
    return keep_agenda(snapshot, shapes, open_books(snapshot, shapes))


def only(**given: Any) -> ReservationDecision:
    decisions = agenda(**given).calendar.decisions
    assert len(decisions) == 1, decisions
    return decisions[0]


def told(decision: ReservationDecision) -> str:
    return f"{decision.verb.value}, {decision.reason.value}"


def hours_until(decision: ReservationDecision) -> list[tuple[float, float | None]]:
    return [
        ((w.first - NOW) / 3600, None if w.last is None else (w.last - NOW) / 3600)
        for w in decision.occurrence.windows
    ]


def test_a_reservation_on_free_gpus_is_booked() -> None:
    booked = only(reservations={"demo": {"gpus": 4, "start_in": "3h", "duration": "72h"}})

    assert told(booked) == "book, window_free"
    assert booked.occurrence.devices is not None
    assert booked.occurrence.devices.gpus == 4
    assert rfc3339(booked.occurrence.start) == "2026-03-02T12:00:00Z"


def test_one_that_does_not_fit_is_told_the_earliest_start_there_is() -> None:
    """The scene: four cards for 72 hours, all of them taken for three hours yet."""
    refused = only(
        nodes={"n1": 4},
        running={
            "train": {"gpus": 4, "preemptible": False, "limit": "5h", "estimate": "5h", "ran": "2h"}
        },
        reservations={"demo": {"gpus": 4, "start_in": "1h", "duration": "72h"}},
    )

    assert told(refused) == "refuse, window_taken"
    assert hours_until(refused) == [(3 + 150 / 3600, None)]  # its limit, grace, a kill's margin


def test_a_gap_between_two_windows_is_offered_with_its_last_start() -> None:
    refused = only(
        nodes={"n1": 4},
        reservations={
            "one": {"gpus": 4, "start_in": "1h", "duration": "1h", "booked": {"n1": [0, 1, 2, 3]}},
            "two": {"gpus": 4, "start_in": "6h", "duration": "1h", "booked": {"n1": [0, 1, 2, 3]}},
            "asked": {"gpus": 4, "start_in": "30m", "duration": "1h"},
        },
    )

    assert told(refused) == "refuse, window_taken"
    assert hours_until(refused) == [(0.0, 0.0), (2.0, 5.0), (7.0, None)]


def test_work_that_can_checkpoint_is_no_obstacle() -> None:
    booked = only(
        nodes={"n1": 4},
        running={"sweep": {"gpus": 4, "estimate": "100h"}},
        reservations={"demo": {"gpus": 4, "start_in": "1h"}},
    )

    assert told(booked) == "book, window_free"


def test_devices_that_nobody_has_to_leave_are_taken_first() -> None:
    booked = only(
        nodes={"n1": 4, "n2": 4},
        running={"sweep": {"gpus": 4, "estimate": "100h", "node": "n1"}},
        reservations={"demo": {"gpus": 4, "start_in": "1h"}},
    )

    assert booked.occurrence.devices is not None
    assert [share.node for share in booked.occurrence.devices.shares] == ["n2"]


def test_two_reservations_never_share_a_device() -> None:
    calendar = agenda(
        nodes={"n1": 8},
        reservations={
            "one": {"gpus": 4, "start_in": "2h"},
            "two": {"gpus": 4, "start_in": "1h"},
            "three": {"gpus": 1, "start_in": "3h"},
        },
    ).calendar

    assert [(d.reservation, told(d)) for d in calendar.decisions] == [
        ("research/one", "book, window_free"),
        ("research/three", "refuse, window_taken"),
        ("research/two", "book, window_free"),
    ]
    first, second = calendar.windows
    assert first.devices & second.devices == 0


def test_a_later_reservation_takes_nothing_from_a_booked_one() -> None:
    calendar = agenda(
        nodes={"n1": 4},
        reservations={
            "mine": {"gpus": 4, "start_in": "5h", "booked": {"n1": [0, 1, 2, 3]}},
            "a-later-one": {"gpus": 4, "start_in": "1h", "duration": "6h"},
        },
    ).calendar

    assert [(d.reservation, told(d)) for d in calendar.decisions] == [
        ("research/a-later-one", "refuse, window_taken")
    ]
    assert [window.reservation for window in calendar.windows] == ["research/mine"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"reservations": {"demo": {"gpus": 9, "start_in": "1h"}}}, "refuse, never_fits"),
        (
            {
                "teams": {"research": {"quota": {"*": 2}}},
                "reservations": {"demo": {"gpus": 4, "start_in": "1h"}},
            },
            "refuse, quota_exceeded",
        ),
        (
            {
                "budgets": {"q4": {"limit": 200, "used": 190}},
                "reservations": {"demo": {"gpus": 4, "start_in": "1h", "budget": "q4"}},
            },
            "refuse, budget_exceeded",
        ),
        (
            {"reservations": {"demo": {"gpus": 4, "started_ago": "9h"}}},
            "refuse, window_past",
        ),
    ],
)
def test_it_is_refused_for_what_it_lacks(given: dict[str, Any], said: str) -> None:
    assert told(only(**given)) == said


def test_a_budget_refusal_has_figures_and_offers_the_next_period() -> None:
    refused = only(
        budgets={"q4": {"limit": 200, "used": 190.5, "ends_in": "10d"}},
        reservations={"demo": {"gpus": 4, "start_in": "1h", "duration": "8h", "budget": "q4"}},
    )

    assert refused.detail == (
        "budget q4: 190.5 used and promised, this asks for 32, of 200 GPU-hours"
    )
    first, _ = hours_until(refused)[0]
    assert 240 - 8 < first <= 240  # only what reaches into the old period counts there


def test_quota_counts_windows_and_what_the_team_still_runs_then() -> None:
    refused = only(
        nodes={"n1": 8},
        teams={"research": {"quota": {"*": 6}}},
        running={"train": {"gpus": 4, "estimate": "5h", "ran": "1h"}},
        reservations={"demo": {"gpus": 4, "start_in": "1h", "duration": "2h"}},
    )

    assert told(refused) == "refuse, quota_exceeded"
    assert refused.detail == "team research then holds 4 of 6 GPUs; this asks for 4"
    assert hours_until(refused)[0][0] == 4.0


def test_a_team_of_a_cohort_reserves_its_own_quota_whatever_its_jobs_borrow() -> None:
    """What runs beside the window was lent and can be claimed back; windows cannot."""
    teams = {
        "research": {"quota": {"*": 8}, "cohort": "models"},
        "vision": {"quota": {"*": 8}, "cohort": "models"},
    }
    within = {"gpus": 8, "start_in": "3h", "duration": "1h"}
    decisions = agenda(
        nodes={"n1": 8, "n2": 8},
        teams=teams,
        running={"borrows": {"gpus": 8, "node": "n1", "estimate": "20h"}},
        reservations={"a": within, "b": {**within, "gpus": 1, "start_in": "210m"}},
    ).calendar.decisions

    assert [told(decision) for decision in decisions] == [
        "book, window_free",
        "refuse, quota_exceeded",
    ]
    assert decisions[1].occurrence.message.startswith("team research then reserves 8 of 8 GPUs")


def test_windows_and_jobs_of_a_cohort_stay_within_its_quotas_together() -> None:
    refused = only(
        nodes={"n1": 8, "n2": 8},
        teams={
            "research": {"quota": {"*": 8}, "cohort": "models"},
            "vision": {"quota": {"*": 2}, "cohort": "models"},
        },
        running={"vision/long": {"gpus": 4, "node": "n1", "estimate": "20h"}},
        reservations={"a": {"gpus": 8, "start_in": "3h", "duration": "1h"}},
    )

    assert told(refused) == "refuse, quota_exceeded"
    assert "cohort models then holds 4 of 10 GPUs; this asks for 8" in refused.occurrence.message


def test_an_occurrence_opens_at_its_start() -> None:
    opened = only(
        reservations={"demo": {"gpus": 4, "started_ago": "0s", "booked": {"n1": [0, 1, 2, 3]}}}
    )

    assert told(opened) == "open, reservation_starts"
    assert opened.occurrence.idle_gpus == 4


def test_an_idle_one_is_handed_back() -> None:
    released = only(
        reservations={
            "demo": {
                "gpus": 4,
                "started_ago": "1h",
                "booked": {"n1": [0, 1, 2, 3]},
                "phase": "active",
                "idle_gpus": 4,
                "idle_for": "30m",
                "release_if_idle": "30m",
            }
        }
    )

    assert told(released) == "release, reservation_idle"
    assert released.occurrence.idle_gpu_s == 4 * 1800


def test_one_that_is_used_is_not_handed_back() -> None:
    calendar = agenda(
        running={"train": {"gpus": 1, "ran": "1h"}},
        reservations={
            "demo": {
                "gpus": 4,
                "started_ago": "1h",
                "booked": {"n1": [0, 1, 2, 3]},
                "phase": "active",
                "idle_gpus": 3,
                "idle_for": "50m",
                "release_if_idle": "30m",
            }
        },
    ).calendar

    assert calendar.decisions == ()


def test_it_ends_at_its_end() -> None:
    closed = only(
        reservations={
            "demo": {
                "gpus": 4,
                "started_ago": "8h",
                "duration": "8h",
                "booked": {"n1": [0, 1, 2, 3]},
                "phase": "active",
                "idle_gpus": 4,
                "idle_for": "2h",
            }
        }
    )

    assert told(closed) == "close, reservation_over"
    assert closed.occurrence.idle_gpu_s == 4 * 7200


def test_a_deleted_file_cancels_after_the_grace() -> None:
    given = {"gpus": 4, "start_in": "3h", "booked": {"n1": [0, 1, 2, 3]}, "file": "gone"}

    early = agenda(reservations={"demo": {**given, "absent_for": "5m"}}).calendar
    late = only(reservations={"demo": {**given, "absent_for": "10m"}})

    assert early.decisions == ()
    assert told(late) == "close, file_deleted"
    assert late.occurrence.phase.value == "cancelled"


def test_an_edit_to_another_time_gives_the_old_one_up_and_books_the_new() -> None:
    calendar = agenda(
        nodes={"n1": 4},
        reservations={
            "demo": {
                "gpus": 4,
                "start_in": "3h",
                "duration": "4h",
                "edited": True,
                "booked": {"n1": [0, 1]},
            }
        },
    ).calendar

    assert [told(d) for d in calendar.decisions] == ["book, window_free"]
    assert calendar.decisions[0].occurrence.devices is not None
    assert calendar.decisions[0].occurrence.devices.gpus == 4


def test_preemptible_work_is_asked_to_leave_in_time_for_its_grace() -> None:
    def leaving(start_in: str) -> list[str]:
        found = agenda(
            running={"vision/sweep": {"gpus": 4, "grace": "10m", "estimate": "100h"}},
            reservations={
                "demo": {"gpus": 4, "start_in": start_in, "booked": {"n1": [0, 1, 2, 3]}}
            },
        ).leaving
        return [f"{job}: {d.reason.value}, {d.detail}" for job, d in found.items()]

    assert leaving("12m") == []
    assert leaving("11m") == [
        "vision/sweep: reservation_starts, makes room for reservation research/demo"
    ]


def test_work_of_the_reserving_team_may_stay() -> None:
    found = agenda(
        running={"sweep": {"gpus": 4, "estimate": "100h"}},
        reservations={"demo": {"gpus": 4, "start_in": "1m", "booked": {"n1": [0, 1, 2, 3]}}},
    )

    assert found.leaving == {}


def test_a_window_on_a_node_that_went_away_is_moved() -> None:
    moved = only(
        nodes={"n1": {"gpus": 4, "state": "down"}, "n2": 4},
        reservations={"demo": {"gpus": 4, "start_in": "30m", "booked": {"n1": [0, 1, 2, 3]}}},
    )

    assert told(moved) == "book, window_moved"
    assert moved.occurrence.devices is not None
    assert [share.node for share in moved.occurrence.devices.shares] == ["n2"]


def test_a_weekly_reservation_books_the_weeks_ahead_and_no_more_than_five() -> None:
    calendar = agenda(
        reservations={"demo": {"gpus": 4, "start_in": "1h", "duration": "2h", "weekly": 9}}
    ).calendar

    assert [told(d) for d in calendar.decisions] == ["book, window_free"] * 5


def test_a_guest_leaves_a_shared_window_when_its_holder_wants_to_start() -> None:
    given: dict[str, Any] = {
        "nodes": {"n1": 4},
        "running": {"vision/guest": {"gpus": 4, "estimate": "9h"}},
        "reservations": {
            "demo": {
                "gpus": 4,
                "started_ago": "1h",
                "booked": {"n1": [0, 1, 2, 3]},
                "phase": "active",
                "exclusive": False,
            }
        },
    }

    assert agenda(**given).leaving == {}
    assert list(agenda(**given, pending={"mine": {"gpus": 2}}).leaving) == ["vision/guest"]


def test_a_job_that_a_window_names_waits_for_it() -> None:
    found = agenda(
        pending={"demo-job": {"gpus": 4}, "other": {"gpus": 1}},
        reservations={"demo": {"gpus": 4, "start_in": "3h", "for": ["demo-job"]}},
    )

    assert {job: bar.reason.value for job, bar in found.bars.items()} == {
        "research/demo-job": "reservation_planned"
    }
    assert found.bars[a_job_id("demo-job")].until == NOW + 3 * 3600


def test_a_window_that_cannot_clear_names_who_is_in_the_way() -> None:
    blocked = only(
        nodes={"n1": {"gpus": 4, "state": "cordoned"}, "n2": 4},
        running={"stays": {"gpus": 4, "node": "n2", "preemptible": False, "limit": "9h"}},
        reservations={"demo": {"gpus": 4, "start_in": "30m", "booked": {"n1": [0, 1, 2, 3]}}},
    )

    assert told(blocked) == "book, window_blocked"
    assert blocked.occurrence.message == "not ready: n1; no other GPUs are free for it"
    assert blocked.occurrence.devices is not None


def test_other_gpus_for_a_blocked_window_are_looked_for_every_five_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cycles come every 15 seconds; a search looks at everybody who holds anything."""
    searches: list[int] = []
    made = Booking.moved

    def counting(self: Booking, *given: Any) -> Any:
        searches.append(1)
        return made(self, *given)

    monkeypatch.setattr(Booking, "moved", counting)
    world = SimWorld(a_cluster({"n1": 4}), now=NOW, policy=a_policy())
    world.main.reserve(a_reservation("demo", now=NOW, gpus=4, start_in="1h"))
    said = [d for report in world.cycles(60) for d in report.plan.reservations]
    world.set_node("n1", NodeState.CORDONED)
    said += [d for report in world.cycles(3_600) for d in report.plan.reservations]

    assert [told(decision) for decision in said] == ["book, window_free", "book, window_blocked"]
    assert 10 <= len(searches) <= 14
