"""What the demo sees of its fleet: statuses from the status branch, progress from run folders.

It reads only what anybody could read: the branch, and the run directories' JSON files.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from reconciler.domain.attempt import Attempt
from reconciler.domain.launch import run_path
from reconciler.domain.status import JobPhase, JobStatus
from reconciler.domain.units import JobId
from reconciler.specs.serialize import status_from_json
from reconciler.store.git.cat_file import read_files
from reconciler.store.git.command import resolve


@dataclass(frozen=True, slots=True)
class Progress:
    """What the trainer last said of an attempt; zeros before it said anything."""

    step: int = 0
    total_steps: int = 0
    loss: float | None = None
    checkpoint_step: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """One job entered a phase."""

    job: JobId
    before: JobPhase | None
    status: JobStatus


class Watch:
    """Looks at one fleet again and again, and remembers every phase a job went through."""

    def __init__(self, origin: Path, runs: Path, cluster: str) -> None:
        self._origin = origin
        self._runs = runs
        self._ref = f"refs/heads/status/{cluster}"
        self._seen: str | None = None
        self.statuses: Mapping[JobId, JobStatus] = {}
        self.phases: dict[JobId, list[JobPhase]] = {}

    def look(self) -> tuple[Change, ...]:
        """Read the status branch; return the phase changes since the last look, by job."""
        tip = resolve(self._origin, self._ref)
        if tip is None or tip == self._seen:
            return ()
        self._seen = tip
        files = read_files(self._origin, tip, ["status"])
        before = self.statuses
        self.statuses = {
            job: status_from_json(text, job)
            for job, text in (
                (JobId(path.removeprefix("status/").removesuffix(".json")), text)
                for path, text in sorted(files.items())
            )
        }
        return tuple(self._changes(before))

    def _changes(self, before: Mapping[JobId, JobStatus]) -> Iterator[Change]:
        for job, status in self.statuses.items():
            old = before.get(job)
            if old is None or old.phase != status.phase:
                self.phases.setdefault(job, []).append(status.phase)
                yield Change(job, old.phase if old else None, status)

    def phase(self, job: str) -> JobPhase | None:
        """Return the phase of a job; None before the reconciler knows it."""
        status = self.statuses.get(JobId(job))
        return None if status is None else status.phase

    def attempts(self, job: str) -> tuple[Attempt, ...]:
        """Return the attempts of a job, oldest first."""
        status = self.statuses.get(JobId(job))
        return () if status is None else status.attempts

    def run_dirs(self, job: str) -> tuple[Path, ...]:
        """Return the run directories of a job's attempts, oldest first."""
        status = self.statuses.get(JobId(job))
        if status is None:
            return ()
        return tuple(
            self._runs / run_path(status.job, status.submission, status.generation, attempt.number)
            for attempt in status.attempts
        )

    def progress(self, job: str) -> Progress:
        """Return what the newest attempt of a job last wrote."""
        folders = self.run_dirs(job)
        for folder in reversed(folders):
            try:
                beat = json.loads((folder / "heartbeat.json").read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue
            saved = beat["last_checkpoint"]
            return Progress(
                step=beat["step"],
                total_steps=beat["total_steps"] or 0,
                loss=beat["loss"],
                checkpoint_step=saved["step"] if saved else 0,
            )
        return Progress()

    def result(self, job: str) -> Mapping[str, object]:
        """Return the newest attempt's ``result.json``; empty where there is none."""
        folders = self.run_dirs(job)
        if not folders:
            return {}
        try:
            result = json.loads((folders[-1] / "result.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return dict(result)
