"""What the fleet's own finished runs say about the shipped constants.

Memory is refined by class of evidence, speed by GPU type: each by the mean of
log(measured / predicted), shrunk towards no change as if ``PRIOR_RUNS`` published runs had
agreed with the prediction.  Three runs so move an estimate by an eighth of what they say, two
hundred by nine tenths.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import exp, log

from reconciler.estimating.constants import Constants, Refinement
from reconciler.estimating.hardware import Gpu
from reconciler.estimating.margins import evidence
from reconciler.estimating.memory import memory
from reconciler.estimating.throughput import speed
from reconciler.estimating.training import Training

PRIOR_RUNS = 20.0
"""Weight of the published measurements against the fleet's own, in runs."""
FARTHEST = 2.0
"""A run that differs by more than this factor counts as this factor: one odd run is no law."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRun:
    """One finished attempt: what ran, and what the trainer reported."""

    training: Training
    gpu: Gpu
    peak_gib: float | None = None
    """Largest device memory of any of its GPUs."""
    allocated_gib: float | None = None
    """Largest ``max_memory_allocated`` of any of its GPUs."""
    tokens_per_s_per_gpu: float | None = None


def refined(constants: Constants, runs: Iterable[FleetRun]) -> Constants:
    """Return ``constants`` with what ``runs`` teach; without runs, the same constants.

    The result depends on the shipped constants and the runs alone: an earlier refinement in
    ``constants`` is dropped, so every digest of a history has one meaning.
    """
    shipped = replace(constants, refinement=Refinement())
    memories: dict[str, list[float]] = {}
    speeds: dict[str, list[float]] = {}
    count = 0
    for run in runs:
        peak = run.peak_gib or run.allocated_gib
        if peak:
            expected = memory(run.training, shipped.memory)
            predicted = expected.device_gib if run.peak_gib else expected.allocated_gib
            memories.setdefault(evidence(run.training).value, []).append(peak / predicted)
        if run.tokens_per_s_per_gpu:
            rate = speed(run.training, run.gpu, shipped).tokens_per_s_per_gpu
            speeds.setdefault(run.gpu.name, []).append(run.tokens_per_s_per_gpu / rate)
        count += bool(peak or run.tokens_per_s_per_gpu)
    if not count:
        return shipped
    return replace(
        shipped,
        refinement=Refinement(
            memory={name: _shrunk(ratios) for name, ratios in sorted(memories.items())},
            speed={name: _shrunk(ratios) for name, ratios in sorted(speeds.items())},
            runs=count,
        ),
    )


def _shrunk(ratios: list[float]) -> float:
    """Return the factor that ratios of measured over predicted justify."""
    bound = log(FARTHEST)
    total = sum(max(-bound, min(bound, log(ratio))) for ratio in ratios)
    return exp(total / (len(ratios) + PRIOR_RUNS))
