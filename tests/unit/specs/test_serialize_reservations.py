"""Statuses of reservations and the budgets file: the bytes, and the way back."""

import json

import pytest

from reconciler.domain.budget import BudgetUse, Period
from reconciler.domain.reservation import ReservationPhase
from reconciler.domain.units import JobId
from reconciler.planning.plan import plan
from reconciler.specs.serialize import (
    Budgets,
    budgets_from_json,
    budgets_to_json,
    is_reservation,
    reservation_from_json,
    reservation_to_json,
    status_to_json,
)
from reconciler.specs.stored import FormatError
from reconciler.store.commit_message import parse_message, status_message
from tests.builders import a_snapshot
from tests.values import MAIN, NOW, a_spec, a_status

SNAPSHOT = a_snapshot(
    nodes={"n1": 4},
    running={"train": {"gpus": 4, "preemptible": False, "limit": "9h"}},
    reservations={
        "demo": {"gpus": 4, "start_in": "1h", "release_if_idle": "30m"},
        "later": {"gpus": 4, "start_in": "20h", "duration": "1h"},
    },
)
UPDATE = plan(SNAPSHOT)[1].update


def test_a_status_comes_back_as_it_was_written() -> None:
    assert [each.phase for each in UPDATE.reservations] == [
        ReservationPhase.REFUSED,
        ReservationPhase.PLANNED,
    ]
    for each in UPDATE.reservations:
        text = reservation_to_json(each)
        assert is_reservation(text)
        assert reservation_from_json(text, each.reservation) == each


def test_the_spelling_of_a_status_is_fixed() -> None:
    body = json.loads(reservation_to_json(UPDATE.reservations[1]))

    assert (body["api_version"], body["kind"]) == ("headway/v1", "Reservation")
    assert body["phase"] == "planned"
    (occurrence,) = body["occurrences"]
    assert occurrence["start"] == "2026-03-03T05:00:00Z"
    assert occurrence["end"] == "2026-03-03T06:00:00Z"
    assert occurrence["idle_gpu_s"] == 0
    assert occurrence["devices"] == {"n1": [f"n1-gpu0{number}" for number in range(4)]}


def test_a_jobs_status_is_no_reservation() -> None:
    text = status_to_json(a_status(a_spec("job"), message='says "kind": "Reservation"'))

    assert not is_reservation(text)
    with pytest.raises(FormatError, match="Reservation"):
        reservation_from_json(text, JobId("research/job"))


def test_another_name_is_refused() -> None:
    text = reservation_to_json(UPDATE.reservations[0])

    with pytest.raises(FormatError, match="names another one"):
        reservation_from_json(text, JobId("research/other"))


def test_budgets_come_back() -> None:
    use = BudgetUse(
        name="q4",
        period=Period(start=NOW, end=NOW),
        limit_gpu_s=3600,
        used_gpu_s=1,
        running_gpu_s=2,
        committed_gpu_s=3,
    )
    budgets = Budgets(at=NOW, uses=(use,))

    assert budgets_from_json(budgets_to_json(budgets)) == budgets


def test_the_commit_tells_each_occurrence_that_changed() -> None:
    message = status_message(UPDATE, epoch=3, desired=MAIN)
    told = parse_message(message)

    assert told.subject.endswith("2 reservations (1 planned, 1 refused)")
    assert (
        "research/demo 2026-03-02T10:00:00Z: new -> refused (window_taken)" in message.splitlines()
    )
    assert "window_free" in told.trailers["Headway-Reason"]
    assert "research/later" in told.trailers["Headway-Job"]
