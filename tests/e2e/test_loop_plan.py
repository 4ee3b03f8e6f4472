"""``headway plan`` on a branch says what a change will do, and after the merge that happens."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.boundary import main
from reconciler.domain.status import JobPhase
from reconciler.engine import service
from reconciler.preview.changes import preview
from reconciler.preview.revisions import open_change
from tests.git_worlds import Clone, run_git
from tests.live_fleets import Fleet, eventually

HOUR = 3600
pytestmark = pytest.mark.slow


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A fleet of four slots: two jobs run to their ends, a third waits for them."""
    made = Fleet(tmp_path, slots=4)
    made.commit(
        made.job("left", gpus=2, seconds=90, estimate="1h", preemptible=False)
        | made.job("right", gpus=2, seconds=90, estimate="2h", preemptible=False)
    )
    made.reconcile_once()
    eventually(lambda: len(made.started()) == 2, "both run")
    made.commit(made.job("later", gpus=2, seconds=90, estimate="1h", priority="P3"))
    made.reconcile_once()
    yield made
    made.finish_everything()


def hw(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(words)
    said = capsys.readouterr()
    return code, said.out, said.err


def branch_with(fleet: Fleet, files: dict[str, str], name: str = "Grace") -> Clone:
    """Return a person's clone on a branch that commits ``files``."""
    clone = fleet.remote.clone(name)
    for path, text in files.items():
        clone.write(path, text)
    clone.commit("Add a job")
    return clone


def planned(capsys: pytest.CaptureFixture[str], clone: Clone, *words: str) -> dict[str, Any]:
    code, out, err = hw(capsys, "plan", "--repo", str(clone.path), "-o", "json", *words)
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def at(text: str) -> int:
    return int(datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp())


def test_an_urgent_job_is_said_to_displace_a_waiting_one_and_after_the_merge_it_does(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    soon = datetime.fromtimestamp(time.time() + 5400, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    more = f'deadline: "{soon}"\n'
    job = fleet.job("urgent", gpus=2, priority="P0", estimate="1h", seconds=90, more=more)
    clone = branch_with(fleet, job)
    code, text, _ = hw(capsys, "plan", "--repo", str(clone.path), "--base", "origin/main")
    said = planned(capsys, clone)

    assert code == 0
    assert "+ job team/urgent" in text
    assert "Displaced: team/later +" in text
    assert "Plan: 1 to add, 0 to change, 0 to remove." in text
    assert [each["job"] for each in said["jobs"]] == ["team/urgent"]
    assert [each["job"] for each in said["displaced"]] == ["team/later"]
    assert 0.9 * HOUR < said["displaced"][0]["start_later_s"] < 1.1 * HOUR

    clone.push()
    fleet.reconcile_once()
    expected = forecast(fleet, clone)
    assert abs(expected["team/urgent"] - at(said["jobs"][0]["after"]["start_p50"])) < 60
    assert abs(expected["team/later"] - at(said["displaced"][0]["after"]["start_p50"])) < 60
    assert waiting(fleet) == {"urgent", "later"}

    fleet.finish("left")
    eventually(lambda: len(cycle(fleet).started()) == 3, "the urgent job starts")
    assert waiting(fleet) == {"later"}
    fleet.finish("urgent")
    eventually(lambda: len(cycle(fleet).started()) == 4, "the displaced job starts after it")
    assert waiting(fleet) == set()


def forecast(fleet: Fleet, clone: Clone) -> dict[str, int]:
    """Return the starts that the planner expects of what is merged."""
    run_git(clone.path, "fetch", "--quiet", "origin", "+refs/heads/*:refs/remotes/origin/*")
    found = preview(
        clone.path,
        open_change(clone.path, "origin/main"),
        status_commit=fleet.remote.tip(f"status/{fleet.cluster}"),
        now=service.now(),
    )
    assert not found and found.before is not None
    return {str(job): each.start_p50 for job, each in found.before.plan.forecast.items()}


def cycle(fleet: Fleet) -> Fleet:
    fleet.reconcile_once()
    return fleet


def waiting(fleet: Fleet) -> set[str]:
    return {name for name in ("urgent", "later") if fleet.phase(name) is JobPhase.PENDING}


def test_a_job_that_stops_a_running_one_names_it_and_its_price_and_then_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = Fleet(tmp_path, order="score")
    fleet.commit(fleet.job("cheap", gpus=4, seconds=90, priority="P3"))
    fleet.reconcile_once()
    eventually(lambda: len(fleet.started()) == 1, "it runs")
    fleet.reconcile_once()
    clone = branch_with(fleet, fleet.job("urgent", gpus=4, priority="P1", seconds=0.2))
    said = planned(capsys, clone)
    _, text, _ = hw(capsys, "plan", "--repo", str(clone.path))

    assert [(each["job"], each["for"]) for each in said["preempted"]] == [
        ("team/cheap", "team/urgent")
    ]
    assert said["preempted"][0]["cost_gpu_s"] >= 4
    assert "Preempted: team/cheap for team/urgent (" in text

    clone.push()
    fleet.reconcile_once()
    assert fleet.phase("cheap") is JobPhase.STOPPING
    fleet.finish_everything()


def test_an_edit_in_the_work_tree_counts_before_it_is_committed(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = fleet.remote.clone("Grace")
    (path, text), *_ = fleet.job("later", gpus=1, priority="P1", estimate="1h").items()
    clone.write(path, text)
    said = planned(capsys, clone)
    _, words, _ = hw(capsys, "plan", "--repo", str(clone.path))

    assert [(each["job"], each["change"]) for each in said["jobs"]] == [("team/later", "change")]
    assert "priority P3 -> P1" in said["jobs"][0]["edits"]
    assert "team/later: 2 GPUs -> 1 GPU; priority P3 -> P1" in words


def test_overrides_are_tried_without_being_written(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = fleet.remote.clone("Grace")
    said = planned(capsys, clone, "jobs/team/later.yaml", "priority=P1", "resources.gpus=4")

    assert said["summary"] == {"add": 0, "change": 1, "remove": 0}
    assert said["jobs"][0]["gpus"] == 4
    assert planned(capsys, clone)["summary"] == {"add": 0, "change": 0, "remove": 0}


def test_a_comma_list_is_refused_with_advice(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = fleet.remote.clone("Grace")
    code, _, err = hw(
        capsys, "plan", "--repo", str(clone.path), "jobs/team/later.yaml", "priority=P1,P2"
    )

    assert code == 1
    assert "submit" in err


def test_a_deleted_file_of_a_running_job_is_said_loudly(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = fleet.remote.clone("Grace")
    clone.remove("jobs/team/left.yaml")
    code, text, _ = hw(capsys, "plan", "--repo", str(clone.path), "--detailed-exitcode")

    assert code == 2
    assert "- job team/left" in text
    assert "this will stop a running job after a checkpoint" in text


def test_an_invalid_change_is_a_finding_and_is_not_planned(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = fleet.remote.clone("Grace")
    clone.write(
        "jobs/team/wild.yaml", fleet.job("x")["jobs/team/x.yaml"].replace("gpus: 1", 'gpus: "*"')
    )
    code, out, err = hw(capsys, "plan", "--repo", str(clone.path))

    assert code == 1
    assert "jobs/team/wild.yaml:" in err
    assert out == ""


def test_nothing_to_say_is_said_in_one_line(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = fleet.remote.clone("Grace")
    code, text, _ = hw(capsys, "plan", "--repo", str(clone.path), "--detailed-exitcode")

    assert code == 0
    assert text.startswith("No change to the schedule")


def test_a_clone_too_shallow_to_know_is_an_error_and_not_all_clear(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    shallow = fleet.folder / "shallow"
    run_git(fleet.folder, "clone", "--quiet", "--depth", "1", fleet.remote.url, str(shallow))
    fleet.commit(fleet.job("another"))
    run_git(shallow, "-c", "user.name=G", "-c", "user.email=g@x", "commit", "--allow-empty",
            "-qm", "mine")  # fmt: skip
    code, out, err = hw(capsys, "plan", "--repo", str(shallow))

    assert code == 5
    assert "--unshallow" in err
    assert "No change" not in out


def test_a_fleet_without_a_status_branch_is_planned_as_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = Fleet(tmp_path)
    clone = branch_with(fleet, fleet.job("first", gpus=2))
    code, text, _ = hw(capsys, "plan", "--repo", str(clone.path))

    assert code == 0
    assert "+ job team/first" in text
    assert "no status branch yet" in text


def test_a_job_that_would_wait_comes_with_what_would_start_it_sooner(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = branch_with(fleet, fleet.job("waits", gpus=2, estimate="1h", priority="P4"), "Kay")

    (job,) = planned(capsys, clone)["jobs"]
    _, text, _ = hw(capsys, "plan", "--repo", str(clone.path))

    ends = next(each for each in job["suggestions"] if each["change"] == "other_ends")
    assert ends["sooner_s"] > 600
    assert "would start sooner, as planned for each alone" in text
    assert ends["words"] in text
