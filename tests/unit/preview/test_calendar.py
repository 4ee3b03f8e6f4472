"""A pull request that reserves: booked, or refused with when it would fit; budgets after it."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from reconciler.cli.plan_words import Words, item
from reconciler.domain.reservation import ReservationPhase
from reconciler.preview.changes import Preview
from tests.unit.preview.test_changes import HOUR, NOW, Branch

RESERVATION = """\
api_version: headway/v1
kind: Reservation
start: "{start}"
duration: {duration}
gpus: {gpus}
{more}"""
BUDGET = "limit_gpu_hours: 100\nperiod: year\ntimezone: UTC\n"


@pytest.fixture
def branch(tmp_path: Path) -> Branch:
    made = Branch(tmp_path)
    made.fleet.commit({"conf/budgets/q4.yaml": BUDGET})
    made.clone = made.fleet.remote.clone("Grace 2")
    return made


def a_file(name: str, *, ahead_s: int, duration: str = "2h", gpus: int = 4, more: str = "") -> dict[
    str, str | None
]:  # fmt: skip
    start = datetime.fromtimestamp(NOW + ahead_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    text = RESERVATION.format(start=start, duration=duration, gpus=gpus, more=more)
    return {f"jobs/team/{name}.yaml": text}


def told(found: Preview) -> str:
    words = Words(found, UTC)
    rows = ["  ".join(str(getattr(cell, "text", cell)) for cell in row) for row in words.rows()]
    return "\n".join([*rows, *words.notes(), *words.effects(), words.summary("state")])


def test_a_reservation_that_fits_is_shown_with_its_place_and_its_hours(branch: Branch) -> None:
    found = branch.preview(a_file("demo", ahead_s=3 * HOUR, gpus=2, more="budget_group: q4\n"))

    (kept,) = found.reservations
    assert (kept.sign, kept.name, kept.is_refused) == ("+", "team/demo", False)
    assert kept.occurrences[0].phase is ReservationPhase.PLANNED
    assert kept.gpu_hours == pytest.approx(4.0)
    assert found.jobs == ()
    assert found.count("+") == 1
    text = told(found)
    assert "+ reservation team/demo" in text
    assert "budget q4: 0.0 used + 4.0 promised of 100.0 GPU-hours" in text
    assert "96.0 left after this" in text


def test_one_that_does_not_fit_is_told_when_it_would(branch: Branch) -> None:
    branch.fleet.commit(a_file("first-one", ahead_s=HOUR, duration="3h"))
    branch.clone = branch.fleet.remote.clone("Grace 3")
    found = branch.preview(a_file("second-one", ahead_s=2 * HOUR))

    refused = next(each for each in found.reservations if each.name == "team/second-one")
    assert refused.is_refused
    text = told(found)
    assert "+ refused reservation team/second-one" in text
    assert "team/second-one: refused for" in text
    assert "then" in text
    document = item(found, None)
    windows = next(
        each for each in document["reservations"] if each["reservation"] == "team/second-one"
    )["occurrences"][0]["windows"]
    assert windows[-1]["last"] is None


def test_a_removed_reservation_is_a_change(branch: Branch) -> None:
    branch.fleet.commit(a_file("demo", ahead_s=HOUR))
    branch.clone = branch.fleet.remote.clone("Grace 3")

    found = branch.preview({"jobs/team/demo.yaml": None})

    assert [(each.sign, each.name) for each in found.reservations] == [("-", "team/demo")]
    assert "- reservation team/demo" in told(found)
