"""What is a launcher asked to run?  One attempt and its document become a launch request.

The whole of ``request.json`` (``trainer/contract/request.schema.json``) is decided here, from
values that are all in commits: asking again after a crash, or from another machine, asks for
the same thing.  The global batch is what the document means at ``resources.gpus``; it is kept
whatever the number of processes, by accumulation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from reconciler.domain.attempt import Attempt
from reconciler.domain.cluster import Allocation, DeviceKind
from reconciler.domain.job import JobSpec
from reconciler.domain.launch import LaunchRequest, RunRef, generation_path, run_path
from reconciler.domain.status import JobStatus
from reconciler.domain.units import JobId
from reconciler.errors import LauncherError

CONTRACT_VERSION = "headway.run/v1"
CPU_PROCESSES = 2
"""CPU slots are accounting: a job there runs in at most this many processes."""
KEEP_DEFAULT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where runs live on the machines, and where relative data paths start."""

    runs_dir: str
    """Absolute; the launcher's root."""
    data_root: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """How one optimizer step is cut: global = data-parallel size x per device x accumulation."""

    global_batch: int | None
    per_device: int | None
    accumulation: int | None


def launch_request(
    *,
    spec: JobSpec,
    document: Mapping[str, Any],
    status: JobStatus,
    attempt: Attempt,
    device_kind: DeviceKind,
    place: Place,
) -> LaunchRequest:
    """Return the request for ``attempt``, whose document was composed at ``attempt.commit``.

    Raises ``LauncherError`` (not retryable) where the batch cannot be cut to the processes.
    """
    processes = process_count(spec, attempt.allocation.gpus, device_kind)
    run = run_ref(status, attempt)
    return LaunchRequest(
        run=run,
        job=status.job,
        allocation=attempt.allocation,
        device_kind=device_kind,
        processes=processes,
        grace_s=spec.grace_s,
        command=_command(document) if spec.runs_command else None,
        request={
            "version": CONTRACT_VERSION,
            "attempt": attempt.id,
            "job": status.job,
            "submission": status.submission,
            "generation": status.generation,
            "number": attempt.number,
            "world_size": processes,
            "device_kind": device_kind.value,
            "devices": _devices(attempt.allocation),
            **_batch_keys(cut_batch(spec, processes)),
            "train": dict(document.get("train") or {}),
            "data_root": place.data_root,
            "checkpoint": _checkpoint(document, status, place),
            "resume_from": checkpoint_dir(status, place) if attempt.number > 1 else None,
            "grace_s": int(spec.grace_s),
            "seed": seed_of(status.job, status.generation),
        },
    )


def run_ref(status: JobStatus, attempt: Attempt) -> RunRef:
    """Return the attempt with its run directory, relative to the launcher's root."""
    path = run_path(status.job, status.submission, status.generation, attempt.number)
    return RunRef(attempt=attempt.id, path=path)


def checkpoint_dir(status: JobStatus, place: Place) -> str:
    """Return the absolute folder that the attempts of one submission and generation share."""
    shared = generation_path(status.job, status.submission, status.generation)
    return f"{place.runs_dir}/{shared}/checkpoints"


def process_count(spec: JobSpec, gpus: int, device_kind: DeviceKind) -> int:
    """Return how many processes run: one a GPU; on CPU slots two where the batch divides.

    A ``run:`` job is one command whatever it holds.
    """
    if spec.runs_command:
        return 1
    if device_kind is DeviceKind.GPU:
        return gpus
    if spec.facts.global_batch is None or spec.facts.per_device_batch is None:
        return 1
    if spec.facts.model_parallel > 1:
        return gpus  # as many as share one copy of the work, or the training is another one
    forwards = spec.facts.global_batch // spec.facts.per_device_batch
    return max(count for count in range(1, min(CPU_PROCESSES, gpus) + 1) if forwards % count == 0)


def cut_batch(spec: JobSpec, processes: int) -> Batch:
    """Return the batch of one step for that many processes; all None for a ``run:`` job."""
    facts = spec.facts
    if facts.global_batch is None or facts.per_device_batch is None:
        return Batch(global_batch=facts.global_batch, per_device=None, accumulation=None)
    each = facts.per_device_batch * max(processes // facts.model_parallel, 1)
    if facts.global_batch % each:
        raise LauncherError(
            f"{spec.id}: a global batch of {facts.global_batch} does not divide into "
            f"{processes} processes of {facts.per_device_batch} samples; change "
            "train.per_device_train_batch_size or resources.gpus",
            retryable=False,
        )
    return Batch(
        global_batch=facts.global_batch,
        per_device=facts.per_device_batch,
        accumulation=facts.global_batch // each,
    )


def seed_of(job: JobId, generation: int) -> int:
    """Return the seed of a generation, in [0, 2^31): the same for all its attempts."""
    digest = sha256(f"{job}\n{generation}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def _batch_keys(batch: Batch) -> dict[str, int | None]:
    return {
        "global_batch": batch.global_batch,
        "per_device_batch": batch.per_device,
        "accumulation": batch.accumulation,
    }


def _devices(allocation: Allocation) -> list[str]:
    return [device for _, device in allocation.devices()]


def _checkpoint(document: Mapping[str, Any], status: JobStatus, place: Place) -> dict[str, Any]:
    asked = document.get("checkpoint") or {}
    return {
        "every_steps": asked.get("every_steps"),
        "keep": asked.get("keep") or KEEP_DEFAULT,
        "dir": checkpoint_dir(status, place),
    }


def _command(document: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(word) for word in document["run"]["command"])
