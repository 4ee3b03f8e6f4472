"""What people see of reservations and budgets, and the document that `reserve` writes."""

import json
from pathlib import Path

import pytest

from reconciler.domain.budget import BudgetUse, Period
from reconciler.domain.reason import Reason
from reconciler.domain.reservation import (
    FeasibleStart,
    Occurrence,
    ReservationPhase,
    ReservationStatus,
    ReservationSummary,
)
from reconciler.domain.units import Instant, JobId, Seconds, TeamName
from reconciler.specs.serialize import Budgets, budgets_to_json, reservation_to_json
from reconciler.store.git.command import git
from tests.unit.cli.command_line import Headway
from tests.unit.cli.sample_fleet import NOW, at, gpus, write_branch

HELD = ReservationSummary(
    gpus=4, for_jobs=(JobId("vision/demo"),), release_if_idle_s=Seconds(1800), budget_group="q4"
)
OPEN = ReservationStatus(
    reservation=JobId("vision/demo-week"),
    phase=ReservationPhase.ACTIVE,
    reason=Reason.RESERVATION_STARTS,
    summary=HELD,
    occurrences=(
        Occurrence(
            start=at("Mon 08:00"),
            end=at("Thu 08:00"),
            phase=ReservationPhase.ACTIVE,
            reason=Reason.RESERVATION_STARTS,
            devices=gpus("node-2", 0, 1, 2, 3),
            idle_gpu_s=7200,
            idle_gpus=1,
            counted_at=Instant(NOW - 3600),
        ),
    ),
    since=at("Mon 08:00"),
)
REFUSED = ReservationStatus(
    reservation=JobId("ads/night"),
    phase=ReservationPhase.REFUSED,
    reason=Reason.WINDOW_TAKEN,
    message="no such GPUs can be free for all of it",
    summary=ReservationSummary(gpus=4),
    occurrences=(
        Occurrence(
            start=at("Mon 15:00"),
            end=at("Tue 15:00"),
            phase=ReservationPhase.REFUSED,
            reason=Reason.WINDOW_TAKEN,
            message="no such GPUs can be free for all of it",
            windows=(
                FeasibleStart(first=Instant(NOW + 3 * 3600), last=Instant(NOW + 4 * 3600)),
                FeasibleStart(first=at("Thu 08:00")),
            ),
        ),
    ),
    since=at("Mon 14:00"),
)
USE = BudgetUse(
    name="q4",
    period=Period(start=at("Sun 00:00"), end=at("Thu 00:00")),
    limit_gpu_s=200 * 3600,
    used_gpu_s=140 * 3600,
    running_gpu_s=3 * 3600,
    committed_gpu_s=50 * 3600,
    teams=(TeamName("vision"),),
    words="quarter",
)


@pytest.fixture
def reserved(headway: Headway, repo: Path) -> Headway:
    files = {
        "status/vision/demo-week.json": reservation_to_json(OPEN),
        "status/ads/night.json": reservation_to_json(REFUSED),
        ".headway/budgets.json": budgets_to_json(Budgets(at=Instant(NOW - 60), uses=(USE,))),
    }
    write_branch(repo, files)
    return headway


def test_the_queue_shows_what_is_reserved_and_what_was_refused(reserved: Headway) -> None:
    out = reserved("queue").out
    line = next(each for each in out.splitlines() if each.startswith("vision/demo-week"))
    refused = next(each for each in out.splitlines() if each.startswith("ads/night"))

    assert line.split()[1:3] == ["active", "4"]
    assert "node-2 [0-3]" in line
    assert "3.0" in line.split()  # two hours before, one since
    assert "earliest in 3h (Mon 17:22 to Mon 18:22), then Thu 08:00 or later" in refused


def test_reservations_are_no_jobs(reserved: Headway) -> None:
    assert "vision/demo-week" not in reserved("-q", "queue", "-o", "name").out
    assert "vision/demo-week" not in reserved("-q", "get", "jobs", "-o", "name").out
    assert reserved("-q", "get", "reservations", "-o", "name").out.split() == [
        "reservation/ads/night",
        "reservation/vision/demo-week",
    ]


def test_json_has_instants_in_utc_and_idle_time_in_gpu_seconds(reserved: Headway) -> None:
    document = json.loads(reserved("-q", "get", "reservations", "-o", "json").out)
    night, demo = document["items"]

    assert document["kind"] == "ReservationList"
    assert demo["idle_gpu_s"] == 7200 + 3600
    assert demo["occurrences"][0]["start"] == "2026-11-30T00:00:00Z"
    assert demo["for"] == ["vision/demo"]
    assert night["occurrences"][0]["windows"][0] == {
        "first": "2026-11-30T09:22:45Z",
        "last": "2026-11-30T10:22:45Z",
    }


