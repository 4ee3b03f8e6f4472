"""What a change does, over a fleet that nobody has run yet."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.domain.units import Instant
from reconciler.preview.changes import Override, Preview, preview
from reconciler.preview.revisions import open_change
from reconciler.specs.cache import SpecCache
from tests.git_worlds import Clone
from tests.live_fleets import Fleet

NOW = Instant(2_000_000_000)
HOUR = 3600


class Branch:
    """A fleet of four slots where ``first`` and ``second`` fill them, and somebody's clone."""

    def __init__(self, folder: Path) -> None:
        self.fleet = Fleet(folder, slots=4, order="score")
        jobs = self.fleet.job("first", gpus=4, estimate="1h")
        self.fleet.commit(jobs | self.fleet.job("second", gpus=4, estimate="1h", priority="P3"))
        self.clone: Clone = self.fleet.remote.clone("Grace")
        self.cache = SpecCache(folder / "cache")

    def preview(self, files: dict[str, str | None], override: Override | None = None) -> Preview:
        for path, text in files.items():
            if text is None:
                self.clone.remove(path)
            else:
                self.clone.write(path, text)
        if files:
            self.clone.commit()
        return preview(
            self.clone.path, open_change(self.clone.path, "origin/main"), status_commit=None,
            now=NOW, override=override, cache=self.cache,
        )  # fmt: skip


@pytest.fixture
def branch(tmp_path: Path) -> Iterator[Branch]:
    yield Branch(tmp_path)


def test_an_added_job_has_a_start_a_place_and_gpu_hours(branch: Branch) -> None:
    found = branch.preview(branch.fleet.job("third", gpus=2, estimate="2h", priority="P4"))

    (job,) = found.jobs
    assert (job.sign, job.job) == ("+", "team/third")
    assert job.expected is not None
    assert job.expected.start_p50 == NOW + 2 * HOUR
    assert job.gpu_hours == pytest.approx(4.0)
    assert (found.displaced, found.stopped) == ((), ())


def test_a_job_that_goes_first_displaces_the_ones_behind_it(branch: Branch) -> None:
    found = branch.preview(branch.fleet.job("third", gpus=4, estimate="2h", priority="P1"))

    assert {shift.job: shift.start_by_s for shift in found.displaced} == {
        "team/first": 2 * HOUR,
        "team/second": 2 * HOUR,
    }
    assert found


def test_a_removed_job_lets_others_go_sooner(branch: Branch) -> None:
    found = branch.preview({"jobs/team/first.yaml": None})

    assert [(each.sign, each.job) for each in found.jobs] == [("-", "team/first")]
    assert [(each.job, each.start_by_s) for each in found.sooner] == [("team/second", -HOUR)]
    assert found.count("-") == 1


def test_overrides_change_one_job_and_leave_the_others(branch: Branch) -> None:
    override = Override(path="jobs/team/second.yaml", words=("priority=P1",))
    found = branch.preview({}, override)

    (job,) = found.jobs
    assert (job.sign, job.edits) == ("~", ("priority P3 -> P1",))
    assert [each.job for each in found.displaced] == ["team/first"]


def test_a_change_elsewhere_in_the_repository_does_nothing(branch: Branch) -> None:
    found = branch.preview({"docs/note.md": "hello\n"})

    assert not found
    assert found.change.edited == ()


def test_a_document_with_a_mistake_is_not_planned(branch: Branch) -> None:
    found = branch.preview({"jobs/team/third.yaml": "kind: Job\n"})

    assert found.is_refused
    assert {problem.file for problem in found.problems} == {"jobs/team/third.yaml"}
    assert found.after is None


def test_a_mistake_that_main_has_already_is_not_this_changes(branch: Branch) -> None:
    branch.fleet.commit({"jobs/team/broken.yaml": "kind: Job\n"})
    branch.clone.pull()
    found = branch.preview(branch.fleet.job("third", priority="P4"))

    assert found.problems == ()
    assert [each.job for each in found.jobs] == ["team/third"]


def test_a_broken_conf_refuses_the_change(branch: Branch) -> None:
    found = branch.preview({"conf/headway.yaml": "cluster: [\n"})

    assert found.is_refused
    assert found.problems[0].file == "conf/headway.yaml"
