"""Who asked, what was decided, when and why: from commits alone, merges looked through."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from reconciler.domain.reason import Reason
from reconciler.domain.status import JobPhase, JobStatus
from reconciler.domain.units import CommitId
from reconciler.specs.serialize import status_to_json
from tests.git_worlds import Remote, run_git
from tests.unit.cli.command_line import Headway, in_process
from tests.unit.cli.sample_fleet import NOW, a_status, at

ANN = "Ann Lee <ann@example.org>"
BO = "Bo Chen <bo@example.org>"
CLEO = "Cleo Diaz <cleo@example.org>"
ROBOT = "headway-gpu-a <headway-gpu-a@localhost>"


class World:
    """A bare repository with people's commits on main and the reconciler's beside them."""

    def __init__(self, folder: Path) -> None:
        self.remote = Remote(folder / "fleet.git")

    def main(
        self,
        job: str,
        subject: str,
        author: str,
        when: str,
        *,
        parents: Sequence[CommitId] | None = None,
        branch: str = "main",
        text: str = "",
    ) -> CommitId:
        return self.remote.commit(
            {f"jobs/{job}.yaml": text or f"# {subject}\n"},
            subject, author=author, at=at(when), parents=parents, branch=branch,
        )  # fmt: skip

    def record(self, when: str, desired: CommitId, *statuses: JobStatus | str) -> CommitId:
        """Record statuses; a job's name deletes its file."""
        changed = {
            f"status/{each if isinstance(each, str) else each.job}.json": (
                None if isinstance(each, str) else status_to_json(each)
            )
            for each in statuses
        }
        message = (
            f"status: {len(changed)} jobs\n\n"
            f"Headway-Desired: {desired}\nHeadway-Plan: sha256:{'0' * 64}\nHeadway-Epoch: 7\n"
        )
        return self.remote.commit(
            changed, message, branch="status/gpu-a", author=ROBOT, at=at(when)
        )


PENDING = (JobPhase.PENDING, Reason.GPUS_BUSY)
RUNNING = (JobPhase.RUNNING, Reason.GPUS_FREE)


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    first = world.main("search/embed", "Add embed", ANN, "Mon 09:00")
    world.record("Mon 09:01", first, a_status("search/embed", *PENDING))
    second = world.main("vision/probe", "Add probe", BO, "Mon 09:10")
    world.record("Mon 09:11", second, a_status("vision/probe", *RUNNING))
    world.record("Mon 09:20", second, a_status("search/embed", *RUNNING))
    return world


@pytest.fixture
def headway(world: World, capsys: pytest.CaptureFixture[str]) -> Headway:
    return in_process(capsys, world.remote.path)


def items(headway: Headway, *words: str) -> list[dict]:
    said = headway("audit", *words, "-o", "json")
    assert said.code == 0, said.err
    return json.loads(said.out)["items"]


def test_changes_are_told_newest_first_with_their_instants(headway: Headway) -> None:
    told = [(item["at"], item["job"], item["before"], item["after"]) for item in items(headway)]
    assert told == [
        ("2026-11-30T01:20:00Z", "search/embed", "pending", "running"),
        ("2026-11-30T01:11:00Z", "vision/probe", None, "running"),
        ("2026-11-30T01:01:00Z", "search/embed", None, "pending"),
    ]


def test_who_asked_is_the_author_of_the_jobs_own_file_and_not_of_mains_tip(
    headway: Headway,
) -> None:
    by = {item["job"]: item["asked_by"] for item in items(headway)}
    assert by["search/embed"]["author"] == "Ann Lee"
    assert by["search/embed"]["subject"] == "Add embed"
    assert by["vision/probe"]["author"] == "Bo Chen"
    assert by["vision/probe"]["merged_by"] is None


def test_a_decision_is_never_put_down_to_a_commit_it_had_not_seen(
    world: World, headway: Headway
) -> None:
    world.main("search/embed", "Raise priority", CLEO, "Mon 09:30")
    assert {item["asked_by"]["author"] for item in items(headway, "search/embed")} == {"Ann Lee"}


def test_a_merge_names_who_wrote_it_and_who_merged_it(world: World, headway: Headway) -> None:
    base = world.remote.tip()
    assert base is not None
    text = "resources: {gpus: 8}\n"
    topic = world.main(
        "search/embed", "Ask for 8 GPUs", ANN, "Mon 10:00",
        branch="topic", parents=[base], text=text,
    )  # fmt: skip
    merged = world.main(
        "search/embed", "Merge topic", CLEO, "Mon 10:05", parents=[base, topic], text=text
    )
    world.record("Mon 10:06", merged, a_status("search/embed", *RUNNING, message="edited"))
    newest = items(headway, "search/embed")[0]["asked_by"]
    assert newest["author"] == "Ann Lee"
    assert newest["merged_by"] == "Cleo Diaz"
    assert newest["commit"] == merged


