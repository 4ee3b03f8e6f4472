"""How does a decision become fact?  Reads and writes the branch ``status/<cluster>``.

The remote's branch is the only truth.  A commit is written locally, pushed by compare-and-swap
from the commit it was planned on, and only then remembered as seen; so a crash at any point
leaves either nothing or the whole commit, and the next fetch finds which.  This repository's own
``refs/heads/status/<cluster>`` is the last tip seen: where the remote no longer descends from it,
or where a commit lies on it that no reconciler made, everything stops until a person looks.
"""

import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from reconciler.domain.units import CommitId, Instant
from reconciler.errors import BackendError, DeposedError, StaleRevisionError
from reconciler.specs.serialize import LeaseRecord, lease_from_json
from reconciler.store.git.cat_file import list_tree, read_blobs
from reconciler.store.git.command import NO_OBJECT, full_id, git, resolve
from reconciler.store.git.fast_import import write_commit
from reconciler.store.git.history import is_ancestor, trailed
from reconciler.store.git.remote import RefUpdate, fetch_ref, push
from reconciler.store.status_tree import (
    LEASE_FILE,
    StatusTree,
    read_next_tree,
    read_status_tree,
)

EPOCH_TRAILER = "Headway-Epoch"
_CLUSTER = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?", re.ASCII)


