"""A reservation through the whole loop: merged, booked, drained towards, opened, used, replayed."""

import json
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reconciler.cli.boundary import main
from reconciler.domain.reason import Reason
from reconciler.domain.reservation import ReservationPhase, ReservationStatus
from reconciler.domain.status import JobPhase
from reconciler.domain.units import JobId
from tests.live_fleets import Fleet, eventually

pytestmark = pytest.mark.slow
DEMO = JobId("team/demo")
AHEAD_S = 45
"""The grace of 5 s, the margin of 30 s and two cycles, and time to see the booking before."""

BUDGET = "limit_gpu_hours: 100\nperiod: month\ntimezone: UTC\n"
RESERVATION = """\
api_version: headway/v1
kind: Reservation
start: "{start}"
duration: 10m
gpus: 4
for: [team/inside]
release_if_idle: 1h
budget_group: q4
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path, slots=4)
    made.commit(
        made.team("other")
        | {"conf/budgets/q4.yaml": BUDGET}
        | made.job("long", gpus=3, seconds=300, estimate="1h", team="other")
    )
    running = made.start()
    yield made
    made.finish_everything()
    running.terminate()
    try:
        running.wait(timeout=20)
    except subprocess.TimeoutExpired:
        running.kill()


def reserved(fleet: Fleet) -> ReservationStatus | None:
    tree = fleet.tree()
    return None if tree is None else tree.reservations.get(DEMO)


def phase(fleet: Fleet) -> ReservationPhase | None:
    status = reserved(fleet)
    return None if status is None else status.phase


def test_a_reservation_is_kept_from_the_merge_to_its_end(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    eventually(lambda: fleet.phase("long", "other") is JobPhase.RUNNING, "the other team runs")
    start = int(time.time()) + AHEAD_S
    text = datetime.fromtimestamp(start, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    fleet.commit(
        {"jobs/team/demo.yaml": RESERVATION.format(start=text)}
        | fleet.job("inside", gpus=4, seconds=300, estimate="5m")
    )

    eventually(lambda: phase(fleet) is ReservationPhase.PLANNED, "booked", detail=fleet.said)
    booked = reserved(fleet)
    assert booked is not None
    assert booked.occurrences[0].devices is not None
    assert booked.occurrences[0].devices.gpus == 4

    eventually(lambda: phase(fleet) is ReservationPhase.ACTIVE, "open", detail=fleet.said)
    eventually(lambda: fleet.phase("inside") is JobPhase.RUNNING, "used", detail=fleet.said)
    opened = reserved(fleet)
    waiting = fleet.status("long", "other")
    assert opened is not None
    assert opened.since is not None
    assert 0 <= opened.since - start <= 30
    assert waiting is not None
    assert waiting.attempts[0].reason is Reason.RESERVATION_STARTS
    assert waiting.phase is JobPhase.PENDING

    repo = str(fleet.remote.path)
    assert main(["--repo", repo, "-q", "queue", "-o", "json"]) == 0
    queue = json.loads(capsys.readouterr().out)
    assert queue["reservations"][0]["phase"] == "active"
    assert main(["--repo", repo, "-q", "budgets", "-o", "json"]) == 0
    budget = json.loads(capsys.readouterr().out)["items"][0]
    assert budget["limit_gpu_s"] == 100 * 3600
    assert 0 < budget["promised_gpu_s"] <= 4 * 600
    assert main(["--repo", repo, "audit", "team/demo"]) == 0
    assert "planned -> active" in capsys.readouterr().out

    fleet.commit({"jobs/team/demo.yaml": None}, "Give the reservation up")
    eventually(lambda: phase(fleet) is ReservationPhase.CANCELLED, "given up", detail=fleet.said)
    assert main(["replay", "--repo", repo, "--all"]) == 0
