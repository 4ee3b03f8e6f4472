"""Who may act?  One reconciler a cluster, by an epoch on the status branch and a beating ref.

The epoch is the fence: ``.headway/lease.json`` names epoch and holder, changes only when the
lease is taken, and every status commit is refused to anyone whose epoch is not the one recorded.
The beat is only a hint that the holder lives: ``refs/headway/lease/<cluster>`` points to a
parentless commit that is replaced by compare-and-swap every third of the lease.  A standby that
sees it unmoved for two leases of its own clock takes the next epoch, in one atomic push that
fails if the holder beat meanwhile.  The holder itself must not act once its last beat is a lease
old (``is_fresh``), so it has stopped before anyone can have taken over.

Three ways lead to an immediate take-over: no branch yet, no beat (the holder left cleanly), and
the same holder id.  The id lies in the state folder, which one process at a time may lock, so the
same id means that the process that held it is gone.

The beats of one epoch are a small ring of commits, made again with the same content, so a beat
every ten seconds leaves no garbage in the remote.
"""

import re
import secrets
import socket
from pathlib import Path

from reconciler.domain.units import CommitId, Instant, Seconds, rfc3339
from reconciler.errors import BackendError, DeposedError, StaleRevisionError
from reconciler.specs.serialize import LeaseRecord, lease_to_json
from reconciler.store.git.command import full_id, git
from reconciler.store.git.history import landed
from reconciler.store.git.remote import RefUpdate, push, remote_ref
from reconciler.store.status_store import EPOCH_TRAILER, StatusStore
from reconciler.store.status_tree import LEASE_FILE

RING = 60
"""Beats before the same commit comes again; a standby looks at every beat or two."""
TRIES = 3
_HOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,126}", re.ASCII)


