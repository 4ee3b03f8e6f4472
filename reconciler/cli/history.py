"""What was decided, when, why, and at whose wish: the log of the status branch beside main's.

A change is read from the two status files a commit lies between, not from its message, so it is
whole however many jobs one commit moved.  Who wished it is the newest commit of main, up to the
one the decision was made on (``Headway-Desired``), that touched the job's file; merges are looked
through to who wrote it.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from reconciler.domain.attempt import Attempt
from reconciler.domain.reservation import ReservationStatus
from reconciler.domain.status import JobStatus
from reconciler.domain.units import CommitId, Digest, Instant, JobId, rfc3339
from reconciler.errors import GitError
from reconciler.specs.serialize import (
    is_reservation,
    reservation_from_json,
    status_from_json,
)
from reconciler.specs.stored import FormatError
from reconciler.store.commit_message import parse_message
from reconciler.store.git.cat_file import read_blobs
from reconciler.store.git.command import git
from reconciler.store.git.history import author_of, landed, refuse_shallow
from reconciler.store.status_tree import STATUS_FOLDER, job_of, status_path

AnyStatus: TypeAlias = JobStatus | ReservationStatus

_FIELD = "\x02"
_MESSAGE = _FIELD.join(("%H", "%cn", "%B"))
_PERSON = _FIELD.join(("%H", "%P", "%an", "%ae", "%cn", "%ce", "%at", "%s"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One commit of the status branch."""

    commit: CommitId
    at: Instant
    subject: str
    by: str
    """The reconciler's name as git has it."""
    desired: CommitId | None
    """The commit of main it was decided on."""
    epoch: int | None
    plan: Digest | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChange:
    """One job's, or reservation's, file before and after one commit; None: there was, or is,
    none."""

    job: JobId
    recorded: Recorded
    before: AnyStatus | None
    after: AnyStatus | None

    @property
    def is_transition(self) -> bool:
        """True when something a person would ask about changed, and not only bookkeeping."""
        if self.before is None or self.after is None:
            return True
        return _told(self.before) != _told(self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The commit of main behind a decision."""

    commit: CommitId
    author: str
    email: str
    authored_at: Instant
    subject: str
    merged_by: str
    """Who committed it to main, where that is somebody else; else empty."""


def _told(status: AnyStatus) -> tuple[object, ...]:
    if isinstance(status, ReservationStatus):
        return tuple(
            (each.start, each.end, each.phase, each.devices) for each in status.occurrences
        )
    attempt = _last_attempt(status)
    return (
        status.phase, status.reason, status.message, status.generation, status.submission,
        status.attempts_made, attempt.phase if attempt else None,
    )  # fmt: skip


def job_changes(
    git_dir: Path,
    tip: CommitId,
    *,
    job: JobId | None = None,
    since: Instant | None = None,
    limit: int | None = None,
) -> tuple[JobChange, ...]:
    """Return the changes that ``tip`` and its ancestors recorded, newest first.

    ``limit`` bounds the commits that are looked at.  Files that this version cannot read are
    left out.  Raises ``GitError``, in a shallow clone too: where history is cut off, everything
    would seem to be new.
    """
    refuse_shallow(git_dir)
    older = _newest_before(git_dir, tip, since)
    path = STATUS_FOLDER if job is None else status_path(job)
    commits = list(landed(git_dir, tip, since=older, paths=(path,)))[:limit]
    if since is not None:
        commits = [each for each in commits if each.committed_at >= since]
    recorded = _recorded(git_dir, [(each.commit, each.committed_at) for each in commits])
    oids = {oid for each in commits for c in each.changes for oid in (c.before, c.after) if oid}
    blobs = read_blobs(git_dir, sorted(oids))
    changes = []
    for landing in commits:
        for change in landing.changes:
            name = job_of(change.path)
            if name is None:
                continue
            try:
                before = _status(blobs, change.before, name)
                after = _status(blobs, change.after, name)
            except FormatError:
                continue
            changes.append(
                JobChange(job=name, recorded=recorded[landing.commit], before=before, after=after)
            )
    return tuple(changes)


def _status(blobs: Mapping[str, bytes], oid: str | None, job: JobId) -> AnyStatus | None:
    if oid is None:
        return None
    text = blobs[oid]
    return reservation_from_json(text, job) if is_reservation(text) else status_from_json(text, job)


def _newest_before(git_dir: Path, tip: CommitId, since: Instant | None) -> CommitId | None:
    if since is None:
        return None
    found = git(
        git_dir, "rev-list", "--first-parent", "--max-count=1", f"--before={since - 1}", tip
    ).text
    return CommitId(found) if found else None


def _recorded(
    git_dir: Path, commits: Iterable[tuple[CommitId, Instant]]
) -> Mapping[CommitId, Recorded]:
    times = dict(commits)
    found = {}
    for commit, by, text in _log(git_dir, times, _MESSAGE):
        message = parse_message(text)
        found[CommitId(commit)] = Recorded(
            commit=CommitId(commit),
            at=times[CommitId(commit)],
            subject=message.subject,
            by=by,
            desired=message.desired,
            epoch=message.epoch,
            plan=message.plan,
        )
    return found


def _log(git_dir: Path, commits: Iterable[CommitId], form: str) -> list[list[str]]:
    """Return the fields of ``form`` for each commit; one process for all."""
    wanted = list(commits)
    if not wanted:
        return []
    fields = form.count(_FIELD)
    shown = git(
        git_dir, "log", "--no-walk=unsorted", "-z", f"--format={form}", "--stdin", "--",
        stdin="".join(f"{commit}\n" for commit in wanted).encode(),
    ).stdout.decode("utf-8", "replace")  # fmt: skip
    return [record.split(_FIELD, fields) for record in shown.split("\0") if record]


class Wishes:
    """Finds the commits of main behind decisions; built for many questions at once."""

    def __init__(self, git_dir: Path, asked: Iterable[tuple[CommitId, JobId]]) -> None:
        """Prepare answers for every (main commit decided on, job) of ``asked``."""
        self._git_dir = git_dir
        asked = sorted(set(asked))
        self._behind: dict[tuple[CommitId, JobId], CommitId] = {}
        self._wishes: dict[tuple[CommitId, JobId], Wish] = {}
        self._find(asked)
        people = {
            record[0]: record
            for record in _log(git_dir, sorted(set(self._behind.values())), _PERSON)
        }
        for key, commit in self._behind.items():
            if commit in people:
                self._wishes[key] = self._wish(people[commit], key[1])

    def behind(self, desired: CommitId | None, job: JobId) -> Wish | None:
        """Return the wish behind a decision; None where main is not here to ask."""
        return None if desired is None else self._wishes.get((desired, job))

    def _find(self, asked: list[tuple[CommitId, JobId]]) -> None:
        here = self._known({commit for commit, _ in asked})
        while here:
            tip = self._newest(here)
            line = git(self._git_dir, "rev-list", "--first-parent", tip).text.splitlines()
            place = {CommitId(commit): at for at, commit in enumerate(line)}
            paths = sorted({f"jobs/{job}.yaml" for commit, job in asked if commit in place})
            touched: dict[str, list[int]] = {}
            for landing in landed(
                self._git_dir, tip, paths=paths if len(paths) == 1 else ("jobs",)
            ):
                for change in landing.changes:
                    touched.setdefault(change.path, []).append(place[landing.commit])
            for commit, job in asked:
                if commit in place and commit in here:
                    at = touched.get(f"jobs/{job}.yaml", [])
                    index = bisect_left(at, place[commit])
                    if index < len(at):
                        self._behind[commit, job] = CommitId(line[at[index]])
            here -= set(place)

    def _known(self, commits: Iterable[CommitId]) -> set[CommitId]:
        """Return those of ``commits`` that this repository has; a clone may be behind."""
        wanted = sorted(commits)
        listed = git(
            self._git_dir, "cat-file", "--batch-check=%(objecttype)",
            stdin="".join(f"{commit}\n" for commit in wanted).encode(),
        ).text.splitlines() if wanted else []  # fmt: skip
        return {commit for commit, kind in zip(wanted, listed, strict=True) if kind == "commit"}

    def _newest(self, commits: Iterable[CommitId]) -> CommitId:
        """Return a commit that no other one of ``commits`` descends from."""
        listed = git(
            self._git_dir, "rev-list", "--topo-order", "--max-count=1", "--stdin",
            stdin="".join(f"{commit}\n" for commit in sorted(commits)).encode(),
        )  # fmt: skip
        return CommitId(listed.text)

    def _wish(self, record: list[str], job: JobId) -> Wish:
        commit, parents, author, email, committer, committer_email, at, subject = record
        merged_by = committer if committer_email.lower() != email.lower() else ""
        if " " in parents:
            written_by = author_of(self._git_dir, f"jobs/{job}.yaml", CommitId(commit))
            name, _, address = written_by.rpartition(" <")
            if name:
                merged_by = author if address.rstrip(">").lower() != email.lower() else ""
                author, email = name, address.rstrip(">")
        return Wish(
            commit=CommitId(commit),
            author=author,
            email=email,
            authored_at=Instant(int(at)),
            subject=subject,
            merged_by=merged_by,
        )


def change_words(change: JobChange) -> str:
    """Return ``pending -> running``, or ``attempt 2 launching -> running`` within a phase."""
    before, after = change.before, change.after
    if isinstance(after, ReservationStatus):
        return _occurrence_words(before, after)
    if isinstance(before, ReservationStatus):
        before = None
    if before is not None and after is not None and before.phase == after.phase:
        one, other = _last_attempt(before), _last_attempt(after)
        if one and other and one.number == other.number and one.phase != other.phase:
            return f"attempt {other.number} {one.phase} -> {other.phase}"
    old = "new" if before is None else before.phase
    new = "gone" if after is None else after.phase
    return f"{old} -> {new}"


def _occurrence_words(before: AnyStatus | None, after: ReservationStatus) -> str:
    """Return ``2026-12-01T00:00Z planned -> active`` of the first that changed, and how many
    more did."""
    old = before.occurrences if isinstance(before, ReservationStatus) else ()
    was = {each.start: each for each in old}
    moved = [each for each in after.occurrences if was.get(each.start) != each]
    moved.sort(key=lambda each: (was[each.start].phase if each.start in was else "") == each.phase)
    if not moved:
        return str(after.phase)
    first = moved[0]
    came = was[first.start].phase if first.start in was else "new"
    at = rfc3339(first.start).replace(":00Z", "Z")
    more = f" (+{len(moved) - 1} more)" if len(moved) > 1 else ""
    change = f"{came} -> {first.phase}" if came != first.phase else str(first.phase)
    return f"{at} {change}{more}"


def _last_attempt(status: JobStatus) -> Attempt | None:
    return status.attempts[-1] if status.attempts else None


def wishes_of(git_dir: Path, changes: Iterable[JobChange]) -> Wishes:
    """Return the wishes behind ``changes``; none where main cannot be read here."""
    asked = [(each.recorded.desired, each.job) for each in changes]
    try:
        return Wishes(git_dir, [(commit, job) for commit, job in asked if commit])
    except GitError:
        return Wishes(git_dir, ())
