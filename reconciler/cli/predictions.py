"""How good were the predictions?  Every published start and end, beside what came of it.

Each version of ``.headway/forecast.json`` is a published prediction of everyone.  A predicted
start is scored by the next attempt of the same job after the version was published; a predicted
end of a running attempt by that attempt's own end, unless it was asked to leave: a run that was
stopped says nothing about how long it would have taken.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from reconciler.cli.history import JobChange, job_changes
from reconciler.domain.attempt import Attempt
from reconciler.domain.status import JobStatus
from reconciler.domain.units import CommitId, Instant, JobId
from reconciler.specs.serialize import Forecast, forecast_from_json
from reconciler.specs.stored import FormatError
from reconciler.store.git.cat_file import read_blobs
from reconciler.store.git.history import landed
from reconciler.store.status_tree import FORECAST_FILE

LEADS = (("up to 15m", 900), ("15m to 1h", 3600), ("1h to 6h", 6 * 3600), ("over 6h", None))
"""Words and upper bound in seconds of how far ahead a prediction looked."""


class Of(StrEnum):
    """What was predicted."""

    START = "start"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One published forecast."""

    commit: CommitId
    at: Instant
    forecast: Forecast


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One prediction and what came of it."""

    job: JobId
    of: Of
    published_at: Instant
    p50: Instant
    p90: Instant
    actual: Instant

    @property
    def lead_s(self) -> int:
        """How far ahead it looked, in seconds."""
        return max(self.p50 - self.published_at, 0)

    @property
    def error_s(self) -> int:
        """How much later than p50 it came, in seconds; negative: sooner."""
        return self.actual - self.p50

    @property
    def is_covered(self) -> bool:
        """True if it came by p90."""
        return self.actual <= self.p90


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How one group of predictions did."""

    name: str
    predictions: int
    error_p50_s: int
    """Median of the absolute error."""
    error_p90_s: int
    bias_s: int
    """Median of the signed error: above 0, things come later than predicted."""
    by_p50: float
    """Share that came by the predicted p50; 0.5 is exact."""
    by_p90: float
    """Share that came by the predicted p90; 0.9 is exact."""


def versions(git_dir: Path, tip: CommitId, since: Instant | None = None) -> tuple[Version, ...]:
    """Return every published forecast up to ``tip``, oldest first.

    Versions that this headway cannot read are left out.  Raises ``GitError``.
    """
    commits = [
        each
        for each in landed(git_dir, tip, paths=(FORECAST_FILE,))
        if since is None or each.committed_at >= since
    ]
    oids = {change.after for each in commits for change in each.changes if change.after}
    blobs = read_blobs(git_dir, sorted(oids))
    found = []
    for each in reversed(commits):
        for change in each.changes:
            try:
                forecast = forecast_from_json(blobs[change.after]) if change.after else None
            except FormatError:
                continue
            if forecast is not None:
                found.append(
                    Version(commit=each.commit, at=forecast.published_at, forecast=forecast)
                )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Run:
    """One attempt, as it ended."""

    attempt: Attempt
    submission: CommitId
    generation: int


def runs_of(changes: Iterable[JobChange]) -> Mapping[JobId, Sequence[_Run]]:
    """Return every attempt that ever was, by job, oldest first, each as it was last recorded."""
    newest: dict[JobId, dict[str, _Run]] = {}
    for change in changes:  # newest first
        for status in (change.after, change.before):
            if not isinstance(status, JobStatus):
                continue  # a reservation, or there was none
            for attempt in status.attempts:
                known = newest.setdefault(change.job, {})
                known.setdefault(attempt.id, _run(attempt, status))
    return {
        job: sorted(runs.values(), key=lambda run: (run.attempt.decided_at, run.attempt.number))
        for job, runs in newest.items()
    }


def _run(attempt: Attempt, status: JobStatus) -> _Run:
    return _Run(attempt, status.submission, status.generation)