class Lease:
    """One process's claim to act for a cluster.  Instants are wall clock and only shown;
    ``monotonic_s`` is this machine's clock that never goes back (``CLOCK_BOOTTIME`` where it
    exists, so that sleep counts), and decides."""

    def __init__(self, store: StatusStore, *, holder: str, lease_s: Seconds) -> None:
        if not _HOLDER.fullmatch(holder):
            raise BackendError(f"{holder[:80]!r} cannot name a holder", retryable=False)
        self.store = store
        self.holder = holder
        self.lease_s = lease_s
        self.epoch = 0
        """0 until the lease is acquired."""
        self._beat: CommitId | None = None
        self._beats = 0
        self._taken_at = Instant(0)
        self._last_beat_s = 0.0
        self._watched: CommitId | None = None
        self._watched_since_s = 0.0

    def acquire(self, now: Instant, monotonic_s: float) -> int:
        """Take the lease and return the new epoch.

        Raises ``DeposedError`` while another reconciler holds it, naming it and how long its
        beat has not moved; a standby calls again every third of the lease.  Raises like
        ``StatusStore.fetch`` when the branch cannot be trusted or the remote does not answer.
        """
        for _ in range(TRIES):
            try:
                return self._take(now, monotonic_s)
            except StaleRevisionError as error:
                lost = error  # to another reconciler, or to our own push of before a crash: look
        raise DeposedError(f"the lease of {self.store.cluster} went to somebody else: {lost}")

    def is_due(self, monotonic_s: float) -> bool:
        """Return True when the next beat should be made: a third of the lease has passed."""
        return monotonic_s - self._last_beat_s >= self.lease_s / 3

    def is_fresh(self, monotonic_s: float) -> bool:
        """Return True while nobody else can have taken over: act only then."""
        return self.store.held is not None and monotonic_s - self._last_beat_s < self.lease_s

    def beat(self, monotonic_s: float) -> None:
        """Show that this holder lives.

        Raises ``DeposedError`` when another one took over, ``GitError`` when the remote does not
        answer (try again while :meth:`is_fresh`).
        """
        held = self._held()
        self._beats += 1
        following = self._make_beat(held)
        try:
            self._move(self._beat, following)
        except StaleRevisionError:
            self._confirm(held)  # the ref was moved or deleted by hand: the epoch decides
            self._move(
                remote_ref(self.store.repo, self.store.remote, self.store.lease_ref), following
            )
        self._beat = following
        self._last_beat_s = monotonic_s

    def release(self) -> None:
        """Leave cleanly, so that the next reconciler need not wait.  Keeps nothing it held.

        Raises ``GitError`` when the remote does not answer; the lease then runs out by itself.
        """
        if self.store.held is None:
            return
        self.store.held = None
        try:
            self._move(self._beat, None)
        except StaleRevisionError:
            pass  # somebody took over already
        finally:
            self._beat = None
            self.epoch = 0

    def _take(self, now: Instant, monotonic_s: float) -> int:
        tip = self.store.fetch()
        recorded = None if tip is None else self.store.read_lease(tip)
        beat = remote_ref(self.store.repo, self.store.remote, self.store.lease_ref)
        if tip and recorded and recorded.holder != self.holder and beat is not None:
            self._refuse_while_alive(tip, recorded, beat, monotonic_s)
        taken = LeaseRecord(epoch=recorded.epoch + 1 if recorded else 1, holder=self.holder)
        self._taken_at = now
        self._beats = 0
        first = self._make_beat(taken)
        self.store.land(
            tip,
            {LEASE_FILE: lease_to_json(taken)},
            f"lease: epoch {taken.epoch} taken by {self.holder}\n\n"
            f"{EPOCH_TRAILER}: {taken.epoch}\n",
            at=now,
            together_with=(RefUpdate(ref=self.store.lease_ref, old=beat, new=first),),
        )
        self.epoch = taken.epoch
        self.store.held = taken
        self._beat = first
        self._last_beat_s = monotonic_s
        return taken.epoch

    def _held(self) -> LeaseRecord:
        if self.store.held is None:
            raise DeposedError(f"this process does not hold the lease of {self.store.cluster}")
        return self.store.held

    def _confirm(self, held: LeaseRecord) -> None:
        tip = self.store.fetch()
        recorded = None if tip is None else self.store.read_lease(tip)
        if recorded != held:
            self.store.held = None
            raise DeposedError(
                f"epoch {held.epoch} of {self.store.cluster} was deposed by "
                + (f"{recorded.holder} (epoch {recorded.epoch})" if recorded else "nobody")
            )

    def _refuse_while_alive(
        self, tip: CommitId, recorded: LeaseRecord, beat: CommitId, monotonic_s: float
    ) -> None:
        if beat != self._watched:
            self._watched, self._watched_since_s = beat, monotonic_s
        unmoved_s = monotonic_s - self._watched_since_s
        if unmoved_s < 2 * self.lease_s:
            taken = landed(self.store.repo, tip, paths=(LEASE_FILE,), limit=1)
            since = "".join(f", taken at {rfc3339(each.committed_at)}" for each in taken)
            raise DeposedError(
                f"cluster {self.store.cluster} is held by {recorded.holder} (epoch "
                f"{recorded.epoch}{since}), whose beat has not moved for {unmoved_s:.0f} s here. "
                f"A standby takes over after {2 * self.lease_s} s without a beat"
            )

    def _move(self, old: CommitId | None, new: CommitId | None) -> None:
        update = RefUpdate(ref=self.store.lease_ref, old=old, new=new)
        push(self.store.repo, self.store.remote, (update,))

    def _make_beat(self, held: LeaseRecord) -> CommitId:
        """Write the parentless commit of this beat and return its id."""
        repo = self.store.repo
        empty_tree = git(repo, "mktree").text
        who = f"{self.store.identity} <{self.store.identity}@headway.invalid>"
        text = (
            f"tree {empty_tree}\n"
            f"author {who} {self._taken_at} +0000\ncommitter {who} {self._taken_at} +0000\n\n"
            f"lease: epoch {held.epoch} held by {held.holder} since {rfc3339(self._taken_at)}\n\n"
            f"beat {self._beats % RING}\n"
        )
        return full_id(git(repo, "hash-object", "-t", "commit", "-w", "--stdin",
                           stdin=text.encode()).text)  # fmt: skip


def holder_id(state: Path) -> str:
    """Return the id of whoever owns the folder ``state``: ``<host>-<8 hex>``, made once.

    The caller holds the folder's lock.  A copied folder on another machine keeps the id, so
    never copy one: move it.
    """
    path = state / "holder"
    try:
        known = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        known = ""
    if _HOLDER.fullmatch(known):
        return known
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:63].strip("-.") or "host"
    made = f"{host}-{secrets.token_hex(4)}"
    partial = path.with_suffix(".partial")
    partial.write_text(made + "\n", encoding="utf-8")
    partial.replace(path)
    return made
