import random
from pathlib import Path

import pytest

from reconciler.domain.job import Submission
from reconciler.domain.units import CommitId, Instant
from reconciler.errors import GitError
from reconciler.store.submissions import generation_of, submissions_between
from tests.git_worlds import Remote, run_git

JOB = "jobs/team/job.yaml"


def document(generation: int | None = None, note: str = "") -> str:
    text = f"api_version: headway/v1\nkind: Job\n# {note}\n"
    return text if generation is None else f"{text}generation: {generation}\n"


def seen(remote: Remote, cursor: CommitId | None, tip: CommitId) -> dict[str, CommitId]:
    """Return job to submission commit."""
    found = submissions_between(remote.path, cursor, tip)
    return {str(job): each.commit for job, each in found.items()}


def test_a_job_was_submitted_by_the_commit_that_added_it(remote: Remote) -> None:
    remote.commit({"README.md": "x"})
    added = remote.commit({JOB: document()}, at=5000)
    tip = remote.commit({JOB: document(note="edited")})

    assert submissions_between(remote.path, None, tip) == {
        "team/job": Submission(commit=added, committed_at=Instant(5000))
    }


def test_only_what_the_range_brought_is_reported(remote: Remote) -> None:
    cursor = remote.commit({JOB: document(), "jobs/team/old.yaml": document()})
    added = remote.commit({"jobs/team/new.yaml": document()})
    tip = remote.commit({JOB: document(note="an edit is no submission")})

    assert seen(remote, cursor, tip) == {"team/new": added}
    assert seen(remote, tip, tip) == {}


def test_a_deleted_and_added_job_is_a_new_submission(remote: Remote) -> None:
    remote.commit({JOB: document()})
    cursor = remote.commit({JOB: None})
    again = remote.commit({JOB: document()})

    assert seen(remote, cursor, again) == {"team/job": again}
    assert seen(remote, None, again) == {"team/job": again}


def test_a_job_that_went_and_came_back_between_two_looks_is_a_new_submission(
    remote: Remote,
) -> None:
    """The two trees are equal; only the log tells."""
    cursor = remote.commit({JOB: document()})
    remote.commit({JOB: None})
    again = remote.commit({JOB: document()})
    tip = remote.commit({"README.md": "x"})

    assert seen(remote, cursor, tip) == {"team/job": again}


def test_a_job_added_and_deleted_between_two_looks_never_was(remote: Remote) -> None:
    cursor = remote.commit({"README.md": "x"})
    remote.commit({JOB: document()})
    tip = remote.commit({JOB: None})

    assert seen(remote, cursor, tip) == {}


def test_a_raised_generation_is_a_new_submission(remote: Remote) -> None:
    cursor = remote.commit({JOB: document()})
    raised = remote.commit({JOB: document(2)})
    tip = remote.commit({JOB: document(2, "edited after")})

    assert seen(remote, cursor, tip) == {"team/job": raised}
    assert seen(remote, None, tip) == {"team/job": raised}
    assert seen(remote, raised, tip) == {}


def test_writing_generation_one_out_is_no_submission(remote: Remote) -> None:
    cursor = remote.commit({JOB: document()})
    tip = remote.commit({JOB: document(1)})

    assert seen(remote, cursor, tip) == {}
    assert seen(remote, None, tip) == {"team/job": cursor}


def test_a_lowered_generation_returns_to_the_earlier_submission(remote: Remote) -> None:
    first = remote.commit({JOB: document(1)})
    cursor = remote.commit({JOB: document(2)})
    tip = remote.commit({JOB: document(1, "back")})

    assert seen(remote, cursor, tip) == {"team/job": first}
    assert seen(remote, None, tip) == {"team/job": first}


def test_raised_and_lowered_between_two_looks_is_as_before(remote: Remote) -> None:
    cursor = remote.commit({JOB: document(1)})
    remote.commit({JOB: document(2)})
    tip = remote.commit({JOB: document(1, "back")})

    assert seen(remote, cursor, tip) == {}


def test_raised_lowered_and_raised_again_is_the_first_raise(remote: Remote) -> None:
    remote.commit({JOB: document(1)})
    raised = remote.commit({JOB: document(2)})
    cursor = remote.commit({JOB: document(1, "back")})
    tip = remote.commit({JOB: document(2, "again")})

    assert seen(remote, cursor, tip) == {"team/job": raised}


def test_an_earlier_life_of_the_file_does_not_count(remote: Remote) -> None:
    remote.commit({JOB: document(2)})
    remote.commit({JOB: None})
    cursor = remote.commit({JOB: document(1)})
    tip = remote.commit({JOB: document(2)})

    assert seen(remote, cursor, tip) == {"team/job": tip}


def test_a_merged_branch_submits_when_it_is_merged(remote: Remote) -> None:
    cursor = remote.commit({"README.md": "x"})
    side = remote.commit({JOB: document()}, branch="side", parents=(cursor,), at=1000)
    remote.commit({"README.md": "y"})
    tip = remote.tip()
    assert tip is not None
    merge = remote.commit({JOB: document()}, parents=(tip, side), at=9000)

    found = submissions_between(remote.path, cursor, merge)

    assert found == {"team/job": Submission(commit=merge, committed_at=Instant(9000))}


