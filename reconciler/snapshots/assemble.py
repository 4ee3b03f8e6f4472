"""What may the planner know, at one instant and one pair of revisions?  Makes the Snapshot.

Everything comes from three places: main at one commit (read and converted), the status branch at
one commit, and :class:`Inputs`, which is recorded with the decision.  Nothing else is looked at,
no clock and no disk, so the live loop, a preview and a replay assemble by the same code, and a
replay from commits alone meets the same snapshot.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from reconciler.domain.job import GangSize, JobSpec, PriorityClass, Submission
from reconciler.domain.problem import Severity, SpecProblem
from reconciler.domain.reservation import ReservationStatus
from reconciler.domain.snapshot import Desired, DesiredJob, DesiredReservation, Snapshot
from reconciler.domain.status import JobPhase, JobStatus
from reconciler.domain.units import CommitId, Digest, Instant, JobId
from reconciler.ports import Tree
from reconciler.snapshots.inputs import Inputs
from reconciler.snapshots.joined import joined_cluster
from reconciler.snapshots.learned import Learned, learned_from
from reconciler.snapshots.sizes import Sizer, able, gang_sizes, usable_gib
from reconciler.specs.budgets import budgets_at
from reconciler.specs.cache import SpecCache
from reconciler.specs.meaning import submission_findings
from reconciler.specs.reading import SpecEntry, SpecReading, read_specs
from reconciler.specs.reservations import expanded
from reconciler.specs.submission import submission_problems
from reconciler.store.status_tree import StatusTree

BROUGHT_KEPT = 10_000


class History(Protocol):
    """What the commits of main say besides their files (``reconciler.store.spec_source``)."""

    def tree(self, commit: CommitId) -> Tree:
        """Return the files of a commit, also of one that main has left behind."""
        ...

    def is_known(self, commit: CommitId) -> bool:
        """Return whether the commit can be read here at all."""
        ...

    def submissions_between(
        self, cursor: CommitId | None, tip: CommitId
    ) -> Mapping[JobId, Submission]:
        """Return the submissions that appeared, or appeared again, after ``cursor``."""
        ...

    def brought_by(self, tip: CommitId, path: str) -> tuple[CommitId, str]:
        """Return the commit that last changed ``path``, and its ``Name <e-mail>``."""
        ...

    def committed_at(self, commit: CommitId) -> Instant:
        """Return the committer time of a commit."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Memory:
    """What was made for one read of main, to be used again while main stays."""

    reading: SpecReading
    cursor: CommitId | None
    submissions: Mapping[JobId, Submission]
    sizes: Mapping[JobId, tuple[GangSize, ...]]
    valid: Mapping[JobId, DesiredJob]
    learned: Learned

    @property
    def urgent(self) -> tuple[JobId, ...]:
        """The valid P0 jobs."""
        return tuple(
            job
            for job, wanted in self.valid.items()
            if wanted.spec is not None and wanted.spec.priority is PriorityClass.P0
        )


