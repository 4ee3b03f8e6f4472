"""What does main ask for, and since when?  Reads the desired side of the repository.

Only a complete read of a fetched commit ever leaves this module: a remote that does not answer,
a missing blob or a shallow clone raises, and nothing may be taken to be gone because of it.
"""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from reconciler.domain.job import Submission
from reconciler.domain.units import CommitId, Instant, JobId
from reconciler.errors import GitError
from reconciler.store.git.cat_file import GitTree
from reconciler.store.git.command import git, resolve
from reconciler.store.git.history import (
    author_of,
    brought_by,
    committed_at,
    is_ancestor,
    is_known,
    trailed,
)
from reconciler.store.git.remote import fetch_ref
from reconciler.store.submissions import submissions_between

ALLOW_PRUNE = "Headway-Allow-Prune"
LEFT_BEHIND = "refs/headway/left-behind"
"""Tips that a rewritten main left, one ref each, so that maintenance does not prune them."""


class SpecSource:
    """The branch people write, seen from one repository."""

    def __init__(self, repo: Path, remote: str, branch: str = "main") -> None:
        self.repo = repo
        self.remote = remote
        self.branch = branch
        self.ref = f"refs/headway/seen/{branch}"
        """Here: where the remote's branch was at the last fetch, wherever it went."""
        self._fetched_ref = f"refs/headway/fetched/{branch}"

    def fetch(self) -> CommitId:
        """Return the newest tip of the remote's branch.

        A tip that the branch was rewound from is kept in this repository: statuses name commits
        of it.  Raises ``GitError``: retryable where the remote does not answer, not where it
        answers and has no such branch.
        """
        tip = fetch_ref(self.repo, self.remote, f"refs/heads/{self.branch}", self._fetched_ref)
        self._keep_what_was_left(tip)
        if tip is None:
            raise GitError(
                f"the remote has no branch {self.branch}; nothing is read, so nothing is stopped",
                retryable=False,
            )
        return tip

    def _keep_what_was_left(self, tip: CommitId | None) -> None:
        seen = resolve(self.repo, self.ref)
        if tip == seen:
            return
        if seen is not None and (tip is None or not is_ancestor(self.repo, seen, tip)):
            git(self.repo, "update-ref", f"{LEFT_BEHIND}/{seen}", seen)
        if tip is not None:  # last, so that a crash before it only repeats the above
            git(self.repo, "update-ref", self.ref, tip)

    def tree(self, commit: CommitId) -> GitTree:
        """Return the files of a commit under ``conf/`` and ``jobs/``, read when first asked."""
        return GitTree(self.repo, commit)

    def is_rewritten(self, cursor: CommitId | None, tip: CommitId) -> bool:
        """Return True when ``tip`` does not descend from the commit last acted on."""
        return cursor is not None and not is_ancestor(self.repo, cursor, tip)

    def submissions_between(
        self, cursor: CommitId | None, tip: CommitId, *, also: Collection[str] = ()
    ) -> Mapping[JobId, Submission]:
        """Return the submissions of ``cursor..tip``; see ``store.submissions``."""
        return submissions_between(self.repo, cursor, tip, also=also)

    def allowed_prune(
        self, cursor: CommitId | None, tip: CommitId, is_admin: Callable[[str], bool]
    ) -> int:
        """Return how many deletions an admin allowed since ``cursor``; 0 without a cursor.

        Read from ``Headway-Allow-Prune: N`` trailers of commits whose author ``is_admin`` (asked
        with the e-mail in lower case); the largest counts.  A value that is no number is none.
        """
        if cursor is None or cursor == tip:
            return 0
        allowed = [
            int(value)
            for commit in trailed(self.repo, tip, trailer=ALLOW_PRUNE, since=cursor)
            if commit.values and is_admin(commit.author_email)
            for value in commit.values
            if value.isascii() and value.isdecimal() and len(value) <= 9
        ]
        return max(allowed, default=0)

    def author(self, tip: CommitId, path: str) -> str:
        """Return ``Name <e-mail>`` of who last changed ``path``, up to ``tip``."""
        return author_of(self.repo, path, tip)

    def brought_by(self, tip: CommitId, path: str) -> tuple[CommitId, str]:
        """Return the commit that last changed ``path``, up to ``tip``, and its author."""
        return brought_by(self.repo, path, tip)

    def committed_at(self, commit: CommitId) -> Instant:
        """Return the committer time of a commit."""
        return committed_at(self.repo, commit)

    def is_known(self, commit: CommitId) -> bool:
        """Return True when this repository has the commit."""
        return is_known(self.repo, commit)
