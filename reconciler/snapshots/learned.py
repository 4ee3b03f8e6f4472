"""What do measured runs say about estimates?  Memory by class, speed by device type, and the
time of a step by likeness.

Memory and speed are :func:`reconciler.estimating.refine.refined`: a factor that twenty published
runs hold back, so that three runs of a fleet do not overrule two hundred.  How long a job takes
rests first on runs alike (same model, task, tuner, data, length, batch and device), then on runs
of the same model, task and tuner there, then on the formula.  A gang that was spread counts with
the time that it would have taken together, where the policy weighs places.  All from one file of
the status branch: the same bytes teach the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from math import exp, log
from statistics import median, pstdev
from typing import Any, TypeVar

from reconciler.domain.cluster import DeviceKind
from reconciler.domain.job import SizeEstimate, WorkloadFacts
from reconciler.domain.policy import SpreadSlowdown
from reconciler.domain.spread import SpreadMeasured
from reconciler.domain.units import Digest
from reconciler.estimating.constants import Constants
from reconciler.estimating.estimate import resized
from reconciler.estimating.hardware import Gpu
from reconciler.estimating.memory import GIB
from reconciler.estimating.naming import UnknownNameError
from reconciler.estimating.refine import FleetRun, refined
from reconciler.estimating.throughput import speed
from reconciler.estimating.train_section import Setting, training_from
from reconciler.estimating.training import Training
from reconciler.planning.slowdown import slowdown, times_as_long
from reconciler.snapshots.history import Likeness, MeasuredRun, history_from_json, likeness
from reconciler.snapshots.measured_spread import measured_spread
from reconciler.specs.capacity import DeviceType
from reconciler.specs.estimates import hardware_of, on_slots
from reconciler.specs.model_catalogue import model_named_here, shipped_constants

SHIPPED_RUNS = 1.0
"""Weight of the formula against runs alike, in runs, on a device type that was calibrated."""
Z90 = 1.2816
LEAST_SPREAD = 1.1
"""The p90 of a duration over its p50 at the least: two runs of one job are never equal."""

Key = TypeVar("Key")
Kind = tuple[str, str, str, str]
"""Model, task, tuner, device type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How measured steps compare with the formula's: a factor on ``step_s`` and its spread."""

    factor: float
    p90: float
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What one history file teaches."""

    digest: Digest = Digest("")
    """Of the file; empty without one."""
    runs: int = 0
    """Runs that moved memory or speed."""
    memory: Mapping[str, float] = field(default_factory=dict)
    """Factor on memory by class of evidence."""
    speed: Mapping[str, float] = field(default_factory=dict)
    """Factor on tokens a second by device type."""
    alike: Mapping[Likeness, tuple[float, ...]] = field(default_factory=dict)
    """Logarithms of measured over expected step time, of runs alike."""
    kinds: Mapping[Kind, tuple[float, ...]] = field(default_factory=dict)
    steps: Mapping[tuple[Likeness, int | None], int] = field(default_factory=dict)
    """Steps that a whole run took, by likeness and global batch."""
    spread: SpreadMeasured = SpreadMeasured()
    """What being spread cost, where the policy weighs places."""

    def memory_factor(self, one: SizeEstimate) -> float:
        """Return the factor on an estimate's memory, in steps of one per cent, so that every
        single run does not move every job."""
        return 1.0 if one.is_cpu else round(self.memory.get(one.evidence, 1.0), 2)

    def pace(self, facts: WorkloadFacts, one: SizeEstimate) -> Pace | None:
        """Return how fast such a job's steps are; None where nobody can say."""
        kind = (facts.model, facts.task, facts.tuner, one.gpu_type)
        found = self.alike.get(likeness(facts, one.gpu_type)) or self.kinds.get(kind)
        base = -log(round(self.speed.get(one.gpu_type, 1.0), 2))
        held = SHIPPED_RUNS if one.is_calibrated else 0.0
        ordinary = shipped_constants().margins.duration_p90
        if not found:
            if not one.is_calibrated:
                return None
            return Pace(factor=exp(base), p90=ordinary, runs=0)
        factor = exp((sum(found) + held * base) / (len(found) + held))
        spread = ordinary
        if len(found) > 2:
            spread = max(LEAST_SPREAD, exp(Z90 * pstdev(found)))
        return Pace(factor=factor, p90=spread, runs=len(found))

    def changed_since(self, before: "Learned") -> frozenset[tuple[str, str, str]] | None:
        """Return the (model, task, tuner) of jobs of which this says something else than
        ``before``; None: of all, because a device type or a class moved by one per cent."""
        if self.digest == before.digest:
            return frozenset()
        if _whole(self.memory) != _whole(before.memory):
            return None
        if _whole(self.speed) != _whole(before.speed):
            return None
        changed = {key[:3] for key in _differing(self.alike, before.alike)}
        changed |= {key[:3] for key in _differing(self.kinds, before.kinds)}
        changed |= {key[0][:3] for key in _differing(self.steps, before.steps)}
        return frozenset(changed)

    def whole_steps(self, facts: WorkloadFacts, gpu_type: str) -> int | None:
        """Return the optimizer steps of a whole run: as the job says, else as runs alike took."""
        if facts.max_steps:
            return facts.max_steps
        return self.steps.get((likeness(facts, gpu_type), facts.global_batch))


