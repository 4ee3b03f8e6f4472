"""What will main's log say of a change once it is merged?  Nothing more than that it is newest."""

from collections.abc import Mapping

from reconciler.domain.job import Submission
from reconciler.domain.units import CommitId, Instant, JobId
from reconciler.ports import Tree
from reconciler.preview.revisions import Change
from reconciler.store.spec_source import SpecSource


class HeadHistory:
    """Main's history as it will be after the merge: the change is its newest commit."""

    def __init__(self, source: SpecSource, change: Change, tried: str | None, now: Instant) -> None:
        """``tried`` is the path of a document that overrides are tried on."""
        self._source = source
        self._now = now
        self._edited = {*change.edited, *([tried] if tried else ())}
        self._head = change.head

    def tree(self, commit: CommitId) -> Tree:
        return self._source.tree(commit)

    def is_known(self, commit: CommitId) -> bool:
        return self._source.is_known(commit)

    def submissions_between(
        self, cursor: CommitId | None, tip: CommitId
    ) -> Mapping[JobId, Submission]:
        return self._source.submissions_between(cursor, tip)

    def brought_by(self, tip: CommitId, path: str) -> tuple[CommitId, str]:
        if path in self._edited:
            return self._head, "this change"
        return self._source.brought_by(tip, path)

    def committed_at(self, commit: CommitId) -> Instant:
        return self._now if commit == self._head else self._source.committed_at(commit)
