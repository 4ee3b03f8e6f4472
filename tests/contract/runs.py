"""What the launcher contract needs: requests with quiet defaults, and waiting with a deadline."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reconciler.domain.attempt import Observation, ObservedState
from reconciler.domain.cluster import Allocation, DeviceKind, NodeShare
from reconciler.domain.launch import LaunchRequest, RunRef
from reconciler.domain.units import AttemptId, DeviceId, JobId, NodeName, Seconds
from reconciler.ports import Launcher

PATIENCE_S = 30.0
OVER = (ObservedState.ENDED, ObservedState.LOST)


def a_request_document(attempt: str = "t.j-g1-a1-0123456789", **changes: Any) -> dict[str, Any]:
    """Return a whole ``request.json`` that keeps its contract."""
    document: dict[str, Any] = {
        "version": "headway.run/v1",
        "attempt": attempt,
        "job": "t/j",
        "submission": "a" * 40,
        "generation": 1,
        "number": 1,
        "world_size": 1,
        "device_kind": "cpu_slot",
        "devices": ["cpu-0"],
        "global_batch": 8,
        "per_device_batch": 4,
        "accumulation": 2,
        "train": {"task": "sft"},
        "data_root": None,
        "checkpoint": {"every_steps": 5, "keep": 3, "dir": "/runs/t/j/aaaaaaaaaa-g1/checkpoints"},
        "resume_from": None,
        "grace_s": 5,
        "seed": 1,
    }
    return document | changes


def a_launch(
    *command: str,
    number: int = 1,
    grace_s: int = 5,
    devices: tuple[str, ...] = ("cpu-0",),
    kind: DeviceKind = DeviceKind.CPU_SLOT,
) -> LaunchRequest:
    """Return a launch of ``command`` as attempt ``number`` of one job."""
    attempt = AttemptId(f"t.j-g1-a{number}-0123456789")
    share = NodeShare(node=NodeName("here"), devices=tuple(DeviceId(name) for name in devices))
    return LaunchRequest(
        run=RunRef(attempt=attempt, path=f"t/j/aaaaaaaaaa-g1/a{number}"),
        job=JobId("t/j"),
        allocation=Allocation(shares=(share,)),
        device_kind=kind,
        processes=1,
        grace_s=Seconds(grace_s),
        command=command or None,
        request=a_request_document(
            attempt, number=number, grace_s=grace_s, devices=list(devices), device_kind=kind.value
        ),
    )


def wait_until(is_so: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """Return once ``is_so`` holds; fail with ``what`` was waited for after the deadline."""
    deadline = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < deadline, f"waited {patience_s:g} s for: {what}"
        time.sleep(0.02)


def see(launcher: Launcher, run: RunRef) -> Observation:
    return launcher.poll([run])[run.attempt]


def wait_for_end(launcher: Launcher, run: RunRef) -> Observation:
    """Return the first observation that is an end."""
    wait_until(lambda: see(launcher, run).state in OVER, f"{run.attempt} is over")
    return see(launcher, run)


def wait_for_text(path: Path, text: str) -> None:
    wait_until(lambda: path.exists() and text in path.read_text(), f"{text!r} in {path.name}")
