"""How good estimates are against a table of measured runs.

Scores, all on rows of quality A and B: memory error by class (E: exact lengths, instrument
known; V: the others), out-of-memory rows called fitting, synthetic ones made from the
measured rows, fitting rows refused, coverage of p90, throughput error, and the order of
published alternatives.  Predictions are capped at the device for rows that fit, because the
allocator is.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from reconciler.estimating.constants import Constants
from reconciler.estimating.estimate import Estimate, estimate
from reconciler.estimating.hardware import Gpu
from reconciler.estimating.margins import margin
from reconciler.estimating.model import Model
from reconciler.estimating.naming import gpu_like
from reconciler.estimating.rows import MeasuredRun, Row, run_from

EXACT_SOURCES = ("litgpt", "torchtune", "torchtitan", "fsdp_qlora", "QwenLM/Qwen")
"""Sources of class E: equal lengths in every step, peak read from a known counter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row: what ran, on what, what was measured, and what is predicted."""

    run: MeasuredRun
    gpu: Gpu
    peak_gib: float | None
    tokens_per_s: float | None
    fitted: bool
    quality: str
    estimate: Estimate

    @property
    def p50_gib(self) -> float:
        """Return the predicted peak as the row's own instrument would show it."""
        return instrument(self.estimate, self.run.kind)

    @property
    def is_exact(self) -> bool:
        """Return whether the row is of class E."""
        return self.quality == "A" and any(name in self.run.source for name in EXACT_SOURCES)

    @property
    def memory_error(self) -> float | None:
        """Return predicted over measured peak, minus 1; None where nothing was measured."""
        if self.peak_gib is None:
            return None
        shown = min(self.p50_gib, self.gpu.memory_gib) if self.fitted else self.p50_gib
        return shown / self.peak_gib - 1

    @property
    def speed_error(self) -> float | None:
        """Return predicted over measured throughput, minus 1; None without a measurement."""
        if self.tokens_per_s is None:
            return None
        return self.estimate.speed.tokens_per_s_per_gpu / self.tokens_per_s - 1


def instrument(one: Estimate, kind: str) -> float:
    """Return the peak in GiB as ``allocated``, ``reserved`` or ``device`` memory."""
    found: float = getattr(one.memory, f"{kind}_gib")
    return found


def case(
    row: Row, models: Mapping[str, Model], gpus: Mapping[str, Gpu], constants: Constants
) -> Case:
    """Return one row with its prediction.  Raises ``ValueError`` that names row and column."""
    run = run_from(row, models)
    gpu = gpu_like(run.gpu, run.gpu_memory_gb, gpus)
    return Case(
        run=run,
        gpu=gpu,
        peak_gib=_peak(row),
        tokens_per_s=float(row.get("measured_tokens_per_s_per_gpu") or 0) or None,
        fitted=row.get("fits", "yes") != "OOM",
        quality=row.get("quality", "A"),
        estimate=estimate(run.training, gpu, constants),
    )


def repredict(one: Case, constants: Constants) -> Case:
    """Return the same row under other constants."""
    return replace(one, estimate=estimate(one.run.training, one.gpu, constants))


