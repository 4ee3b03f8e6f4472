"""Does a recorded decision follow from commits alone?  Plans it again and compares.

For a status commit: the statuses of its parent, the inputs it recorded, main at the commit those
name.  Assembled and planned by the same code as live, without a memo, they must give the digest
of the snapshot and of the plan that the commit's trailers state.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import CommitId, Digest
from reconciler.errors import GitError
from reconciler.planning.plan import plan
from reconciler.snapshots.assemble import Assembler
from reconciler.snapshots.inputs import Inputs
from reconciler.snapshots.recorded import recorded_at
from reconciler.snapshots.snapshot_digest import snapshot_digest
from reconciler.specs.reading import SpecReading, read_specs
from reconciler.store.commit_message import Message, parse_message
from reconciler.store.git.command import full_id, git
from reconciler.store.git.history import refuse_shallow
from reconciler.store.spec_source import SpecSource
from reconciler.store.status_tree import read_status_tree

READINGS_KEPT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One commit, what it states and what was derived."""

    commit: CommitId
    subject: str
    stated_plan: Digest | None
    """None: the commit records no decision, so there is nothing to derive."""
    plan: Digest | None = None
    stated_inputs: Digest | None = None
    inputs: Digest | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    """What the decision was made with."""

    @property
    def is_decision(self) -> bool:
        return self.stated_plan is not None

    @property
    def holds(self) -> bool:
        """True where what the commit states was derived again."""
        return self.stated_plan == self.plan and self.stated_inputs == self.inputs


class Replayer:
    """Replays commits of one repository; reads each commit of main once."""

    def __init__(self, repo: Path) -> None:
        refuse_shallow(repo)
        self._repo = repo
        self._source = SpecSource(repo, remote="unused")
        self._readings: dict[CommitId, SpecReading] = {}

    def replay(self, commit: CommitId) -> Replayed:
        """Return what ``commit`` states and what follows from the commits before it.

        Raises ``GitError`` where one of them is not in this repository.
        """
        parents, message = self._about(commit)
        if message.plan is None:
            return Replayed(commit=commit, subject=message.subject, stated_plan=None)
        snapshot, inputs = self._snapshot(commit, parents)
        planned, _ = plan(snapshot)
        return Replayed(
            commit=commit,
            subject=message.subject,
            stated_plan=message.plan,
            plan=planned.digest,
            stated_inputs=message.inputs,
            inputs=snapshot_digest(snapshot),
            versions=inputs.versions,
        )

    def snapshot(self, commit: CommitId) -> Snapshot | None:
        """Return what was known when ``commit`` was decided; None where it records no decision.

        Raises like :meth:`replay`.
        """
        parents, message = self._about(commit)
        return None if message.plan is None else self._snapshot(commit, parents)[0]

    def _snapshot(self, commit: CommitId, parents: list[CommitId]) -> tuple[Snapshot, Inputs]:
        inputs = recorded_at(self._repo, commit).inputs()
        statuses = read_status_tree(self._repo, parents[0])
        reading = self._reading(inputs)
        return Assembler(self._source).assemble(reading, statuses, inputs), inputs

    def replay_all(self, tip: CommitId) -> Iterator[Replayed]:
        """Yield every commit of the first-parent line of ``tip``, oldest first."""
        for commit in reversed(self._line(tip)):
            yield self.replay(commit)

    def newest_decision(self, tip: CommitId) -> CommitId:
        """Return the newest commit up to ``tip`` that records a decision; ``tip`` if none does."""
        for commit in self._line(tip):
            if self._about(commit)[1].plan is not None:
                return commit
        return tip

    def _line(self, tip: CommitId) -> list[CommitId]:
        listed = git(self._repo, "rev-list", "--first-parent", full_id(tip)).text
        return [full_id(each) for each in listed.split()]

    def _about(self, commit: CommitId) -> tuple[list[CommitId], Message]:
        text = git(self._repo, "show", "--no-patch", "--format=%P%n%B", full_id(commit)).text
        parents, _, message = text.partition("\n")
        return [full_id(each) for each in parents.split()], parse_message(message)

    def _reading(self, inputs: Inputs) -> SpecReading:
        if inputs.desired not in self._readings:
            try:
                reading = read_specs(self._source.tree(inputs.desired))
            except GitError as error:
                raise GitError(
                    f"main at {inputs.desired} is not in this repository ({error}); fetch the "
                    "branch it was on, or the archive of a rewritten main",
                    retryable=False,
                ) from error
            if len(self._readings) >= READINGS_KEPT:
                del self._readings[next(iter(self._readings))]
            self._readings[inputs.desired] = reading
        return self._readings[inputs.desired]
