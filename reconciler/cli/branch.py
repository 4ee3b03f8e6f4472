"""What the status branch says, read from blobs at one commit.

Only what a verb asks for is read: names without blobs, one job's file, or all of them in one
``git cat-file``.  A file this version cannot read is a warning beside the rest, never a reason
to show nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from typing import TypeVar

from reconciler.cli.repository import Repository, StatusRef
from reconciler.domain.plan import Expectation
from reconciler.domain.reservation import ReservationStatus
from reconciler.domain.status import JobStatus
from reconciler.domain.units import Instant, JobId
from reconciler.errors import NotFoundError, UsageError
from reconciler.specs.serialize import (
    Budgets,
    Cursor,
    Forecast,
    budgets_from_json,
    cursor_from_json,
    forecast_from_json,
    is_reservation,
    reservation_from_json,
    status_from_json,
)
from reconciler.specs.stored import FormatError
from reconciler.store.git.cat_file import STATUS_ROOTS, GitTree
from reconciler.store.status_tree import (
    BUDGETS_FILE,
    CURSOR_FILE,
    FORECAST_FILE,
    HISTORY_FILE,
    job_of,
    status_path,
)

Read = TypeVar("Read")


class StatusBranch:
    """One commit of a status branch."""

    def __init__(
        self,
        repository: Repository,
        ref: StatusRef,
        seen_at: Instant,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Open ``ref``; ``say`` is told, in one line each, of files that cannot be read."""
        self.ref = ref
        self.seen_at = seen_at
        """The last instant at which this commit is known to have been the newest."""
        self._say = say
        self._blobs: dict[str, bytes] = {}
        self._tree = GitTree(repository.git_dir, ref.commit, STATUS_ROOTS)

    @cached_property
    def jobs(self) -> tuple[JobId, ...]:
        """Every job or reservation that has a status, sorted."""
        found = (job_of(path) for path in self._tree.entries)
        return tuple(sorted(job for job in found if job is not None))

    def statuses(self, jobs: Iterable[JobId] | None = None) -> Mapping[JobId, JobStatus]:
        """Return the statuses of ``jobs`` (all when None), sorted; unknown ones are left out."""
        found = {}
        for job, text in self._texts(jobs).items():
            if is_reservation(text):
                continue
            status = self._decoded(partial(status_from_json, job=job), text)
            if status is not None:
                found[job] = status
        return found

    def reservations(
        self, names: Iterable[JobId] | None = None
    ) -> Mapping[JobId, ReservationStatus]:
        """Return the statuses of reservations (all when None), sorted; jobs are left out."""
        found = {}
        for name, text in self._texts(names).items():
            if is_reservation(text):
                status = self._decoded(partial(reservation_from_json, name=name), text)
                if status is not None:
                    found[name] = status
        return found

    @cached_property
    def budgets(self) -> Budgets | None:
        """How every budget stood at the newest decision; None where there are none."""
        return self._file(BUDGETS_FILE, budgets_from_json)

    def _texts(self, names: Iterable[JobId] | None) -> Mapping[JobId, bytes]:
        wanted = self.jobs if names is None else sorted(set(names) & set(self.jobs))
        oids = {name: self._tree.entries[status_path(name)].oid for name in wanted}
        missing = [oid for oid in oids.values() if oid not in self._blobs]
        self._blobs |= self._tree.read(missing)
        return {name: self._blobs[oid] for name, oid in oids.items()}

    @cached_property
    def published(self) -> Forecast | None:
        """The newest published forecast; None before the first."""
        return self._file(FORECAST_FILE, forecast_from_json)

    @property
    def forecast(self) -> Mapping[JobId, Expectation]:
        """When each job is expected to start and end; empty before the first forecast."""
        return self.published.jobs if self.published else {}

    @cached_property
    def cursor(self) -> Cursor | None:
        """Where the reconciler stands; None before its first decision."""
        return self._file(CURSOR_FILE, cursor_from_json)

    @cached_property
    def history(self) -> bytes | None:
        """What finished runs measured, as written; None where none is known."""
        return self._file(HISTORY_FILE, bytes)

    def _file(self, path: str, decode: Callable[[bytes], Read]) -> Read | None:
        entry = self._tree.entries.get(path)
        if entry is None:
            return None
        return self._decoded(decode, self._tree.read((entry.oid,))[entry.oid])

    def _decoded(self, decode: Callable[[bytes], Read], text: bytes) -> Read | None:
        try:
            return decode(text)
        except FormatError as error:
            self._say(f"warning: left out: {error}")
            return None


def open_branch(
    repository: Repository,
    *,
    cluster: str | None = None,
    fetches: bool = True,
    also_main: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> StatusBranch:
    """Return the status branch of ``cluster``, or the only one there is.

    Asks the remote first where ``fetches`` is set, for ``also_main`` too; ``say`` is told when
    that fails.  Raises
    ``NotFoundError`` where there is no such branch and ``UsageError`` where there are several.
    """
    trouble = repository.fetch(also_main=also_main) if fetches else None
    if trouble:
        say(f"warning: {trouble}")
    refs, seen = repository.status_refs()
    ref = _choose(refs, cluster, repository)
    return StatusBranch(
        repository, ref, max(ref.committed_at, seen.get(ref.cluster, ref.committed_at)), say
    )


def _choose(refs: Iterable[StatusRef], cluster: str | None, repository: Repository) -> StatusRef:
    by_cluster: dict[str, StatusRef] = {}
    for ref in sorted(refs, key=lambda ref: (ref.is_fetched, ref.name)):
        by_cluster[ref.cluster] = ref  # the copy of a remote's branch is the one kept up to date
    names = sorted(by_cluster)
    if cluster:
        if cluster in by_cluster:
            return by_cluster[cluster]
        raise NotFoundError(
            f"no status branch of cluster {cluster} in {repository.git_dir}; "
            f"{'there are: ' + ', '.join(names) if names else 'there is none at all'}"
        )
    if not names:
        raise NotFoundError(
            f"no status branch in {repository.git_dir}: no reconciler has written here yet. "
            "Start one with `headway reconcile`, or name another repository with --repo"
        )
    if len(names) > 1:
        raise UsageError(
            f"{len(names)} clusters write status here ({', '.join(names)}): say --cluster NAME"
        )
    return by_cluster[names[0]]