NOTHING_LEARNED = Learned()


NOTHING_TOLD = SpreadSlowdown()


@lru_cache(maxsize=4)
def learned_from(text: bytes | None, told: SpreadSlowdown = NOTHING_TOLD) -> Learned:
    """Return what a history file teaches; nothing where there is none.  Raises ``GitError``.

    ``told`` is what the policy says of being spread.
    """
    if text is None:
        return NOTHING_LEARNED
    runs = history_from_json(text)
    spread = measured_spread(runs) if told else SpreadMeasured()
    slower = slowdown(told, spread)
    known = [(run, *found) for run in runs if (found := _training_of(run)) is not None]
    constants = shipped_constants()
    taught = refined(
        constants,
        (
            _fleet_run(run, training, gpu, times_as_long(slower, run.placement))
            for run, training, gpu in known
        ),
    ).refinement
    alike: dict[Likeness, list[float]] = {}
    kinds: dict[Kind, list[float]] = {}
    for run, training, gpu in known:
        together_s = run.step_s / times_as_long(slower, run.placement)
        ratio = log(together_s / speed(training, gpu, constants).step_s)
        alike.setdefault(run.likeness, []).append(ratio)
        kind = (run.facts.model, run.facts.task, run.facts.tuner, run.gpu_type)
        kinds.setdefault(kind, []).append(ratio)
    return Learned(
        digest=Digest("sha256:" + sha256(text).hexdigest()),
        runs=taught.runs,
        memory=taught.memory,
        speed=taught.speed,
        alike={key: tuple(ratios) for key, ratios in alike.items()},
        kinds={key: tuple(ratios) for key, ratios in kinds.items()},
        steps=_steps(runs),
        spread=spread,
    )


def refined_constants(text: bytes | None) -> Constants:
    """Return the shipped constants with what a history file teaches laid over them."""
    found = learned_from(text)
    shipped = shipped_constants()
    if not found.runs:
        return shipped
    return replace(
        shipped,
        refinement=replace(
            shipped.refinement, memory=found.memory, speed=found.speed, runs=found.runs
        ),
        origin=f"{shipped.origin}, refined by {found.runs} runs of this fleet",
    )


def _differing(one: Mapping[Key, Any], other: Mapping[Key, Any]) -> set[Key]:
    return {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}


def _whole(factors: Mapping[str, float]) -> dict[str, float]:
    """Return factors in whole per cent, without those that change nothing."""
    return {name: round(value, 2) for name, value in factors.items() if round(value, 2) != 1}


def _steps(runs: Iterable[MeasuredRun]) -> dict[tuple[Likeness, int | None], int]:
    whole: dict[tuple[Likeness, int | None], list[int]] = {}
    for run in runs:
        if run.outcome == "succeeded" and not run.facts.max_steps:
            whole.setdefault((run.likeness, run.facts.global_batch), []).append(run.last_step)
    return {key: round(median(counts)) for key, counts in whole.items()}


def _training_of(run: MeasuredRun) -> tuple[Training, Gpu] | None:
    """Return what the formulas are asked of a run; None where they cannot answer any more."""
    kind = DeviceKind.CPU_SLOT if run.is_cpu else DeviceKind.GPU
    gpu, _ = hardware_of(DeviceType(run.gpu_type, kind, 0.0))
    if not run.is_timed:
        return None
    try:
        model = model_named_here(run.facts.model)
        if run.is_cpu:
            return on_slots(run.train, model, run.asked_gpus, run.processes), gpu
        whole = training_from(run.train, model, Setting(gpus=run.asked_gpus))
        return resized(whole, run.processes), gpu
    except (UnknownNameError, ValueError, ArithmeticError):
        return None


def _fleet_run(run: MeasuredRun, training: Training, gpu: Gpu, slower: float) -> FleetRun:
    """Return a run as the formulas are refined by it: as fast as it would have been together."""
    rate = (run.raw_tokens_per_s or 0.0) * slower
    return FleetRun(
        training=training,
        gpu=gpu,
        allocated_gib=run.peak_bytes / GIB if run.peak_bytes and not run.is_cpu else None,
        tokens_per_s_per_gpu=rate / run.processes if rate else None,
    )
