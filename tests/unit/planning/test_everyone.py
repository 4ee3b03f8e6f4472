"""The forecast of everyone: quotas, cohorts, windows of reservations, names of devices."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from reconciler.domain.plan import Expectation
from reconciler.domain.policy import Order
from reconciler.domain.units import Instant, JobId, TeamName
from reconciler.planning.books import open_books
from reconciler.planning.everyone import Everyone
from reconciler.planning.forecast import forecast
from reconciler.planning.plan import plan
from reconciler.planning.shapes import Shapes
from reconciler.planning.timetable import Timetable
from reconciler.planning.windows import Window
from tests.builders import a_snapshot
from tests.values import NOW, a_job_id

HOUR = 3600


def view(**given: Any) -> Everyone:
    snapshot = a_snapshot(**given)
    shapes = Shapes(snapshot.cluster, None)
    return Timetable(snapshot, shapes, open_books(snapshot, shapes, None)).view()


def starts(expected: dict[JobId, Expectation], *names: str) -> list[int]:
    """Return the expected starts from now, in hours."""
    return [round((expected[a_job_id(name)].start_p50 - NOW) / HOUR) for name in names]


def a_window(devices: int, since_h: int, until_h: int, **told: Any) -> Window:
    return Window(
        reservation=JobId("vision/demo"),
        team=TeamName("vision"),
        devices=devices,
        start=Instant(NOW + since_h * HOUR),
        end=Instant(NOW + until_h * HOUR),
        **told,
    )


BUSY = {"busy": {"gpus": 8, "ran": "1h", "estimate": "2h", "preemptible": False}}


def with_windows(windows: Sequence[Window], **given: Any) -> dict[JobId, Expectation]:
    return forecast(replace(view(**given), windows=windows))


def test_a_stranger_waits_for_the_end_of_a_window_it_would_reach_into() -> None:
    found = with_windows(
        [a_window(0xFF, 3, 5)],
        nodes={"n1": 8},
        running=BUSY,
        pending={"short": {"gpus": 8, "estimate": "2h"}, "long": {"gpus": 8, "estimate": "3h"}},
    )

    assert starts(found, "short", "long") == [1, 5]


def test_a_member_is_planned_inside_its_window() -> None:
    found = with_windows(
        [a_window(0xFF, 3, 5, members=frozenset({JobId("vision/demo")}))],
        nodes={"n1": 8},
        running=BUSY,
        pending={
            "first": {"gpus": 8, "estimate": "10h", "priority": "P1"},
            "vision/demo": {"gpus": 8, "estimate": "3h", "priority": "P3"},
            "vision/other": {"gpus": 8, "estimate": "2h", "priority": "P3"},
        },
    )

    assert starts(found, "first", "vision/demo") == [5, 3]
    assert starts(found, "vision/other") == [1]  # gone before the window


def test_members_share_a_window_and_the_last_goes_outside() -> None:
    found = with_windows(
        [a_window(0x0F, 2, 6)],
        nodes={"n1": 8},
        running=BUSY,
        pending={
            "vision/a": {"gpus": 4, "estimate": "2h", "priority": "P1"},
            "vision/b": {"gpus": 4, "estimate": "2h", "priority": "P2"},
            "vision/c": {"gpus": 8, "estimate": "1h", "priority": "P3"},
        },
    )

    assert starts(found, "vision/a", "vision/b", "vision/c") == [1, 2, 6]


def test_a_stranger_on_the_devices_is_expected_gone_when_the_window_opens() -> None:
    window = a_window(0xFF, 1, 3, members=frozenset({JobId("vision/demo")}))
    found = with_windows(
        [window],
        nodes={"n1": 8},
        running={"busy": {"gpus": 8, "ran": "1h", "estimate": "9h"}},
        pending={"vision/demo": {"gpus": 8, "estimate": "1h"}},
    )

    assert found[a_job_id("busy")].end_p50 == window.start
    assert starts(found, "vision/demo") == [1]


def test_teams_of_one_cohort_are_bounded_together() -> None:
    teams = {
        "research": {"quota": {"*": 4}, "cohort": "labs"},
        "vision": {"quota": {"*": 4}, "cohort": "labs"},
    }
    pending = {
        f"research/{name}": {"gpus": 4, "estimate": "1h", "priority": "P2"} for name in "abc"
    }
    running = {"vision/busy": {"gpus": 8, "ran": "1h", "estimate": "2h", "preemptible": False}}
    all_wait = replace(
        view(nodes={"n1": 8, "n2": 8}, teams=teams, running=running, pending=pending), fixed={}
    )

    found = forecast(all_wait)

    assert sorted(starts(found, "a", "b", "c")) == [1, 1, 2]


def test_no_device_is_promised_twice_at_any_instant() -> None:
    pending = {
        f"j{i}": {"gpus": 1 + i % 5, "estimate": f"{1 + i % 3}h", "priority": f"P{1 + i % 4}"}
        for i in range(12)
    }
    found = forecast(view(nodes={"n1": 8, "n2": 4}, running=BUSY, pending=pending))

    stays = [
        (pair, each.start_p50, each.end_p50)
        for each in found.values()
        if each.allocation is not None
        for pair in each.allocation.devices()
    ]
    for pair, start, end in stays:
        same = [s for s in stays if s[0] == pair and s[1] < end and s[2] > start]
        assert len(same) == 1
    assert len(found) == 13


def test_a_start_rests_on_whoever_ends_then_on_its_nodes() -> None:
    found = forecast(
        view(
            nodes={"n1": 8},
            running=BUSY,
            pending={"a": {"gpus": 8, "estimate": "1h"}, "b": {"gpus": 2, "priority": "P3"}},
        )
    )

    assert found[a_job_id("a")].rests_on == ("research/busy",)
    assert found[a_job_id("b")].rests_on == ("research/a",)


def test_an_urgent_job_is_expected_before_those_it_goes_before() -> None:
    snapshot = a_snapshot(
        policy={"order": Order.VALUE},
        nodes={"n1": 4},
        running={
            "left": {"gpus": 2, "ran": "1s", "estimate": "1h", "preemptible": False},
            "right": {"gpus": 2, "ran": "1s", "estimate": "2h", "preemptible": False},
        },
        pending={
            "later": {"gpus": 2, "estimate": "1h", "priority": "P3"},
            "urgent": {"gpus": 2, "priority": "P0", "estimate": "1h", "deadline_in": 5400},
        },
    )
    planned, _ = plan(snapshot)

    urgent, later = (planned.forecast[a_job_id(name)] for name in ("urgent", "later"))
    assert urgent.start_p50 < later.start_p50
    assert planned.decisions[a_job_id("urgent")].rank == 1
