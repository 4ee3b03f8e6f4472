"""A main branch in memory: files that appear, change, break and go, commit by commit.

It tells the planner what a real one would: what is wanted now, and what was first seen since the
last commit anything was decided for.
"""

from dataclasses import dataclass, field, replace
from hashlib import sha256

from reconciler.domain.job import JobSpec, Submission
from reconciler.domain.problem import SpecProblem
from reconciler.domain.reservation import Reservation
from reconciler.domain.snapshot import Desired, DesiredJob, DesiredReservation
from reconciler.domain.units import CommitId, Digest, Instant, JobId


@dataclass(slots=True, kw_only=True)
class MainBranch:
    """The wanted jobs at the tip, and what changed since the cursor."""

    tip: CommitId = CommitId("0" * 40)
    jobs: dict[JobId, DesiredJob] = field(default_factory=dict)
    submissions: dict[JobId, Submission] = field(default_factory=dict)
    reservations: dict[JobId, DesiredReservation] = field(default_factory=dict)
    generations: dict[JobId, int] = field(default_factory=dict)
    """The generation each present path was last seen with."""
    is_rewritten: bool = False
    allowed_prune: int = 0
    commits: int = 0

    def write(self, spec: JobSpec, *, now: Instant) -> None:
        """Commit a valid document."""
        self._commit()
        spec = replace(spec, spec_digest=digest_of(spec))
        if self.generations.get(spec.id) != spec.generation:
            self.submissions[spec.id] = Submission(commit=self.tip, committed_at=now)
        self.generations[spec.id] = spec.generation
        self.jobs[spec.id] = DesiredJob(id=spec.id, commit=self.tip, spec=spec)

    def reserve(self, held: Reservation) -> None:
        """Commit a valid reservation."""
        self._commit()
        digest = Digest(f"sha256:{sha256(repr(held).encode()).hexdigest()}")
        self.reservations[held.id] = DesiredReservation(
            id=held.id, commit=self.tip, held=held, spec_digest=digest
        )

    def break_file(self, job: JobId, problem: SpecProblem, *, now: Instant) -> None:
        """Commit a document nobody can read; the last valid one, if any, stays known."""
        self._commit()
        known = self.jobs.get(job)
        if known is None:
            self.submissions[job] = Submission(commit=self.tip, committed_at=now)
        self.jobs[job] = DesiredJob(
            id=job,
            commit=self.tip if known is None else known.commit,
            spec=None if known is None else known.spec,
            problems=(problem,),
            author="Sim <sim@example.org>",
            problems_commit=self.tip,
        )

    def remove(self, job: JobId) -> None:
        """Commit the removal of a file that is there."""
        self._commit()
        self.jobs.pop(job, None)
        self.reservations.pop(job, None)
        self.generations.pop(job, None)
        self.submissions.pop(job, None)

    def allow_prune(self, count: int) -> None:
        """Commit an admin's allowance to delete ``count`` jobs."""
        self._commit()
        self.allowed_prune = count

    def acted_on(self) -> None:
        """Move the cursor to the tip: what was first seen up to here is told no more."""
        if not self.is_rewritten:
            self.submissions.clear()
            self.allowed_prune = 0

    def desired(self) -> Desired:
        """Return one complete read of the tip."""
        return Desired(
            commit=self.tip,
            jobs={job: self.jobs[job] for job in sorted(self.jobs)},
            submissions=dict(sorted(self.submissions.items())),
            is_rewritten=self.is_rewritten,
            allowed_prune=self.allowed_prune,
            reservations=dict(sorted(self.reservations.items())),
        )

    def _commit(self) -> None:
        self.commits += 1
        self.tip = CommitId(sha256(f"main {self.commits}".encode()).hexdigest()[:40])


def digest_of(spec: JobSpec) -> Digest:
    """Return a digest of everything the spec says."""
    bare = replace(spec, spec_digest=Digest(""))
    return Digest(f"sha256:{sha256(repr(bare).encode()).hexdigest()}")
