"""Run directories for trainer tests, with quiet defaults: only what matters is named."""

import json
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

SHARERS = (
    "sequence_parallel_size",
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
)
"""Keys whose processes read the same rows."""


def a_run(
    root: Path,
    *,
    number: int = 1,
    world_size: int = 1,
    every: int | None = None,
    keep: int = 3,
    resumes: bool = False,
    per_device: int = 1,
    accumulation: int = 1,
    seed: int = 7,
    gpus: Sequence[str] = (),
    **train: Any,
) -> Path:
    """Return the run directory of attempt ``number`` below ``root``, its request written.

    ``gpus`` are UUIDs, one a process.  Attempts of one ``root`` share the checkpoints, as attempts
    of one generation do.
    """
    run_dir = root / f"a{number}"
    run_dir.mkdir(parents=True)
    checkpoints = root / "checkpoints"
    sharers = prod(train.get(key, 1) for key in SHARERS)
    sharers = sharers if world_size % sharers == 0 else 1
    section = {
        "task": "sft",
        "model": "random:qwen3-tiny",
        "dataset": "sample:support-chats",
        "max_length": 256,
        "learning_rate": 1e-3,
        "max_steps": 4,
    } | train
    request = {
        "version": "headway.run/v1",
        "attempt": f"demo.tiny-g1-a{number}-0123456789",
        "job": "demo/tiny",
        "submission": "0" * 40,
        "generation": 1,
        "number": number,
        "world_size": world_size,
        "device_kind": "gpu" if gpus else "cpu_slot",
        "devices": list(gpus) or [f"slot-{slot}" for slot in range(world_size)],
        "global_batch": world_size // sharers * per_device * accumulation,
        "per_device_batch": per_device,
        "accumulation": accumulation,
        "train": {key: value for key, value in section.items() if value is not None},
        "data_root": str(root),
        "checkpoint": {"every_steps": every, "keep": keep, "dir": str(checkpoints)},
        "resume_from": str(checkpoints) if resumes else None,
        "grace_s": 60,
        "seed": seed,
    }
    (run_dir / "request.json").write_text(json.dumps(request))
    return run_dir


def events(run_dir: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """Return the events of a run, all or of one kind."""
    path = run_dir / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    found: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return [event for event in found if kind in (None, event["event"])]


def losses(run_dir: Path) -> dict[int, float]:
    """Return the loss of each step."""
    return {event["step"]: event["loss"] for event in events(run_dir, "step")}


def result(run_dir: Path) -> dict[str, Any]:
    """Return the result of a run."""
    found: dict[str, Any] = json.loads((run_dir / "result.json").read_text())
    return found
