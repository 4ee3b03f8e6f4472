"""What may an operator decide about history?  To accept a main that was rewritten.

A main whose tip does not descend from the commit acted on before stops launches and cancels.
Accepting one commit moves the cursor there, by a status commit of its own, so that who went on
from where is in ``git log`` like everything else.
"""

from dataclasses import replace
from pathlib import Path
from typing import Protocol

from reconciler.domain.units import CommitId, Instant
from reconciler.engine.logging import Log
from reconciler.errors import BackendError, UsageError
from reconciler.specs.serialize import cursor_to_json
from reconciler.store.commit_message import DESIRED, EPOCH
from reconciler.store.git.remote import remote_refs
from reconciler.store.status_store import StatusStore
from reconciler.store.status_tree import CURSOR_FILE

STATUS_REFS = "refs/heads/status/"


class Descent(Protocol):
    """Main, as far as its ancestry goes."""

    def fetch(self) -> CommitId:
        """Return main's tip."""
        ...

    def is_rewritten(self, cursor: CommitId | None, tip: CommitId) -> bool:
        """Return whether ``tip`` does not descend from ``cursor``."""
        ...


def accept_history(
    accepted: CommitId, *, source: Descent, statuses: StatusStore, now: Instant, log: Log
) -> None:
    """Record that main is acted on from ``accepted`` on.

    Raises ``UsageError`` where main does not descend from ``accepted``: that would only stop it
    again.  Does nothing where main was not rewritten.
    """
    tip = source.fetch()
    if source.is_rewritten(accepted, tip):
        raise UsageError(
            f"main is at {tip}, which does not descend from {accepted}; look at what main holds "
            "and accept its tip, or a commit below it"
        )
    parent = statuses.fetch()
    if parent is None:
        raise BackendError(f"{statuses.ref} is gone from the remote", retryable=False)
    cursor = statuses.read(parent).cursor
    if cursor is None or not source.is_rewritten(cursor.desired, tip):
        log.event("history-not-rewritten", commit=tip)
        return
    statuses.commit(
        parent,
        {CURSOR_FILE: cursor_to_json(replace(cursor, desired=accepted))},
        _message(cursor.desired, accepted, statuses.held.epoch if statuses.held else 0),
        at=now,
    )
    log.event("history-accepted", before=cursor.desired, commit=accepted)


def _message(before: CommitId, accepted: CommitId, epoch: int) -> str:
    return (
        "history: a rewritten main was accepted by hand\n\n"
        f"main was at {before}; it goes on from {accepted}\n\n"
        f"{DESIRED}: {accepted}\n{EPOCH}: {epoch}\n"
    )


def served_clusters(repo: Path, remote: str) -> list[str]:
    """Return the clusters that have a status branch on the remote, sorted."""
    found = remote_refs(repo, remote, f"{STATUS_REFS}*")
    return sorted(name.removeprefix(STATUS_REFS) for name in found)


def refuse_renamed_cluster(statuses: StatusStore) -> None:
    """Raise ``BackendError`` where this cluster is new and the repository serves another.

    A repository serves one cluster.  A changed id would start everything a second time while
    the runs of the old id go on.
    """
    served = served_clusters(statuses.repo, statuses.remote)
    if statuses.cluster in served or not served:
        return
    old = served[0]
    raise BackendError(
        f"this repository has the status of cluster {', '.join(served)}, and none of "
        f"{statuses.cluster}: was the id in conf changed? Put it back; or, if no run of {old} is "
        f"left, begin anew with: git push {statuses.remote} "
        f"{STATUS_REFS}{old}:refs/archive/status/{old} :{STATUS_REFS}{old}",
        retryable=False,
    )
