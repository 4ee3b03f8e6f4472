"""What does one commit of the status branch say?  Read in bulk, without GitPython.

The command line reads a status with this module alone.  A file that cannot be read or is of an
unknown version raises, naming the file: it never reads as "no such job".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.domain.reservation import ReservationStatus
from reconciler.domain.status import JobStatus
from reconciler.domain.units import CommitId, JobId
from reconciler.errors import BackendError
from reconciler.ports import TreeEntry
from reconciler.specs import serialize
from reconciler.specs.stored import FormatError
from reconciler.store.git.cat_file import STATUS_ROOTS, changed_entries, list_tree, read_blobs

STATUS_FOLDER = "status"
LEASE_FILE = ".headway/lease.json"
CURSOR_FILE = ".headway/cursor.json"
INPUTS_FILE = ".headway/inputs.json"
FORECAST_FILE = ".headway/forecast.json"
HISTORY_FILE = ".headway/history.json"
BUDGETS_FILE = ".headway/budgets.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusTree:
    """Everything a status commit holds.  ``statuses`` and ``reservations`` are sorted."""

    commit: CommitId
    statuses: Mapping[JobId, JobStatus]
    files: Mapping[str, bytes]
    """Every file under ``.headway/``, by path, as it lies there."""
    reservations: Mapping[JobId, ReservationStatus] = field(default_factory=dict)

    @property
    def lease(self) -> serialize.LeaseRecord | None:
        """Who may write; None: no reconciler ever took the lease."""
        text = self.files.get(LEASE_FILE)
        return None if text is None else serialize.lease_from_json(text)

    @property
    def cursor(self) -> serialize.Cursor | None:
        """What the reconciler last acted on; None: it never did."""
        text = self.files.get(CURSOR_FILE)
        return None if text is None else serialize.cursor_from_json(text)

    @property
    def inputs(self) -> bytes | None:
        """The planner's recorded inputs, as written; the parts of a split one are in ``files``."""
        return self.files.get(INPUTS_FILE)

    @property
    def history(self) -> bytes | None:
        """Learned durations and measurements, as written."""
        return self.files.get(HISTORY_FILE)

    @property
    def forecast(self) -> serialize.Forecast | None:
        """The last published prediction; None: there is none.  Parsed at each call."""
        text = self.files.get(FORECAST_FILE)
        return None if text is None else serialize.forecast_from_json(text)


def status_path(job: JobId) -> str:
    """Return the path of a job's status file."""
    return f"{STATUS_FOLDER}/{job}.json"


def job_of(path: str) -> JobId | None:
    """Return whose status file this is; None for any other path."""
    parts = path.split("/")
    if len(parts) == 3 and parts[0] == STATUS_FOLDER and path.endswith(".json"):
        return JobId(f"{parts[1]}/{parts[2].removesuffix('.json')}")
    return None


def read_status_tree(repo: Path, commit: CommitId) -> StatusTree:
    """Return all of a status commit.  Raises ``GitError`` or ``FormatError``."""
    entries = list_tree(repo, commit, STATUS_ROOTS)
    refuse_strangers(commit, entries)
    blobs = read_blobs(repo, (entry.oid for entry in entries.values()))
    statuses: dict[JobId, JobStatus] = {}
    reservations: dict[JobId, ReservationStatus] = {}
    files = {}
    for path, entry in entries.items():
        job = job_of(path)
        if job is None:
            files[path] = blobs[entry.oid]
        elif serialize.is_reservation(blobs[entry.oid]):
            reservations[job] = parse_reservation(commit, path, job, blobs[entry.oid])
        else:
            statuses[job] = parse_status(commit, path, job, blobs[entry.oid])
    return StatusTree(
        commit=commit,
        statuses=dict(sorted(statuses.items())),
        reservations=dict(sorted(reservations.items())),
        files=files,
    )


def read_next_tree(repo: Path, last: StatusTree, commit: CommitId) -> StatusTree:
    """Return all of ``commit``, reading only what differs from ``last``."""
    changed = changed_entries(repo, last.commit, commit, STATUS_ROOTS)
    there = {path: entry for path, entry in changed.items() if entry is not None}
    refuse_strangers(commit, there)
    blobs = read_blobs(repo, (entry.oid for entry in there.values()))
    statuses, reservations = dict(last.statuses), dict(last.reservations)
    files = dict(last.files)
    for path, entry in changed.items():
        job = job_of(path)
        if job is None:
            files.pop(path, None)
            if entry is not None:
                files[path] = blobs[entry.oid]
        elif entry is None:
            statuses.pop(job, None)
            reservations.pop(job, None)
        elif serialize.is_reservation(blobs[entry.oid]):
            statuses.pop(job, None)
            reservations[job] = parse_reservation(commit, path, job, blobs[entry.oid])
        else:
            reservations.pop(job, None)
            statuses[job] = parse_status(commit, path, job, blobs[entry.oid])
    if statuses.keys() != last.statuses.keys():
        statuses = dict(sorted(statuses.items()))
    return StatusTree(
        commit=commit,
        statuses=statuses,
        reservations=dict(sorted(reservations.items())),
        files=dict(sorted(files.items())),
    )


def read_one_status(repo: Path, commit: CommitId, job: JobId) -> JobStatus | None:
    """Return the status of one job; None where the branch has none.  Raises like the above."""
    path = status_path(job)
    entry = list_tree(repo, commit, (path,)).get(path)
    if entry is None:
        return None
    text = read_blobs(repo, (entry.oid,))[entry.oid]
    return None if serialize.is_reservation(text) else parse_status(commit, path, job, text)


def refuse_strangers(commit: CommitId, entries: Mapping[str, TreeEntry]) -> None:
    """Raise ``BackendError`` for an entry that no reconciler writes."""
    strange = [path for path, entry in entries.items() if not _is_ours(path, entry)]
    if strange:
        raise BackendError(
            f"status commit {commit} holds {_some(strange)}, which no reconciler writes; "
            "find out who pushed it before headway goes on",
            retryable=False,
        )


def parse_status(commit: CommitId, path: str, job: JobId, text: bytes) -> JobStatus:
    """Return one status; a ``FormatError`` names the file and the commit."""
    try:
        return serialize.status_from_json(text, job)
    except FormatError as error:
        raise FormatError(f"{path} at {commit}: {error}") from None


def parse_reservation(commit: CommitId, path: str, name: JobId, text: bytes) -> ReservationStatus:
    """Return one reservation's status; a ``FormatError`` names the file and the commit."""
    try:
        return serialize.reservation_from_json(text, name)
    except FormatError as error:
        raise FormatError(f"{path} at {commit}: {error}") from None


def _is_ours(path: str, entry: TreeEntry) -> bool:
    return entry.mode == "100644" and (path.startswith(".headway/") or job_of(path) is not None)


def _some(paths: Iterable[str]) -> str:
    listed = sorted(paths)
    more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
    return ", ".join(listed[:3]) + more
