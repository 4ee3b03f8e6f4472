"""Which commit moved a job's predicted start?  Plans every decision in between again.

Between two published forecasts lie decision commits.  Each is derived again from commits alone;
the first whose predicted start is past the middle of the move is the one.  Then the snapshot
before it is planned with one part of the snapshot after it at a time: the part that alone moves
the start is the cause.  A move that no part makes alone is told as such.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from pathlib import Path

from reconciler.domain.plan import Expectation
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import CommitId, Instant, JobId
from reconciler.engine.replay import Replayer
from reconciler.planning.forecast import MOVED_S
from reconciler.planning.plan import plan
from reconciler.store.git.command import git

CAUSE_SHARE = 0.5
"""A part that alone makes at least this much of the move is a cause of it."""


class Part(StrEnum):
    """What may change from one decision to the next."""

    MAIN = "main"
    """Specs, teams, policy: commits by people."""
    STATUSES = "statuses"
    """Jobs that started, ended, were stopped."""
    MACHINES = "machines"
    """Nodes and devices."""
    TIME = "time"
    """The clock: somebody runs longer than was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A predicted start that moved between two decisions."""

    before: CommitId
    after: CommitId
    """The decision with which it moved; both are commits of the status branch."""
    start_before: Instant
    start_after: Instant
    causes: tuple[Part, ...]
    """Parts that alone make at least half of the move."""
    main: tuple[CommitId, CommitId] | None
    """The commits of main before and after; None where main did not change."""
    changed_jobs: tuple[JobId, ...]
    """Jobs whose status differs between the two, sorted."""
    changed_nodes: tuple[str, ...]
    """``node-3: ready -> down``, sorted."""

    @property
    def moved_s(self) -> int:
        """By how much, in seconds; above 0 it became later."""
        return self.start_after - self.start_before


def find_move(repo: Path, job: JobId, older: CommitId, newer: CommitId) -> Move | None:
    """Return where the predicted start of ``job`` moved within ``older..newer``.

    None where no decision in between moves it by ten minutes or more.  Raises ``GitError`` where
    a commit it rests on is not in ``repo``.
    """
    replayer = Replayer(repo)
    seen: list[tuple[CommitId, Snapshot, Expectation]] = []
    for commit in _decisions(repo, older, newer):
        snapshot = replayer.snapshot(commit)
        if snapshot is None:
            continue
        expected = plan(snapshot)[0].forecast.get(job)
        if expected is not None:
            seen.append((commit, snapshot, expected))
    jumps = [
        (abs(after[2].start_p50 - before[2].start_p50), -at)
        for at, (before, after) in enumerate(pairwise(seen))
    ]
    if not jumps or max(jumps)[0] < MOVED_S:
        return None
    at = -max(jumps)[1]
    (before, old, was), (after, new, now) = seen[at], seen[at + 1]
    moved_s = now.start_p50 - was.start_p50
    return Move(
        before=before,
        after=after,
        start_before=was.start_p50,
        start_after=now.start_p50,
        causes=tuple(_causes(old, new, job, was, moved_s)),
        main=None
        if old.desired.commit == new.desired.commit
        else (old.desired.commit, new.desired.commit),
        changed_jobs=_changed_jobs(old, new),
        changed_nodes=_changed_nodes(old, new),
    )


def _decisions(repo: Path, older: CommitId, newer: CommitId) -> Sequence[CommitId]:
    listed = git(repo, "rev-list", "--first-parent", "--reverse", f"{older}..{newer}").text
    return [older, *(CommitId(each) for each in listed.split())]


def _causes(
    old: Snapshot, new: Snapshot, job: JobId, was: Expectation, moved_s: int
) -> Iterator[Part]:
    """Yield the parts that alone move the start by at least half of ``moved_s``, that way."""
    for part, mixed in _mixed(old, new).items():
        expected = plan(mixed)[0].forecast.get(job)
        if expected is None:
            continue
        alone_s = expected.start_p50 - was.start_p50
        if alone_s * moved_s > 0 and abs(alone_s) >= CAUSE_SHARE * abs(moved_s):
            yield part


def _mixed(old: Snapshot, new: Snapshot) -> Mapping[Part, Snapshot]:
    """Return the old snapshot with each part of the new one alone."""
    return {
        Part.MAIN: replace(
            old, desired=new.desired, teams=new.teams, policy=new.policy, sizes=new.sizes
        ),
        Part.STATUSES: replace(old, statuses=new.statuses, observations=new.observations),
        Part.MACHINES: replace(old, cluster=new.cluster),
        Part.TIME: replace(old, now=new.now),
    }


def _changed_jobs(old: Snapshot, new: Snapshot) -> tuple[JobId, ...]:
    every = sorted(old.statuses.keys() | new.statuses.keys())
    return tuple(job for job in every if old.statuses.get(job) != new.statuses.get(job))


def _changed_nodes(old: Snapshot, new: Snapshot) -> tuple[str, ...]:
    before = {node.name: node.state.value for node in old.cluster.nodes}
    after = {node.name: node.state.value for node in new.cluster.nodes}
    return tuple(
        f"{name}: {before.get(name, 'absent')} -> {after.get(name, 'absent')}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    )
