"""Published predictions beside what came of them, from the commits of the status branch."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.cli.predictions import Of, Scored, calibration
from reconciler.domain.attempt import AttemptPhase, StopCause
from reconciler.domain.plan import Expectation
from reconciler.domain.reason import Reason
from reconciler.domain.status import JobPhase, JobStatus
from reconciler.domain.units import Instant, JobId
from reconciler.specs.serialize import Forecast, forecast_to_json, status_to_json
from tests.git_worlds import Remote
from tests.unit.cli.command_line import Headway, in_process
from tests.unit.cli.sample_fleet import NOW, a_status, an_attempt, at, gpus

JOB = "ads/rerank"
ROBOT = "headway-gpu-a <headway-gpu-a@localhost>"


class World:
    """A repository whose status branch is written by hand."""

    def __init__(self, folder: Path) -> None:
        self.remote = Remote(folder / "fleet.git")

    def record(self, when: str, status: JobStatus | None = None, said: Sequence[str] = ()) -> None:
        """Record a status, a published forecast (p50 and p90 of start, of end), or both."""
        files: dict[str, bytes | str | None] = {}
        if status is not None:
            files[f"status/{status.job}.json"] = status_to_json(status)
        if said:
            start_p50, start_p90, end_p50, end_p90 = (at(f"Mon {each}") for each in said)
            made = Expectation(
                job=JobId(JOB), start_p50=start_p50, start_p90=start_p90, end_p50=end_p50,
                end_p90=end_p90, allocation=None,
            )  # fmt: skip
            published = Forecast(published_at=at(when), jobs={JobId(JOB): made})
            files[".headway/forecast.json"] = forecast_to_json(published)
        self.remote.commit(
            files, "status: forecast\n\nHeadway-Epoch: 7\n", branch="status/gpu-a", author=ROBOT,
            at=at(when),
        )  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Waits from 9:00; was to start at 11:00, then at 12:00; ran 12:30 to 13:10."""
    world = World(tmp_path)
    attempt = an_attempt(JOB, 1, gpus("node-1", 0), decided_at=at("Mon 12:30"),
                         started_at=at("Mon 12:30"))  # fmt: skip
    waits = a_status(JOB, JobPhase.PENDING, Reason.GPUS_BUSY, submitted_at=at("Mon 09:00"))
    runs = replace(waits, phase=JobPhase.RUNNING, reason=Reason.GPUS_FREE, attempts=(attempt,),
                   attempts_made=1)  # fmt: skip
    ended = replace(
        attempt, phase=AttemptPhase.SUCCEEDED, ended_at=at("Mon 13:10"), reason=Reason.COMPLETED
    )
    done = replace(runs, phase=JobPhase.SUCCEEDED, attempts=(ended,), reason=Reason.COMPLETED)
    world.record("Mon 09:00", waits, said=("11:00", "12:00", "13:00", "13:20"))
    world.record("Mon 10:00", said=("12:00", "13:00", "13:00", "13:20"))
    world.record("Mon 12:30", runs, said=("12:30", "12:30", "13:00", "13:20"))
    world.record("Mon 13:10", done)
    return world


@pytest.fixture
def headway(world: World, capsys: pytest.CaptureFixture[str]) -> Headway:
    return in_process(capsys, world.remote.path, NOW)


def test_starts_and_ends_are_scored_by_what_came(headway: Headway) -> None:
    told = json.loads(headway("eta-report", "-o", "json").out)

    assert told["versions"] == 3
    assert [(each["of"], each["error_s"], each["is_covered"]) for each in told["predictions"]] == [
        ("start", 5400, False),
        ("start", 1800, True),
        ("end", 600, True),
    ]
    starts = told["calibration"][0]
    assert (starts["predicted"], starts["predictions"]) == ("starts", 2)
    assert (starts["by_p50"], starts["by_p90"]) == (0.0, 0.5)


def test_the_table_has_a_row_a_lead_time_and_names_the_worst(headway: Headway) -> None:
    lines = headway("eta-report").lines

    assert lines[0].split() == [
        "PREDICTED",
        "NUMBER",
        "ERROR",
        "P50",
        "ERROR",
        "P90",
        "BIAS",
        "BY",
        "P50",
        "BY",
        "P90",
    ]
    assert lines[1].split() == ["starts", "2", "1h30m", "1h30m", "+1h30m", "0%", "50%"]
    assert lines[2].strip().startswith("1h to 6h ahead")
    assert lines[-2] == "  ads/rerank: end +10m from what was said 12:30 (30m ahead)"
    assert lines[-1] == ("3 predictions scored, 0 still open, from 3 versions of the forecast")


def test_a_run_that_was_asked_to_leave_says_nothing_of_its_end(
    world: World, headway: Headway
) -> None:
    left = an_attempt(
        JOB, 1, gpus("node-1", 0), decided_at=at("Mon 12:30"), started_at=at("Mon 12:30"),
        phase=AttemptPhase.PREEMPTED, ended_at=at("Mon 12:50"), stop_cause=StopCause.PREEMPT,
        reason=Reason.FREED_FOR_PREEMPTOR,
    )  # fmt: skip
    world.record("Mon 13:20", a_status(JOB, JobPhase.PENDING, Reason.GPUS_BUSY, attempts=(left,)))

    told = json.loads(headway("eta-report", JOB, "-o", "json").out)

    assert [each["of"] for each in told["predictions"]] == ["start", "start"]
    assert told["open"] == 1


def test_nothing_to_score_is_said_so(headway: Headway) -> None:
    said = headway("eta-report", "--since", "1m")
    assert said.code == 0
    assert said.lines == ["0 predictions scored, 0 still open, from 0 versions of the forecast"]


def test_a_perfect_forecaster_has_no_error_and_no_bias() -> None:
    told = [
        Scored(job=JobId("a/b"), of=Of.START, published_at=Instant(0), p50=Instant(t),
               p90=Instant(t + 60), actual=Instant(t))
        for t in (60, 1200, 7200, 90_000)
    ]  # fmt: skip
    rows = calibration(told)
    assert [row.predictions for row in rows] == [4, 1, 1, 1, 1]
    assert {(row.error_p90_s, row.bias_s, row.by_p50, row.by_p90) for row in rows} == {
        (0, 0, 1.0, 1.0)
    }
