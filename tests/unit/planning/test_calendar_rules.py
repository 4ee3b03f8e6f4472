"""Each rule of the calendar is broken once, and named."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.plan import Plan
from reconciler.domain.reason import Reason
from reconciler.domain.reservation import ReservationDecision, ReservationPhase, ReservationVerb
from reconciler.domain.snapshot import Snapshot
from reconciler.errors import InvariantError
from reconciler.planning.calendar_rules import check_calendar
from reconciler.planning.plan import plan
from reconciler.planning.standing import standings
from tests.builders import a_snapshot

BOOKED: dict[str, Any] = {"gpus": 4, "start_in": "3h", "booked": {"n1": [0, 1, 2, 3]}}
Change = Callable[[Snapshot, Plan], Plan]


def made(**given: Any) -> tuple[Snapshot, Plan]:
    snapshot = a_snapshot(**given)
    planned, _ = plan(snapshot)
    return snapshot, planned


def check(snapshot: Snapshot, planned: Plan) -> None:
    check_calendar(snapshot, standings(snapshot), planned)


def about(snapshot: Snapshot, verb: ReservationVerb, **changed: Any) -> ReservationDecision:
    name, status = next(iter(snapshot.reservations.items()))
    occurrence = replace(status.occurrences[0], **changed)
    return ReservationDecision(
        reservation=name, verb=verb, reason=Reason.WINDOW_TAKEN, occurrence=occurrence
    )


def test_a_sound_plan_breaks_none() -> None:
    check(*made(reservations={"demo": BOOKED}, pending={"vision/job": {"gpus": 4}}))


def test_two_decisions_about_one_occurrence_are_one_too_many() -> None:
    snapshot, planned = made(reservations={"demo": BOOKED})
    twice = about(snapshot, ReservationVerb.BOOK)

    with pytest.raises(InvariantError, match="one decision an occurrence"):
        check(snapshot, replace(planned, reservations=(twice, twice)))


def test_what_is_booked_is_not_refused_for_a_later_arrival() -> None:
    snapshot, planned = made(reservations={"demo": BOOKED})
    refused = about(snapshot, ReservationVerb.REFUSE, phase=ReservationPhase.REFUSED)

    with pytest.raises(InvariantError, match="what is booked stays booked"):
        check(snapshot, replace(planned, reservations=(refused,)))


def test_two_windows_do_not_share_a_device() -> None:
    snapshot, planned = made(
        reservations={"demo": BOOKED, "other": {**BOOKED, "booked": {"n1": [4, 5, 6, 7]}}}
    )
    stolen = snapshot.reservations["research/other"].occurrences[0].devices  # type: ignore[index]
    moved = about(snapshot, ReservationVerb.BOOK, devices=stolen)

    with pytest.raises(InvariantError, match="windows keep apart"):
        check(snapshot, replace(planned, reservations=(moved,)))


def test_a_window_does_not_open_on_somebodys_devices() -> None:
    snapshot, planned = made(
        running={"vision/there": {"gpus": 4, "estimate": "9h"}}, reservations={"demo": BOOKED}
    )
    opened = about(snapshot, ReservationVerb.OPEN, phase=ReservationPhase.ACTIVE)

    with pytest.raises(InvariantError, match="opens on clear devices"):
        check(snapshot, replace(planned, reservations=(opened,)))


def test_nothing_starts_where_it_could_still_be_when_a_window_opens() -> None:
    without, planned = made(
        nodes={"n1": 4}, pending={"vision/long": {"gpus": 4, "preemptible": False, "limit": "9h"}}
    )
    snapshot = a_snapshot(
        nodes={"n1": 4},
        pending={"vision/long": {"gpus": 4, "preemptible": False, "limit": "9h"}},
        reservations={"demo": BOOKED},
    )
    check(without, planned)

    with pytest.raises(InvariantError, match="starts keep off windows"):
        check(snapshot, planned)


def test_nothing_starts_on_a_budget_beyond_its_limit() -> None:
    snapshot, planned = made(
        budgets={"q4": {"limit": 100}},
        pending={"job": {"gpus": 1, "limit": "1h", "budget_group": "q4"}},
    )
    over = tuple(replace(use, used_gpu_s=use.limit_gpu_s) for use in planned.budgets)

    check(snapshot, planned)
    with pytest.raises(InvariantError, match="budgets are kept"):
        check(snapshot, replace(planned, budgets=over))
