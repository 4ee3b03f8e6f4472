"""Where one job stands: what main says, what is recorded, what was observed, joined.

Every planning step, and the making of the next statuses, reads a job through its standing, so
that both agree on which submission and which attempt they talk about.

Rule kept: a status belongs to one submission.  A newer one starts over with a fresh status, but
only once the old attempt has left its devices.
"""

from dataclasses import dataclass

from reconciler.domain.attempt import Attempt, Observation
from reconciler.domain.job import JobSpec, Submission
from reconciler.domain.reason import Reason
from reconciler.domain.snapshot import DesiredJob, Snapshot
from reconciler.domain.status import JobPhase, JobStatus, Summary
from reconciler.domain.units import Instant, JobId
from reconciler.planning.brake import returned
from reconciler.planning.lifecycle import follow


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One job at this instant."""

    id: JobId
    wanted: DesiredJob | None
    """None: the file is not on main."""
    recorded: JobStatus | None
    """As on the status branch."""
    status: JobStatus | None
    """What to plan from: the recorded status, or a fresh one for a new submission.  None for a
    document that never was valid, and for one unseen before main was rewritten."""
    attempt: Attempt | None
    """The attempt that was live, as it is after this cycle's observation: it may have ended."""
    observed: Observation | None
    end_detail: str = ""
    newer: Submission | None = None
    """A newer submission that waits for the attempt to leave, or for its document to be valid."""

    @property
    def spec(self) -> JobSpec | None:
        """The last valid spec, while the file is on main."""
        return None if self.wanted is None else self.wanted.spec

    @property
    def live(self) -> Attempt | None:
        """The attempt, if it still holds devices."""
        return self.attempt if self.attempt is not None and self.attempt.phase.is_live else None

    @property
    def has_ended(self) -> bool:
        """True when this cycle's observation ended the attempt."""
        return self.attempt is not None and not self.attempt.phase.is_live

    @property
    def is_finished(self) -> bool:
        return self.status is not None and self.status.phase.is_finished


def standings(snapshot: Snapshot) -> dict[JobId, Standing]:
    """Return the standing of every job on main or on the status branch, sorted by job."""
    jobs = sorted(snapshot.desired.jobs.keys() | snapshot.statuses.keys())
    back = returned(snapshot)
    return {job: stand(snapshot, job, is_back=job in back) for job in jobs}


def standing(snapshot: Snapshot, job: JobId) -> Standing:
    """Return where ``job`` stands."""
    return stand(snapshot, job, is_back=job in returned(snapshot))


def stand(snapshot: Snapshot, job: JobId, *, is_back: bool) -> Standing:
    """Return where ``job`` stands; ``is_back``: its deletion was held back and is taken back."""
    wanted = snapshot.desired.jobs.get(job)
    recorded = snapshot.statuses.get(job)
    live = recorded.live_attempt if recorded is not None else None
    if live is None:
        attempt, observed, detail = None, None, ""
    else:
        observed = snapshot.observations.get(live.id)
        attempt, detail = follow(live, observed, now=snapshot.now)
    newer = None if is_back else _newer_submission(snapshot, wanted, recorded)
    starts_over = _starts_over(snapshot, wanted, recorded, newer)
    return Standing(
        id=job,
        wanted=wanted,
        recorded=recorded,
        status=_fresh(snapshot, wanted, newer) if wanted and starts_over else recorded,
        attempt=attempt,
        observed=observed,
        end_detail=detail,
        newer=None if starts_over else newer,
    )


def _starts_over(
    snapshot: Snapshot,
    wanted: DesiredJob | None,
    recorded: JobStatus | None,
    newer: Submission | None,
) -> bool:
    if wanted is None or wanted.spec is None or wanted.problems or snapshot.desired.is_rewritten:
        return False
    if recorded is None or recorded.phase is JobPhase.INVALID:
        return True
    return newer is not None and recorded.live_attempt is None


def _newer_submission(
    snapshot: Snapshot, wanted: DesiredJob | None, recorded: JobStatus | None
) -> Submission | None:
    """Return a submission newer than the recorded one.

    Lowering a generation is not one, unless the file was seen gone in between.
    """
    if wanted is None or snapshot.desired.is_rewritten:
        return None if recorded is None else recorded.resubmitted
    seen = snapshot.desired.submissions.get(wanted.id)
    if recorded is None or wanted.spec is None:
        return seen
    generation = wanted.spec.generation
    if seen is not None and seen.commit != recorded.submission:
        if generation >= recorded.generation or recorded.absent_since is not None:
            return seen
    elif generation > recorded.generation and not wanted.problems and not recorded.resubmitted:
        return Submission(commit=wanted.commit, committed_at=snapshot.now)
    return recorded.resubmitted


def _fresh(snapshot: Snapshot, wanted: DesiredJob, newer: Submission | None) -> JobStatus:
    assert wanted.spec is not None  # asked only for valid documents
    submission = newer or Submission(commit=wanted.commit, committed_at=snapshot.now)
    submitted_at = clamped_submission(submission.committed_at, snapshot)
    return JobStatus(
        job=wanted.id,
        phase=JobPhase.PENDING,
        reason=Reason.GPUS_BUSY,
        generation=wanted.spec.generation,
        submission=submission.commit,
        observed_commit=wanted.commit,
        spec_digest=wanted.spec.spec_digest,
        summary=summary_of(wanted.spec, submitted_at),
        since=snapshot.now,
    )


def clamped_submission(committed_at: Instant, snapshot: Snapshot) -> Instant:
    """Return ``committed_at`` between the last look at main and this one: nobody backdates."""
    earliest = committed_at
    if snapshot.previous_look_at is not None:
        earliest = Instant(max(committed_at, snapshot.previous_look_at))
    return Instant(min(earliest, snapshot.now))


def summary_of(spec: JobSpec, submitted_at: Instant) -> Summary:
    """Return what the queue shows of ``spec``."""
    return Summary(
        priority=spec.priority,
        gpus=spec.gpus.count,
        gpu_types=spec.gpus.types,
        model=spec.facts.model,
        submitted_at=submitted_at,
    )
