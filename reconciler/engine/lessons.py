"""What did attempts that end in this commit teach?  Copied out of their run directories.

The commit that records an attempt's end also records what it measured, so that estimates learn
from commits alone.  An attempt whose folder cannot be read teaches nothing; that never keeps its
end from being recorded.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from reconciler.domain.attempt import Attempt
from reconciler.domain.cluster import Cluster, Device, DeviceKind
from reconciler.domain.job import JobSpec
from reconciler.domain.spread import PlacementClass
from reconciler.domain.status import JobStatus
from reconciler.domain.units import JobId
from reconciler.engine.launches import Launches
from reconciler.engine.logging import Log
from reconciler.engine.requests import process_count, run_ref
from reconciler.errors import BackendError
from reconciler.estimating.train_section import READ_KEYS
from reconciler.launchers.measurements import Measurements, measurements
from reconciler.planning.spread import placement_class
from reconciler.planning.topology import layout
from reconciler.snapshots.history import (
    MeasuredRun,
    history_from_json,
    history_to_json,
    with_runs,
)

LEAST_STEPS = 3
"""Fewer timed steps are warming up."""
LEAST_STEP_S = 1e-6
"""A step that took less was not one; a job wrote these numbers, and some have no logarithm."""


def ended_attempts(
    before: Mapping[JobId, JobStatus], changed: Iterable[JobStatus]
) -> Iterator[tuple[JobStatus, Attempt]]:
    """Yield each attempt that held devices before and has ended now, with its new status."""
    for status in changed:
        old = before.get(status.job)
        live = old.live_attempt if old is not None else None
        if live is None:
            continue
        for attempt in status.attempts:
            if attempt.id == live.id and not attempt.phase.is_live:
                yield status, attempt


def history_after(
    history: bytes | None,
    ended: Iterable[tuple[JobStatus, Attempt]],
    *,
    launches: Launches,
    cluster: Cluster,
    runs_dir: str,
    weighs_places: bool,
    log: Log,
) -> bytes | None:
    """Return the history file with what ``ended`` attempts taught; None where they taught nothing.

    ``weighs_places``: whether the policy says what being spread costs; only then is it told of a
    gang how far it was.  Raises ``GitError`` where the old file is not one of this version.
    """
    new = []
    for status, attempt in ended:
        try:
            run = _measured(status, attempt, launches, cluster, runs_dir, weighs_places)
        except (BackendError, OSError) as error:
            log.event("not-measured", job=status.job, attempt=attempt.id, why=error)
            continue
        if run is not None:
            new.append(run)
    return history_to_json(with_runs(history_from_json(history), new)) if new else None


def _measured(
    status: JobStatus,
    attempt: Attempt,
    launches: Launches,
    cluster: Cluster,
    runs_dir: str,
    weighs_places: bool,
) -> MeasuredRun | None:
    """Return what an attempt measured; None for a command and for one that hardly trained."""
    if attempt.runs_command or attempt.ended_at is None:
        return None
    told = measurements(Path(runs_dir) / run_ref(status, attempt).path, attempt.id)
    if told is None:
        return None
    steps, training_s = int(told.metrics.get("steps", 0)), told.metrics.get("training_s", 0.0)
    device = _device(attempt, cluster)
    if steps < LEAST_STEPS or training_s / steps < LEAST_STEP_S or device is None:
        return None
    spec, document = launches.pinned(status.job, attempt)
    train = document.get("train") or {}
    is_cpu = device.kind is DeviceKind.CPU_SLOT
    return MeasuredRun(
        attempt=attempt.id,
        ended_at=attempt.ended_at,
        outcome=told.outcome,
        facts=spec.facts,
        train={key: train[key] for key in sorted(READ_KEYS & train.keys())},
        asked_gpus=spec.gpus.count,
        gpus=attempt.gpus,
        gpu_type=device.type,
        is_cpu=is_cpu,
        processes=process_count(spec, attempt.gpus, device.kind),
        steps=steps,
        training_s=training_s,
        last_step=told.step,
        wall_s=told.metrics.get("wall_s"),
        raw_tokens_per_s=told.metrics.get("raw_tokens_per_s"),
        peak_bytes=None if is_cpu else _peak(told),
        placement=_placement(spec, attempt, cluster) if weighs_places else None,
    )


def _placement(spec: JobSpec, attempt: Attempt, cluster: Cluster) -> PlacementClass | None:
    if attempt.gpus < 2:
        return None
    return placement_class(spec.gpus, attempt.allocation, layout(cluster))


def _peak(told: Measurements) -> int | None:
    return int(told.metrics.get("peak_memory_bytes", 0)) or None


def _device(attempt: Attempt, cluster: Cluster) -> Device | None:
    known = {(node.name, device.id): device for node in cluster.nodes for device in node.devices}
    return next((known[pair] for pair in attempt.allocation.devices() if pair in known), None)