class Assembler:
    """Assembles snapshots of one repository; remembers only what it would make again."""

    def __init__(self, history: History, cache: SpecCache | None = None) -> None:
        self._history = history
        self._cache = cache
        self._memory: _Memory | None = None
        self._sizer = Sizer()
        self._last_good: dict[tuple[JobId, CommitId], JobSpec | None] = {}
        self._last_held: dict[tuple[JobId, CommitId], SpecEntry | None] = {}
        self._brought: dict[tuple[str, str], tuple[CommitId, str]] = {}

    def assemble(
        self, reading: SpecReading, statuses: StatusTree | None, inputs: Inputs
    ) -> Snapshot:
        """Return the snapshot.  ``statuses`` is None before the status branch exists.

        Raises ``GitError`` where an older commit that a status names cannot be read.
        """
        known = statuses.statuses if statuses is not None else {}
        kept = statuses.reservations if statuses is not None else {}
        learned = learned_from(
            statuses.history if statuses is not None else None,
            reading.platform.policy.spread_slowdown,
        )
        memory = self._remember(reading, inputs, learned)
        held = self._held(reading, kept, inputs)
        known, held, kept = apart(known, held, kept, memory.valid)
        refused = {
            entry.id: self._refused(entry, known.get(entry.id), inputs.desired, _errors(entry))
            for entry in reading.entries.values()
            if entry.id not in memory.valid and entry.id not in held and not _is_held(entry)
        }
        for job in memory.urgent:
            entry, status = reading.entries[job], known.get(job)
            if problems := self._not_urgent(entry, status, memory.submissions.get(job), inputs):
                refused[job] = self._refused(entry, status, inputs.desired, problems)
        sizes = dict(memory.sizes)
        for job, wanted in refused.items():
            sizes.pop(job, None)
            if wanted.spec is not None:
                platform = reading.platform
                usable = usable_gib(platform.cluster)
                sizes[job] = gang_sizes(wanted.spec, platform.policy, learned, usable)
        return Snapshot(
            now=inputs.now,
            desired=Desired(
                commit=inputs.desired,
                jobs=dict(sorted({**memory.valid, **refused}.items())),
                submissions={} if inputs.is_rewritten else memory.submissions,
                is_rewritten=inputs.is_rewritten,
                allowed_prune=inputs.allowed_prune,
                reservations=held,
            ),
            statuses=known,
            observations=inputs.observations,
            cluster=joined_cluster(reading.platform.cluster, inputs),
            teams=reading.platform.teams,
            policy=reading.platform.policy,
            sizes=dict(sorted(sizes.items())),
            measured_spread=learned.spread,
            planner_state=inputs.planner_state,
            status_commit=statuses.commit if statuses is not None else None,
            previous_look_at=inputs.previous_look_at,
            reservations=kept,
            budgets=budgets_at(reading.platform.budgets, inputs.now),
        )

    def _held(
        self,
        reading: SpecReading,
        kept: Mapping[JobId, ReservationStatus],
        inputs: Inputs,
    ) -> dict[JobId, DesiredReservation]:
        """Return the reservations of main with their occurrences around ``now``.

        A document that became invalid counts as its last valid one.
        """
        found = {}
        for name, entry in reading.entries.items():
            if _is_held(entry):
                found[name] = _wanted(entry, inputs.desired, inputs.now)
                continue
            status = kept.get(name)
            if status is None or not status.observed_commit or not _errors(entry):
                continue
            old = self._reservation_at(entry, status.observed_commit)
            if old is not None and _is_held(old):
                wanted = _wanted(old, status.observed_commit, inputs.now)
                found[name] = replace(wanted, problems=_errors(entry))
        return found

    def _reservation_at(self, entry: SpecEntry, commit: CommitId) -> SpecEntry | None:
        key = (entry.id, commit)
        if key not in self._last_held:
            if not self._history.is_known(commit):
                return None
            read = read_specs(self._history.tree(commit), cache=self._cache, paths=(entry.path,))
            self._last_held[key] = read.entries.get(entry.id)
        return self._last_held[key]

    def _remember(self, reading: SpecReading, inputs: Inputs, learned: Learned) -> _Memory:
        before = self._memory
        is_same = before is not None and before.reading is reading
        if before is None or not is_same or before.learned.digest != learned.digest:
            platform = reading.platform
            valid = able(_valid(reading.entries, inputs.desired), learned)
            sizes: Mapping[JobId, tuple[GangSize, ...]] = self._sizer.sizes(
                valid.values(), platform.policy, learned, platform.cluster
            )
            before = None
        else:
            valid, sizes = before.valid, before.sizes
        if before is not None and before.cursor == inputs.cursor:
            return before
        found: Mapping[JobId, Submission] = {}
        if not inputs.is_rewritten and inputs.cursor != inputs.desired:
            found = self._history.submissions_between(inputs.cursor, inputs.desired)
        self._memory = _Memory(
            reading=reading,
            cursor=inputs.cursor,
            submissions=dict(sorted(found.items())),
            sizes=sizes,
            valid=valid,
            learned=learned,
        )
        return self._memory

    def _not_urgent(
        self,
        entry: SpecEntry,
        status: JobStatus | None,
        submission: Submission | None,
        inputs: Inputs,
    ) -> tuple[SpecProblem, ...]:
        """Return why a document may not be P0 yet; once it may, it is not asked again.

        The clock is the committer time of the commit that brought it, between the last look at
        main and this one: a branch may be hours old when it is merged, and nobody backdates.
        """
        assert entry.spec is not None  # asked only for valid documents
        if status is not None and status.phase is not JobPhase.INVALID:
            is_new = submission is not None and submission.commit != status.submission
            if not is_new and status.spec_digest == entry.spec.spec_digest:
                return ()
            before = None if is_new else self._spec_at(entry, status.observed_commit)
            if before is not None and before.priority is PriorityClass.P0:
                return ()
        brought, _ = self._brought_by(entry, inputs.desired)
        committed_at = self._history.committed_at(brought)
        judged_at = Instant(min(max(committed_at, inputs.previous_look_at or 0), inputs.now))
        if not submission_findings(entry.spec, judged_at):
            return ()
        data = self._history.tree(inputs.desired).read((entry.blob,))[entry.blob]
        return tuple(submission_problems(entry.spec, entry.path, judged_at, data))

    def _refused(
        self,
        entry: SpecEntry,
        status: JobStatus | None,
        commit: CommitId,
        problems: tuple[SpecProblem, ...],
    ) -> DesiredJob:
        """Return a job whose newest document has problems, with its last valid spec if any."""
        spec = None
        if status is not None and status.observed_commit:
            spec = self._spec_at(entry, status.observed_commit)
        brought, author = self._brought_by(entry, commit)
        return DesiredJob(
            id=entry.id,
            commit=commit if spec is None or status is None else status.observed_commit,
            spec=spec,
            problems=problems,
            author=author,
            problems_commit=brought,
        )

    def _spec_at(self, entry: SpecEntry, commit: CommitId) -> JobSpec | None:
        key = (entry.id, commit)
        if key not in self._last_good:
            if not self._history.is_known(commit):  # of a main that was rewritten long ago
                return None
            read = read_specs(self._history.tree(commit), cache=self._cache, paths=(entry.path,))
            old = read.entries.get(entry.id)
            self._last_good[key] = None if old is None else old.spec
        return self._last_good[key]

    def _brought_by(self, entry: SpecEntry, commit: CommitId) -> tuple[CommitId, str]:
        key = (entry.path, commit)
        if key not in self._brought:
            if len(self._brought) > BROUGHT_KEPT:
                self._brought.clear()
            self._brought[key] = self._history.brought_by(commit, entry.path)
        return self._brought[key]


