"""Recorded inputs, read back from real commits."""

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.domain.attempt import Observation, ObservedState
from reconciler.domain.units import AttemptId, CommitId, Instant
from reconciler.errors import GitError
from reconciler.snapshots.inputs import Inputs, Recorded, encode
from reconciler.snapshots.recorded import recorded_at
from reconciler.store.git.fast_import import write_commit

FIRST = Inputs(desired=CommitId("c" * 40), now=Instant(1000), looked_at=Instant(999))


class Branch:
    def __init__(self, repo: Path) -> None:
        self.repo = repo
        self.tip: CommitId | None = None
        self.last: Recorded | None = None

    def decide(self, inputs: Inputs) -> CommitId:
        files, self.last = encode(inputs, self.last)
        return self.write(files)

    def write(self, files: Mapping[str, bytes | None]) -> CommitId:
        self.tip = write_commit(
            self.repo, parent=self.tip, files=files, message="m", identity="reconciler-x",
            at=Instant(1),
        ).commit  # fmt: skip
        return self.tip


@pytest.fixture
def branch(tmp_path: Path) -> Branch:
    repo = tmp_path / "repo.git"
    subprocess.run(["git", "init", "-q", "--bare", str(repo)], check=True)
    return Branch(repo)


def test_each_commit_gives_its_own_inputs(branch: Branch) -> None:
    branch.write({".headway/lease.json": b"{}\n"})
    recorded = {
        branch.decide(inputs): inputs
        for inputs in (replace(FIRST, now=Instant(1000 + 15 * n)) for n in range(4))
    }

    for commit, inputs in recorded.items():
        assert recorded_at(branch.repo, commit).inputs() == inputs


def test_a_commit_that_decides_nothing_gives_those_of_the_decision_before(
    branch: Branch,
) -> None:
    branch.decide(FIRST)
    branch.decide(replace(FIRST, now=Instant(1015)))
    tip = branch.write({".headway/lease.json": b"{}\n"})

    assert recorded_at(branch.repo, tip).inputs().now == 1015


def test_split_inputs_are_read_from_the_commit_that_wrote_them(branch: Branch) -> None:
    ids = [AttemptId(f"t.j{n}-g1-a1-0123456789") for n in range(1000)]
    seen = {each: Observation(attempt=each, state=ObservedState.RUNNING) for each in ids}
    many = replace(FIRST, observations=seen)
    first = branch.decide(many)
    second = branch.decide(replace(many, now=Instant(1015)))

    assert recorded_at(branch.repo, first).inputs() == many
    assert recorded_at(branch.repo, second).inputs() == replace(many, now=Instant(1015))


def test_a_branch_without_a_decision_is_said_to_have_none(branch: Branch) -> None:
    tip = branch.write({".headway/lease.json": b"{}\n"})

    with pytest.raises(GitError, match="do not reach back"):
        recorded_at(branch.repo, tip)