class StatusStore:
    """The status branch of one cluster, seen from one reconciler's repository."""

    def __init__(self, repo: Path, remote: str, cluster: str) -> None:
        if not _CLUSTER.fullmatch(cluster):
            raise BackendError(
                f"cluster id {cluster[:80]!r} cannot name a branch: use lower-case letters, "
                "digits, - and _, at most 63",
                retryable=False,
            )
        self.repo = repo
        self.remote = remote
        self.cluster = cluster
        self.identity = f"headway-{cluster}"
        self.ref = f"refs/heads/status/{cluster}"
        """On the remote; here: the last tip seen there."""
        self.lease_ref = f"refs/headway/lease/{cluster}"
        self.held: LeaseRecord | None = None
        """What ``store.lease`` acquired; without it nothing can be written."""
        self.conflicts = 0
        """Lost push races since the start."""
        self._fetched_ref = f"refs/headway/fetched/status/{cluster}"
        self._last: StatusTree | None = None
        self._lock = threading.RLock()
        """The lease is renewed beside the cycles, and may fetch when it finds itself doubted."""

    def fetch(self) -> CommitId | None:
        """Return the tip of the remote's branch; None where there is none yet.

        Raises ``GitError`` when the remote does not answer, and ``BackendError`` (not retryable)
        when the branch was rewound, deleted, or holds a commit that no reconciler made.
        """
        with self._lock:
            seen = self.seen()
            tip = fetch_ref(self.repo, self.remote, self.ref, self._fetched_ref)
            if tip == seen:
                return tip
            if seen is not None and (tip is None or not is_ancestor(self.repo, seen, tip)):
                raise BackendError(self._rewound(seen, tip), retryable=False)
            if tip is not None:
                self._refuse_foreign(seen, tip)
                self._remember(tip, seen)
            return tip

    def seen(self) -> CommitId | None:
        """Return the last tip seen, from this repository alone."""
        return resolve(self.repo, self.ref)

    def read(self, commit: CommitId) -> StatusTree:
        """Return all that a status commit holds; only what changed since the last call is read.

        Raises ``GitError`` or ``FormatError`` (naming the file) where anything is unreadable.
        """
        with self._lock:
            last = self._last
            if last is None:
                self._last = read_status_tree(self.repo, commit)
            elif last.commit != commit:
                self._last = read_next_tree(self.repo, last, commit)
            assert self._last is not None
            return self._last

    def read_lease(self, commit: CommitId) -> LeaseRecord | None:
        """Return who may write at ``commit``; reads one file at most."""
        last = self._last
        if last is not None and last.commit == commit:
            return last.lease
        entry = list_tree(self.repo, commit, (LEASE_FILE,)).get(LEASE_FILE)
        if entry is None:
            return None
        return lease_from_json(read_blobs(self.repo, (entry.oid,))[entry.oid])

    def commit(
        self,
        parent: CommitId,
        files: Mapping[str, bytes | None],
        message: str,
        *,
        at: Instant | None = None,
    ) -> CommitId:
        """Make ``files`` fact on top of ``parent`` and return the new tip.

        None as content deletes a file.  Returns ``parent`` where nothing would change: there is
        no empty commit.  Raises ``DeposedError`` when ``parent`` says that another reconciler
        holds the lease, ``StaleRevisionError`` when the branch is not at ``parent`` any more
        (drop the plan, fetch, plan again), ``GitError`` when the remote refuses or is silent.
        """
        recorded = self.read_lease(parent)
        if self.held is None or recorded != self.held:
            raise DeposedError(
                f"{self.ref} is held by "
                + (f"{recorded.holder} (epoch {recorded.epoch})" if recorded else "nobody")
                + (f", this is epoch {self.held.epoch}" if self.held else ", not by this process")
                + ": nothing was written"
            )
        return self.land(parent, files, message, at=at)

    def land(
        self,
        parent: CommitId | None,
        files: Mapping[str, bytes | None],
        message: str,
        *,
        at: Instant | None = None,
        together_with: Sequence[RefUpdate] = (),
    ) -> CommitId:
        """Write, push and remember, without asking for the lease: how it is taken.

        ``together_with`` moves in the same atomic push.  Raises like :meth:`commit`.
        """
        with self._lock:
            seen = self.seen()
            if parent != seen:
                self.conflicts += 1
                raise StaleRevisionError(f"{self.ref} was planned on {parent} and is at {seen}")
            written = write_commit(
                self.repo,
                parent=parent,
                files=files,
                message=message,
                identity=self.identity,
                at=at,
            )
            if parent is not None and not written.changes_tree and not together_with:
                return parent
            update = RefUpdate(ref=self.ref, old=parent, new=written.commit)
            try:
                push(self.repo, self.remote, (update, *together_with))
            except StaleRevisionError:
                self.conflicts += 1
                raise
            self._remember(written.commit, parent)
            return written.commit

    def accept(self, tip: CommitId | None) -> None:
        """Take ``tip`` as the last tip seen, whatever was before: a person decided so."""
        if tip is None:
            git(self.repo, "update-ref", "-d", self.ref)
        else:
            git(self.repo, "update-ref", self.ref, full_id(tip))

    def _remember(self, tip: CommitId, before: CommitId | None) -> None:
        git(self.repo, "update-ref", self.ref, tip, before or NO_OBJECT, retryable=True)

    def _refuse_foreign(self, seen: CommitId | None, tip: CommitId) -> None:
        """Every commit since the last look is ours; on the first look the tip is enough."""
        limit = 1 if seen is None else None
        for commit in trailed(self.repo, tip, trailer=EPOCH_TRAILER, since=seen, limit=limit):
            if commit.committer_name != self.identity or not commit.values:
                raise BackendError(
                    f"{self.ref} holds {commit.commit}, which {self.identity} did not write "
                    f"(committer {commit.committer_name[:80]!r}). headway stops: look at it, then "
                    f"either push the branch back to {seen or 'its last good commit'}, or keep it: "
                    f"git -C {self.repo} update-ref {self.ref} {tip}",
                    retryable=False,
                )

    def _rewound(self, seen: CommitId, tip: CommitId | None) -> str:
        return (
            f"{self.ref} was at {seen} and is "
            + (f"at {tip}, which does not descend from it" if tip else "gone")
            + ". headway stops rather than lose what was recorded. Put it back: "
            f"git -C {self.repo} push --force {self.remote} {seen}:{self.ref}; or keep what is "
            f"there: git -C {self.repo} update-ref "
            + (f"{self.ref} {tip}" if tip else f"-d {self.ref}")
        )