def test_main_merged_into_a_branch_that_became_main_restarts_nothing(remote: Remote) -> None:
    base = remote.commit({"README.md": "x"})
    cursor = remote.commit({JOB: document()})
    side = remote.commit({"jobs/team/new.yaml": document()}, branch="side", parents=(base,))
    tip = remote.commit({JOB: document()}, branch="side", parents=(side, cursor))

    assert seen(remote, cursor, tip) == {"team/new": side}


def test_a_changed_mode_is_no_deletion(remote: Remote) -> None:
    cursor = remote.commit({JOB: document()})
    remote.plant([("100755", JOB, document().encode())])
    tip = remote.commit({JOB: document()})

    assert seen(remote, cursor, tip) == {}


def test_files_that_name_no_job_are_no_submissions(remote: Remote) -> None:
    tip = remote.plant(
        [
            ("100644", "jobs/README.md", b"x"),
            ("100644", "jobs/team/UPPER.yaml", b"x"),
            ("100644", "jobs/team/deep/x.yaml", b"x"),
            ("160000", "jobs/team/module.yaml", b""),
            ("100644", "jobs/team/ok.yaml", b"x: y\n"),
        ]
    )

    assert list(seen(remote, None, tip)) == ["team/ok"]


def test_an_edit_that_breaks_the_document_changes_no_generation(remote: Remote) -> None:
    first = remote.commit({JOB: document(3)})
    broken = remote.commit({JOB: "generation: [3\n\t"})
    tip = remote.commit({JOB: document(3, "mended")})

    assert seen(remote, first, broken) == {}
    assert seen(remote, first, tip) == {}
    assert seen(remote, broken, tip) == {"team/job": first}, "as it was, whatever lay between"
    assert seen(remote, None, tip) == {"team/job": first}


def test_paths_can_be_asked_for_whatever_the_range_brought(remote: Remote) -> None:
    first = remote.commit({JOB: document()})
    tip = remote.commit({"README.md": "x"})

    found = submissions_between(remote.path, tip, tip, also=[JOB, "jobs/team/none.yaml"])

    assert {job: each.commit for job, each in found.items()} == {"team/job": first}


def test_many_raised_at_once_are_found_without_naming_each_to_git(remote: Remote) -> None:
    jobs = [f"jobs/t/j{number}.yaml" for number in range(600)]
    cursor = remote.commit({path: document() for path in jobs})
    raised = remote.commit({path: document(2) for path in jobs})

    assert set(seen(remote, cursor, raised).values()) == {raised}
    assert len(seen(remote, cursor, raised)) == 600


@pytest.mark.parametrize("seed", [1, 2])
def test_the_whole_history_and_its_steps_agree(remote: Remote, seed: int) -> None:
    """What a first start finds is what a reconciler that watched every commit remembers, and
    what a slow one that looks at every fourth finds."""
    chance = random.Random(seed)
    paths = [JOB, "jobs/a/b.yaml", "jobs/a/c.yaml"]
    watched: dict[str, CommitId] = {}
    slow: dict[str, CommitId] = {}
    looked: CommitId | None = None
    cursor: CommitId | None = None
    for step in range(24):
        files: dict[str, str | None] = {}
        for path in chance.sample(paths, chance.randint(1, 2)):
            is_deleted = chance.random() < 0.25
            files[path] = None if is_deleted else document(chance.randint(1, 3), f"{step}")
        tip = remote.commit(files)
        there = run_git(remote.path, "ls-tree", "-r", "--name-only", tip).splitlines()
        watched |= seen(remote, cursor, tip)
        watched = {job: at for job, at in watched.items() if f"jobs/{job}.yaml" in there}
        cursor = tip
        whole = seen(remote, None, tip)
        assert watched == whole
        if step % 4 == 3:
            slow |= seen(remote, looked, tip)
            slow = {job: at for job, at in slow.items() if f"jobs/{job}.yaml" in there}
            looked = tip
            assert slow == whole


def test_a_shallow_clone_cannot_tell_and_says_so(remote: Remote, tmp_path: Path) -> None:
    remote.commit({JOB: document()})
    tip = remote.commit({JOB: document(2)})
    run_git(tmp_path, "clone", "--quiet", "--bare", "--depth=1", remote.url, "shallow.git")

    with pytest.raises(GitError, match="shallow"):
        submissions_between(tmp_path / "shallow.git", None, tip)


@pytest.mark.parametrize(
    ("text", "generation"),
    [
        ("kind: Job\n", 1),
        ("kind: Job\ngeneration: 7\n", 7),
        ("generation: 7 # the seventh\r\nkind: Job\r\n", 7),
        ("\ufeffgeneration: 7\n", 7),
        ("kind: Job\ngeneration: 12", 12),
        ("'generation': 3\n", 3),
        ("{kind: Job, generation: 5}\n", 5),
        ("train: {x: 1}\nrun:\n  generation: 9\n", 1),
        ("notes: |\n  generation: 9\ngeneration: 2\n", 2),
        ("# generation: 9\ngeneration: 2\n", 2),
        ('text: "a\n  generation: 9"\n', 1),
        ("generation: 0\n", None),
        ("generation: -3\n", None),
        ("generation: two\n", None),
        ("generation: 1.5\n", None),
        ("generation: true\n", None),
        ("generation: [1\n", None),
    ],
)
def test_the_generation_is_the_top_level_key(text: str, generation: int | None) -> None:
    assert generation_of(text.encode()) == generation
