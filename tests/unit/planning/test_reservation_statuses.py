"""What a plan writes about a reservation: transitions, idle time, five past and five next."""

from dataclasses import replace
from typing import Any

from reconciler.domain.reservation import ReservationPhase, ReservationStatus
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.status import StatusUpdate
from reconciler.planning.plan import plan
from reconciler.planning.statuses import next_statuses
from tests.builders import a_snapshot
from tests.values import NOW

OPEN: dict[str, Any] = {
    "gpus": 4,
    "started_ago": "2h",
    "duration": "8h",
    "booked": {"n1": [0, 1, 2, 3]},
    "phase": "active",
    "idle_gpus": 4,
    "idle_for": "1h",
}


def update(snapshot: Snapshot) -> StatusUpdate:
    planned, memo = plan(snapshot)
    assert memo.update == next_statuses(snapshot, planned)
    return memo.update


def only(**given: Any) -> ReservationStatus:
    found = update(a_snapshot(**given)).reservations
    assert len(found) == 1
    return found[0]


def test_a_new_one_is_written_with_its_summary_and_the_commit_it_was_read_at() -> None:
    status = only(
        reservations={"demo": {"gpus": 4, "start_in": "1h", "for": ["job"], "budget": None}}
    )

    assert status.phase is ReservationPhase.PLANNED
    assert status.summary is not None
    assert (status.summary.gpus, status.summary.for_jobs) == (4, ("research/job",))
    assert status.observed_commit
    assert status.since == NOW


def test_a_settled_one_is_not_written() -> None:
    changed = update(a_snapshot(reservations={"demo": OPEN}))

    assert not changed
    assert changed.reservations == ()


def test_idle_time_is_counted_when_a_run_starts_inside() -> None:
    status = only(pending={"mine": {"gpus": 3}}, reservations={"demo": OPEN})
    occurrence = status.occurrences[0]

    assert occurrence.idle_gpu_s == 4 * 3600
    assert occurrence.idle_gpus == 1
    assert occurrence.counted_at == NOW
    assert occurrence.idle_gpu_s_at(NOW + 60) == 4 * 3600 + 60  # type: ignore[arg-type]


def test_an_ended_one_keeps_its_idle_time_in_the_sum() -> None:
    status = only(reservations={"demo": {**OPEN, "started_ago": "8h"}})

    assert status.phase is ReservationPhase.ENDED
    assert status.past_idle_gpu_s == 4 * 3600


def test_a_file_that_is_gone_is_noted_first_and_cancels_later() -> None:
    status = only(reservations={"demo": {**OPEN, "file": "gone"}})

    assert status.absent_since == NOW
    assert status.phase is ReservationPhase.ACTIVE


def test_each_occurrence_that_changed_is_a_line() -> None:
    changed = update(a_snapshot(reservations={"demo": {"gpus": 4, "start_in": "1h", "weekly": 9}}))

    assert [(line.before, line.after.value) for line in changed.occurrences] == [
        (None, "planned")
    ] * 5
    assert len(changed.reservations[0].occurrences) == 5


def test_nothing_firm_is_ever_dropped_and_five_past_ones_are_kept() -> None:
    snapshot = a_snapshot(reservations={"demo": {**OPEN, "weekly": 3}})
    name, status = next(iter(snapshot.reservations.items()))
    week = 7 * 86_400
    past = tuple(
        replace(
            status.occurrences[0],
            start=status.occurrences[0].start - number * week,
            end=status.occurrences[0].end - number * week,
            phase=ReservationPhase.ENDED,
        )
        for number in range(8, 0, -1)
    )
    full = replace(status, occurrences=(*past, *status.occurrences))

    found = update(replace(snapshot, reservations={name: full})).reservations[0]

    phases = [occurrence.phase.value for occurrence in found.occurrences]
    assert phases == ["ended"] * 5 + ["active"] + ["planned"] * 2


def test_a_recorded_reservation_takes_no_decision_twice() -> None:
    snapshot = a_snapshot(reservations={"demo": {"gpus": 4, "start_in": "1h", "weekly": 9}})
    first = update(snapshot)

    after = replace(snapshot, reservations={each.reservation: each for each in first.reservations})

    assert not update(after)
