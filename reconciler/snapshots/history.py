"""What did finished attempts teach?  ``.headway/history.json``: measured runs, newest last.

The commit that records an attempt's end copies here what the attempt measured, so what estimates
learn from is in git, never in a run folder, and a replay at any commit learns the same.  Only
this file calibrates.  It stays small: the newest runs, and of like runs only a few.

Version 1: runs.  Version 2: ``placement`` of a run; a file of version 1 has none, and is read.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reconciler.domain.job import WorkloadFacts
from reconciler.domain.spread import PlacementClass
from reconciler.domain.units import AttemptId, Instant
from reconciler.errors import GitError
from reconciler.snapshots.plain import canonical_text, plain, restore

VERSION = 2
READ_VERSIONS = (1, 2)
RUNS_KEPT = 200
LIKE_RUNS_KEPT = 8
"""Of runs alike in one placement class: more of them say little, and one sweep must not drive
out all others."""
BYTES_KEPT = 128 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """One attempt that ended after it had trained."""

    attempt: AttemptId
    ended_at: Instant
    outcome: str
    """``succeeded``, ``stopped``, ``failed`` or ``diverged``."""
    facts: WorkloadFacts
    train: Mapping[str, Any] = field(default_factory=dict)
    """The keys of its ``train:`` section that the formulas read."""
    asked_gpus: int
    """The size its batch keys are meant for."""
    gpus: int
    """Devices it held."""
    gpu_type: str
    is_cpu: bool = False
    processes: int
    steps: int
    """Optimizer steps that were timed in this attempt."""
    training_s: float
    """Their time."""
    last_step: int
    """Where the generation stood at the end; all its steps where it succeeded."""
    wall_s: float | None = None
    """From the start of the trainer to its end, loading and saving included."""
    raw_tokens_per_s: float | None = None
    """Of all processes, padding counted."""
    peak_bytes: int | None = None
    """Largest ``max_memory_allocated`` of its GPUs; None on CPU slots."""
    placement: PlacementClass | None = None
    """How far its gang was spread; None for one device, and where the policy weighed no places."""

    @property
    def step_s(self) -> float:
        """Return the measured time of one optimizer step."""
        return self.training_s / self.steps

    @property
    def is_timed(self) -> bool:
        """True where its steps took any time at all: what a job wrote may not."""
        return self.steps > 0 and self.step_s > 0

    @property
    def likeness(self) -> "Likeness":
        """Return what runs alike have in common."""
        return likeness(self.facts, self.gpu_type)


Likeness = tuple[str, str, str, tuple[str, ...], int | None, int | None, str]


def likeness(facts: WorkloadFacts, gpu_type: str) -> Likeness:
    """Return what a job shares with the runs that say most about it: model, task, tuner, data,
    length, batch of a device, and the device's type."""
    return (
        facts.model, facts.task, facts.tuner, facts.data,
        facts.max_length, facts.per_device_batch, gpu_type,
    )  # fmt: skip


def with_runs(runs: Iterable[MeasuredRun], new: Iterable[MeasuredRun]) -> tuple[MeasuredRun, ...]:
    """Return the history after ``new`` runs ended: bounded, oldest first, each attempt once."""
    by_attempt = {run.attempt: run for run in (*runs, *new)}
    ordered = sorted(by_attempt.values(), key=lambda run: (run.ended_at, run.attempt))
    kept: list[MeasuredRun] = []
    alike: Counter[tuple[Likeness, PlacementClass | None]] = Counter()
    size = 0
    for run in reversed(ordered):
        alike[run.likeness, run.placement] += 1
        if alike[run.likeness, run.placement] > LIKE_RUNS_KEPT:
            continue
        size += len(canonical_text(plain(run)).encode()) + 1
        if len(kept) == RUNS_KEPT or size > BYTES_KEPT:
            break
        kept.append(run)
    return tuple(reversed(kept))


def history_to_json(runs: Iterable[MeasuredRun]) -> bytes:
    """Return the file: one run a line, so that a new run is one new line of a diff."""
    lines = ",\n".join(canonical_text(plain(run)) for run in runs)
    return f'{{"runs":[\n{lines}\n],"version":{VERSION}}}\n'.encode()


def history_from_json(text: bytes | None) -> tuple[MeasuredRun, ...]:
    """Return the runs of a history file; none where there is no file.

    Raises ``GitError`` where it is not as a reconciler of this version writes it.
    """
    if text is None:
        return ()
    try:
        document = json.loads(text)
        if document.get("version") not in READ_VERSIONS:
            raise ValueError(f"it has version {document.get('version')}")
        return tuple(restore(MeasuredRun, each) for each in document["runs"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise GitError(
            f".headway/history.json is not what this headway writes: {error}", retryable=False
        ) from error