def _peak(row: Row) -> float | None:
    text = row.get("measured_peak_mem_gb") or ""
    if not text:
        return None
    value = float(text)
    return value * 1e9 / 1024**3 if row.get("mem_unit") == "GB" else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Shares are of 1; ``median`` is the median absolute error."""

    count: int
    median: float
    within_10: float
    within_15: float
    within_20: float
    bias: float


def errors(values: Iterable[float | None]) -> Errors:
    """Return the statistics of signed relative errors."""
    signed = [value for value in values if value is not None]
    if not signed:
        return Errors(count=0, median=0.0, within_10=0.0, within_15=0.0, within_20=0.0, bias=0.0)
    sizes = [abs(value) for value in signed]
    shares = [sum(size <= bound for size in sizes) / len(sizes) for bound in (0.10, 0.15, 0.20)]
    return Errors(
        count=len(signed),
        median=median(sizes),
        within_10=shares[0],
        within_15=shares[1],
        within_20=shares[2],
        bias=median(signed),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Larger:
    """A synthetic out-of-memory run: a measured one at its next power of two."""

    origin: Case
    axis: str
    """``micro_batch`` or ``seq_len``."""
    value: int
    implied_gib: float
    """Measured, plus what is not states scaled linearly."""
    least_gib: float
    """The same, but what no length changes (contexts, communicators, buckets, the optimizer's
    scratch: the estimate of a single token) is not scaled."""
    estimate: Estimate

    @property
    def is_sure(self) -> bool:
        """Return whether it cannot fit even so."""
        return self.least_gib > self.estimate.gpu.memory_gib


def larger(cases: Iterable[Case], constants: Constants) -> tuple[Larger, ...]:
    """Return the next-larger runs that the measurements say cannot fit."""
    found = []
    for one in cases:
        if one.peak_gib is None or not one.fitted:
            continue
        training = one.run.training
        moving = max(one.peak_gib - one.estimate.memory.states_gib, 0.0)
        token = estimate(replace(training, seq_len=1, micro_batch=1), one.gpu, constants)
        surely = max(one.peak_gib - instrument(token, one.run.kind), 0.0)
        for axis in ("micro_batch", "seq_len"):
            now: int = getattr(training, axis)
            following = 1 << now.bit_length()
            implied = one.peak_gib + moving * (following / now - 1)
            if implied > one.gpu.memory_gib:
                bigger = (
                    replace(training, micro_batch=following)
                    if axis == "micro_batch"
                    else replace(training, seq_len=following)
                )
                found.append(
                    Larger(
                        origin=one,
                        axis=axis,
                        value=following,
                        implied_gib=implied,
                        least_gib=one.peak_gib + surely * (following / now - 1),
                        estimate=estimate(bigger, one.gpu, constants),
                    )
                )
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Everything ``headway estimate --csv`` reports."""

    memory_exact: Errors
    memory_variable: Errors
    memory: Errors
    oom_rows: int
    oom_called_fitting: tuple[str, ...]
    larger_rows: int
    larger_called_fitting: tuple[str, ...]
    sure_rows: int
    """Of these, the ones that cannot fit though fixed costs are not scaled."""
    sure_called_fitting: tuple[str, ...]
    fitting_rows: int
    fitting_refused: tuple[str, ...]
    p90_coverage: float
    p90_ratio: float
    speed: Errors
    order_pairs: int
    order_right: float


def scores(cases: Sequence[Case], constants: Constants) -> Scores:
    """Return the scores of predicted cases; rows of quality C do not count."""
    counted = [one for one in cases if one.quality in ("A", "B")]
    measured = [one for one in counted if one.peak_gib is not None]
    oom = [one for one in counted if not one.fitted]
    fitting = [one for one in counted if one.fitted]
    synthetic = larger(counted, constants)
    ratios = [margin(one.run.training, constants.margins).p90 for one in measured]
    covered = [
        min(one.p50_gib * ratio, one.gpu.memory_gib) >= min(one.peak_gib or 0, one.gpu.memory_gib)
        for one, ratio in zip(measured, ratios, strict=True)
    ]
    pairs = order(counted)
    return Scores(
        memory_exact=errors(one.memory_error for one in measured if one.is_exact),
        memory_variable=errors(one.memory_error for one in measured if not one.is_exact),
        memory=errors(one.memory_error for one in measured),
        oom_rows=len(oom),
        oom_called_fitting=tuple(one.run.id for one in oom if one.estimate.fit.fits),
        larger_rows=len(synthetic),
        larger_called_fitting=_called_fitting(synthetic),
        sure_rows=sum(one.is_sure for one in synthetic),
        sure_called_fitting=_called_fitting(one for one in synthetic if one.is_sure),
        fitting_rows=len(fitting),
        fitting_refused=tuple(one.run.id for one in fitting if not one.estimate.fit.fits),
        p90_coverage=sum(covered) / len(covered) if covered else 0.0,
        p90_ratio=median(ratios) if ratios else 0.0,
        speed=errors(one.speed_error for one in counted),
        order_pairs=len(pairs),
        order_right=sum(pairs) / len(pairs) if pairs else 0.0,
    )


def _called_fitting(found: Iterable[Larger]) -> tuple[str, ...]:
    return tuple(
        f"{one.origin.run.id} {one.axis} {one.value}" for one in found if one.estimate.fit.fits
    )


def order(cases: Iterable[Case]) -> list[bool]:
    """Return for each pair of published alternatives whether the faster one is predicted so.

    Alternatives are different runs with the same model, GPUs and tokens a step; pairs less than
    2 % apart say nothing.
    """
    groups: dict[tuple[str, ...], list[Case]] = {}
    for one in cases:
        if one.tokens_per_s is None:
            continue
        w = one.run.training
        key = (w.model.name, one.gpu.name, str(one.run.gpus), str(w.step_tokens))
        groups.setdefault(key, []).append(one)
    right = []
    for group in groups.values():
        for index, first in enumerate(group):
            for second in group[index + 1 :]:
                a, b = first.tokens_per_s or 0.0, second.tokens_per_s or 0.0
                if abs(a / b - 1) < 0.02 or first.run.training == second.run.training:
                    continue
                predicted = (
                    first.estimate.speed.tokens_per_s_per_gpu
                    - second.estimate.speed.tokens_per_s_per_gpu
                )
                right.append((predicted > 0) == (a > b))
    return right