def apart(
    statuses: Mapping[JobId, JobStatus],
    held: dict[JobId, DesiredReservation],
    kept: Mapping[JobId, ReservationStatus],
    jobs: Mapping[JobId, DesiredJob],
) -> tuple[
    Mapping[JobId, JobStatus],
    dict[JobId, DesiredReservation],
    Mapping[JobId, ReservationStatus],
]:
    """Keep jobs and reservations apart where a path changed from one to the other.

    A job that is not over keeps its path until it is; then, and for a reservation that became
    a job, the old status says nothing any more.
    """
    both = held.keys() & statuses.keys()
    if both:
        stays = {name for name in both if not _is_over(statuses[name])}
        held = {name: each for name, each in held.items() if name not in stays}
        statuses = {job: each for job, each in statuses.items() if job not in both - stays}
    if kept.keys() & jobs.keys():
        kept = {name: each for name, each in kept.items() if name not in jobs}
    return statuses, held, kept


def _is_over(status: JobStatus) -> bool:
    return status.phase.is_finished or status.phase is JobPhase.INVALID


def _is_held(entry: SpecEntry) -> bool:
    return entry.reservation is not None and not _errors(entry)


def _wanted(entry: SpecEntry, commit: CommitId, now: Instant) -> DesiredReservation:
    assert entry.reservation is not None  # asked only for entries with one
    return DesiredReservation(
        id=entry.id,
        commit=commit,
        held=expanded(entry.reservation, now),
        spec_digest=entry.digest or Digest(""),
    )


def _valid(entries: Mapping[JobId, SpecEntry], commit: CommitId) -> dict[JobId, DesiredJob]:
    return {
        entry.id: DesiredJob(id=entry.id, commit=commit, spec=entry.spec)
        for entry in entries.values()
        if entry.spec is not None and not _errors(entry)
    }


def _errors(entry: SpecEntry) -> tuple[SpecProblem, ...]:
    return tuple(each for each in entry.problems if each.severity is Severity.ERROR)