def scored(
    published: Iterable[Version], runs: Mapping[JobId, Sequence[_Run]]
) -> tuple[tuple[Scored, ...], int]:
    """Return the predictions that came true or false, and how many are still open.

    Of versions that say the same of a job only the first counts: a forecast that stands is one
    prediction, however often others moved.
    """
    found: list[Scored] = []
    is_open = 0
    last: dict[tuple[JobId, Of, str], tuple[Instant, Instant]] = {}
    for version in published:
        for job, expected in version.forecast.jobs.items():
            of_job = runs.get(job, ())
            decided = [run.attempt.decided_at for run in of_job]
            after = bisect_left(decided, version.at + 1)
            running = of_job[after - 1] if after else None
            if running is not None and not _held_at(running.attempt, version.at):
                running = None
            by = of_job[after].attempt if after < len(of_job) else None
            what, p50, p90 = Of.START, expected.start_p50, expected.start_p90
            actual = None if by is None else by.decided_at
            if running is not None:
                by = running.attempt
                what, p50, p90 = Of.END, expected.end_p50, expected.end_p90
                actual = _own_end(by)
            key = (job, what, "" if by is None else by.id)
            if last.get(key) == (p50, p90):
                continue
            last[key] = (p50, p90)
            if actual is None:
                is_open += 1
                continue
            found.append(
                Scored(job=job, of=what, published_at=version.at, p50=p50, p90=p90, actual=actual)
            )
    return tuple(found), is_open


def _held_at(attempt: Attempt, at: Instant) -> bool:
    return attempt.decided_at <= at and (attempt.ended_at is None or attempt.ended_at > at)


def _own_end(attempt: Attempt) -> Instant | None:
    """Return when it ended by itself; None where it has not, or was asked to leave."""
    return None if attempt.stop_cause is not None else attempt.ended_at


def calibration(predictions: Sequence[Scored]) -> tuple[Calibration, ...]:
    """Return one row for starts and ends each, and for each lead time of them that occurs."""
    rows = []
    for of in Of:
        every = [each for each in predictions if each.of is of]
        if not every:
            continue
        rows.append(_row(f"{of.value}s", every))
        below = -1
        for words, bound in LEADS:
            upper = float("inf") if bound is None else bound
            group = [each for each in every if below < each.lead_s <= upper]
            below = bound or 0
            if group:
                rows.append(_row(f"  {words} ahead", group))
    return tuple(rows)


def _row(name: str, group: Sequence[Scored]) -> Calibration:
    absolute = sorted(abs(each.error_s) for each in group)
    signed = sorted(each.error_s for each in group)
    return Calibration(
        name=name,
        predictions=len(group),
        error_p50_s=_quantile(absolute, 0.5),
        error_p90_s=_quantile(absolute, 0.9),
        bias_s=_quantile(signed, 0.5),
        by_p50=sum(each.actual <= each.p50 for each in group) / len(group),
        by_p90=sum(each.is_covered for each in group) / len(group),
    )


def _quantile(ordered: Sequence[int], share: float) -> int:
    """Return the nearest-rank quantile of a sorted sequence."""
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def predictions_at(
    git_dir: Path, tip: CommitId, *, job: JobId | None = None, since: Instant | None = None
) -> tuple[tuple[Scored, ...], int, int]:
    """Return what was scored up to ``tip``, how many are open, and how many versions there are.

    Raises ``GitError``, in a shallow clone too.
    """
    changes = job_changes(git_dir, tip, job=job)
    published = versions(git_dir, tip, since)
    if job is not None:
        published = tuple(_only(version, job) for version in published)
    found, is_open = scored(published, runs_of(changes))
    return found, is_open, len(published)


def _only(version: Version, job: JobId) -> Version:
    jobs = {name: each for name, each in version.forecast.jobs.items() if name == job}
    return Version(
        commit=version.commit,
        at=version.at,
        forecast=Forecast(published_at=version.forecast.published_at, jobs=jobs),
    )