def test_what_was_recorded_names_epoch_plan_and_the_commit_decided_on(headway: Headway) -> None:
    newest = items(headway)[0]
    assert newest["epoch"] == 7
    assert newest["plan"] == "sha256:" + "0" * 64
    assert newest["recorded_by"] == "headway-gpu-a"
    assert len(newest["desired"]) == 40


def test_bookkeeping_is_no_change(world: World, headway: Headway) -> None:
    tip = world.remote.tip()
    assert tip is not None
    before = len(items(headway))
    world.record("Mon 10:00", tip, a_status("search/embed", *RUNNING, observed_commit=tip))
    assert len(items(headway)) == before


def test_a_deleted_status_is_told(world: World, headway: Headway) -> None:
    tip = world.remote.tip()
    assert tip is not None
    world.record("Mon 10:00", tip, "vision/probe")
    assert (items(headway)[0]["before"], items(headway)[0]["after"]) == ("running", None)
    assert "running -> gone" in headway("audit").out


def test_one_job_one_team_and_a_time_can_be_chosen(headway: Headway) -> None:
    assert {item["job"] for item in items(headway, "vision/probe")} == {"vision/probe"}
    assert {item["job"] for item in items(headway, "--team", "search")} == {"search/embed"}
    assert len(items(headway, "--since", "2026-11-30T09:11:00")) == 2
    assert len(items(headway, "--since", "2026-11-30T09:11:01")) == 1
    assert items(headway, "--since", "1m") == []


def test_a_limit_says_what_it_leaves_out(headway: Headway) -> None:
    said = headway("audit", "-n", "1")
    assert said.lines[-1] == "newest 1 of 3 changes on refs/heads/status/gpu-a"
    assert len(said.lines) == 3


def test_the_table_says_what_why_and_who_in_one_line(headway: Headway) -> None:
    line = headway("audit", "--no-headers").lines[0]
    for word in ("Mon 09:20:00", "search/embed", "pending -> running", "GPUs were free"):
        assert word in line
    assert "Ann Lee: Add embed (" in line


def test_a_hostile_subject_cannot_steer_the_terminal(world: World, headway: Headway) -> None:
    evil = world.main("search/embed", "Nice\x1b[2J job", "Eve\x1b[31m <e@x>", "Mon 10:00")
    world.record("Mon 10:01", evil, a_status("search/embed", *PENDING))
    said = headway("audit")
    assert "Eve: Nice job" in said.out
    assert "\x1b" not in said.out


def test_a_job_that_no_commit_names_is_not_found(headway: Headway) -> None:
    said = headway("audit", "vision/other")
    assert said.code == 3
    assert "no commit of refs/heads/status/gpu-a ever named this job" in said.err


def test_a_clone_without_main_still_tells_what_and_why(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status_only = Remote(tmp_path / "only.git")
    status = a_status("search/embed", *PENDING)
    status_only.commit(
        {"status/search/embed.json": status_to_json(status)},
        f"status: 1 job\n\nHeadway-Desired: {'a' * 40}\nHeadway-Epoch: 1\n",
        branch="status/gpu-a",
    )
    (item,) = items(in_process(capsys, status_only.path, now=NOW + 10**9))
    assert item["asked_by"] is None
    assert item["after"] == "pending"


def test_a_rewritten_main_still_has_its_people(world: World, headway: Headway) -> None:
    fresh = world.remote.commit(
        {"jobs/search/embed.yaml": "# new\n"}, "Start over", author=CLEO, at=at("Mon 11:00"),
        parents=[],
    )  # fmt: skip
    world.record("Mon 11:01", fresh, a_status("search/embed", *PENDING))
    newest, older, _ = items(headway, "search/embed")
    assert newest["asked_by"]["author"] == "Cleo Diaz"
    assert older["asked_by"]["author"] == "Ann Lee"


def test_a_shallow_clone_is_refused_rather_than_called_new(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_git(
        tmp_path, "clone", "--quiet", "--depth=1", "--no-single-branch", world.remote.url, "shallow"
    )
    headway = in_process(capsys, tmp_path / "shallow")
    said = headway("audit", "--no-fetch")
    assert said.code == 5
    assert "--unshallow" in said.err
    described = headway("describe", "search/embed", "--no-fetch")
    assert described.code == 0
    assert "its newest changes cannot be told" in described.err
    assert "running" in described.out