def test_the_teams_show_what_they_reserved_and_left_idle(reserved: Headway) -> None:
    document = json.loads(reserved("-q", "get", "teams", "-o", "json").out)
    idle = {item["team"]: item["idle_reserved_gpu_seconds"] for item in document["items"]}

    assert idle["vision"] == 7200 + 3600
    assert idle["risk"] == 0


def test_describe_shows_a_reservation_with_its_calendar(reserved: Headway) -> None:
    out = reserved("-q", "describe", "reservation/ads/night").out

    assert "refused" in out
    assert "Would fit" in out
    assert "earliest in 3h" in out


def test_an_unknown_reservation_is_not_found(reserved: Headway) -> None:
    said = reserved("get", "reservations", "vision/nobody")

    assert said.code == 3
    assert "no reservation vision/nobody" in said.err


def test_a_verb_about_jobs_says_that_this_is_a_reservation(reserved: Headway) -> None:
    said = reserved("logs", "ads/night")

    assert said.code == 64
    assert "ads/night is a reservation: see `headway describe ads/night`" in said.err


def test_budgets_go_on_from_the_decision_to_now(reserved: Headway) -> None:
    document = json.loads(reserved("-q", "budgets", "-o", "json").out)
    row = document["items"][0]

    # one reserved GPU idles: a minute since the decision moved from promised to running
    assert row["running_gpu_s"] == 3 * 3600 + 60
    assert row["promised_gpu_s"] == 50 * 3600 - 60
    assert row["left_gpu_s"] == 7 * 3600


def test_budgets_are_a_table(reserved: Headway) -> None:
    lines = reserved("-q", "budgets").lines

    assert lines[0].split()[:2] == ["BUDGET", "PERIOD"]
    assert lines[1].split()[:2] == ["q4", "quarter"]
    assert "7.0" in lines[1]
    assert reserved("budgets", "q9").code == 3


def test_a_fleet_without_any_says_so(headway: Headway) -> None:
    assert "no budgets" in headway("budgets").err
    assert "no reservations" in headway("get", "reservations").err


def a_work_tree(folder: Path) -> Path:
    root = Path(__file__).parents[3]
    git(folder, "init", "--quiet", "--initial-branch", "main")
    for path in (root / "conf").rglob("*.yaml"):
        copy = folder / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    return folder


def test_reserve_writes_a_document_that_is_valid(headway: Headway, tmp_path: Path) -> None:
    tree = a_work_tree(tmp_path)

    said = headway(
        "reserve", "support/demo", "--gpus", "4", "--for", "72h", "--in", "3h",
        "--release-if-idle", "30m", "--repo", str(tree),
    )  # fmt: skip

    assert said.code == 0, said.err
    text = (tree / "jobs/support/demo.yaml").read_text(encoding="utf-8")
    assert 'start: "2026-11-30T09:23:00+00:00"' in text
    assert "gpus: 4\nrelease_if_idle: 30m\n" in text
    assert headway("validate", "--repo", str(tree)).code == 0


def test_reserve_says_what_is_wrong_and_writes_nothing(headway: Headway, tmp_path: Path) -> None:
    tree = a_work_tree(tmp_path)
    words = ["--gpus", "4", "--start", "2026-12-01T08:00:00Z", "--repo", str(tree)]

    long = headway("reserve", "support/demo", "--for", "8d", *words)
    both = headway("reserve", "support/demo", "--for", "1d", "--in", "1h", *words)

    assert long.code == 1
    assert "HW065" in long.err
    assert "split it into 2 documents" in long.err
    assert both.code == 64
    assert not (tree / "jobs").exists()


def test_reserve_prints_without_writing(headway: Headway, tmp_path: Path) -> None:
    tree = a_work_tree(tmp_path)

    said = headway(
        "reserve", "support/demo", "--gpus", "2", "--for", "1h", "--start", "2026-12-01T09:00",
        "--zone", "Asia/Shanghai", "--weekly", "--until", "2027-01-01T00:00", "--shared",
        "--budget", "q4-innovation", "--print", "--repo", str(tree),
    )  # fmt: skip

    assert said.code == 0, said.err
    assert "timezone: Asia/Shanghai\nduration: 1h\nevery: weekly\n" in said.out
    assert "exclusive: false\nbudget_group: q4-innovation\n" in said.out
    assert not (tree / "jobs").exists()
