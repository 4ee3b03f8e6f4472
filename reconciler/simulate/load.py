"""The work a simulation is run on: who asked for how many GPUs, when, and for how long.

A load is recorded (a public trace) or made up (``synthetic``).  It says nothing about the machines
and nothing a trace does not say: classes, limits and teams come from ``asks``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TypeAlias

from reconciler.errors import UsageError


class LoadError(UsageError):
    """A load that cannot be read or simulated; the message says where and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """One job of a trace.  Times are whole seconds; ``submit_s`` counts from any origin."""

    id: str
    submit_s: int
    duration_s: int
    """The measured running time at ``gpus``; at least 1."""
    gpus: int
    user: str = ""
    team: str = ""
    gpu_type: str = ""
    limit_s: int | None = None
    """The running time its user asked for, where the trace tells."""


Load: TypeAlias = tuple[TraceJob, ...]
"""Sorted by submission, those of one second in the order of the file."""


def in_order(jobs: Iterable[TraceJob]) -> Load:
    """Return ``jobs`` as a load; jobs that ran no time at all, or used no GPU, are left out."""
    kept = [job for job in jobs if job.duration_s > 0 and job.gpus > 0]
    return tuple(sorted(kept, key=lambda job: job.submit_s))


def select(
    load: Load, *, since_s: int | None = None, until_s: int | None = None, team: str | None = None
) -> Load:
    """Return the jobs of ``team`` submitted in [since_s, until_s], on the trace's own clock.

    Raises ``LoadError`` when nothing is left.
    """
    kept = tuple(
        job
        for job in load
        if (since_s is None or job.submit_s >= since_s)
        and (until_s is None or job.submit_s <= until_s)
        and (team is None or job.team == team)
    )
    if not kept:
        teams = ", ".join(sorted({job.team for job in load if job.team})) or "none"
        raise LoadError(
            f"no job is left of {len(load)}: submitted from {since_s} to {until_s}, team {team}. "
            f"Teams in this trace: {teams}"
        )
    return kept


def span_s(load: Load) -> int:
    """Return the seconds between the first submission and the last, at least 1."""
    return max(load[-1].submit_s - load[0].submit_s, 1)


def offered_load(load: Load, gpus: int) -> float:
    """Return rho: GPU-seconds asked for over GPU-seconds there are while jobs are submitted."""
    return sum(job.gpus * job.duration_s for job in load) / (gpus * span_s(load))


def nodes_for(load: Load, *, rho: float, gpus_per_node: int) -> int:
    """Return the fewest nodes on which ``load`` asks for at most ``rho``, and its widest gang fits.

    Raises ``LoadError`` for a rho that is not above 0.
    """
    if rho <= 0:
        raise LoadError(f"a load must be above 0, got {rho}")
    asked = sum(job.gpus * job.duration_s for job in load)
    widest = max(job.gpus for job in load)
    by_load = round(asked / (rho * gpus_per_node * span_s(load)))
    return max(by_load, ceil(widest / gpus_per_node), 1)


def without_giants(load: Load, gpus: int) -> tuple[Load, int]:
    """Return the jobs that can run on ``gpus`` at all, and how many cannot."""
    kept = tuple(job for job in load if job.gpus <= gpus)
    return kept, len(load) - len(kept)


def rebased(load: Sequence[TraceJob]) -> Load:
    """Return the load with its first submission at second 0."""
    first = load[0].submit_s
    return tuple(replace(job, submit_s=job.submit_s - first) for job in load)
