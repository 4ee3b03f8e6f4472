"""Which layout to train a model with on given GPUs: the fastest of those that surely fit.

Every valid layout is estimated; those whose p90 does not fit are dropped; the rest are ranked by
predicted time a step at the same global batch.  The winner is explained against the runner-up
by what each spends its step on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reconciler.estimating.constants import Constants
from reconciler.estimating.estimate import Estimate, estimate
from reconciler.estimating.hardware import Gpu
from reconciler.estimating.layouts import Limits, layouts
from reconciler.estimating.margins import Verdict
from reconciler.estimating.training import Checkpointing, Engine, Sharding, Training

BEST = 5
"""Options that are kept to be shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Options, the fastest first; empty where nothing fits."""

    options: tuple[Estimate, ...]
    looked_at: int
    fitting: int
    closest: Estimate | None
    """Where nothing fits: the option that needs least memory."""
    smaller: Estimate | None
    """The fastest option that ``can_run`` accepts on the fewest GPUs that fit, if fewer."""
    runnable: Estimate | None
    """The fastest fitting option that ``can_run`` accepts."""

    @property
    def winner(self) -> Estimate | None:
        """Return the fastest option that surely fits."""
        return self.options[0] if self.options else None

    @property
    def runner_up(self) -> Estimate | None:
        """Return the next one that shares the GPUs in another way."""
        return None if self.winner is None else self.next_to(self.winner)

    def next_to(self, one: Estimate) -> Estimate | None:
        """Return the fastest option that shares the GPUs in another way than ``one``."""
        return next((other for other in self.options if _kind(other) != _kind(one)), None)


def advise(
    training: Training,
    gpu: Gpu,
    limits: Limits,
    constants: Constants,
    can_run: Callable[[Training], bool] = lambda _: True,
) -> Advice:
    """Return the ranked layouts for ``training``, whose own layout does not matter.

    ``can_run`` says which of them the trainer at hand takes; the ranking shows all.
    """
    found = _estimates(training, gpu, limits, constants)
    fitting = [one for one in found if one.fit.verdict is Verdict.FITS]
    ranked = plainest_first(sorted(fitting, key=_rank))
    best = _varied(ranked)
    smaller = None
    if fitting:
        smaller = _fewer(training, gpu, limits, constants, can_run)
    return Advice(
        options=tuple(best),
        looked_at=len(found),
        fitting=len(fitting),
        closest=None if fitting or not found else min(found, key=lambda one: one.p50_gib),
        smaller=smaller,
        runnable=next((one for one in ranked if can_run(one.training)), None),
    )


def _estimates(
    training: Training, gpu: Gpu, limits: Limits, constants: Constants
) -> list[Estimate]:
    return [estimate(one, gpu, constants) for one in layouts(training, gpu, limits)]


def _rank(one: Estimate) -> tuple[float, float, int, str]:
    """Return what to sort by: time a sample, memory, then the plainer layout."""
    ways = _ways(one.training)
    seconds = one.speed.step_s / one.training.global_batch
    return round(seconds, 6), round(one.p50_gib, 3), ways, layout_words(one.training)


SAME = 1.02
"""Predicted times closer than this are no difference."""


def plainest_first(ranked: list[Estimate]) -> list[Estimate]:
    """Return ``ranked`` with the plainest of those as fast as the first in front."""
    if not ranked:
        return ranked
    bound = SAME * ranked[0].speed.step_s
    plain = min(
        (one for one in ranked if one.speed.step_s <= bound),
        key=lambda one: (_ways(one.training), _rank(one)),
    )
    return [plain, *(one for one in ranked if one is not plain)]


def _ways(training: Training) -> int:
    """Return in how many ways beyond replicas a layout splits the model."""
    layout = training.layout
    sizes = (layout.tensor, layout.pipeline, layout.virtual, layout.context, layout.expert)
    return sum(size > 1 for size in sizes) + (layout.sharding is not Sharding.NONE)


def _kind(one: Estimate) -> tuple[object, ...]:
    layout = one.training.layout
    return (
        one.training.engine,
        layout.sharding,
        layout.tensor,
        layout.pipeline,
        layout.context,
        layout.expert,
    )


def _varied(ranked: Sequence[Estimate]) -> list[Estimate]:
    """Return the best of each way to share the GPUs, so that the list is no list of batches."""
    kept: dict[tuple[object, ...], Estimate] = {}
    for one in ranked:
        kept.setdefault(_kind(one), one)
    return list(kept.values())[:BEST]


def _fewer(
    training: Training,
    gpu: Gpu,
    limits: Limits,
    constants: Constants,
    can_run: Callable[[Training], bool],
) -> Estimate | None:
    """Return the fastest option that fits and runs on the fewest GPUs fewer than asked for."""
    for gpus in (size for size in range(1, limits.gpus) if limits.gpus % size == 0):
        less = Limits(gpus=gpus, global_batch=limits.global_batch, engines=limits.engines)
        found = _estimates(training, gpu, less, constants)
        fits = sorted((one for one in found if one.fit.verdict is Verdict.FITS), key=_rank)
        if (best := next((one for one in fits if can_run(one.training)), None)) is not None:
            return best
    return None


SHARDING_WORDS = {
    Sharding.NONE: "DDP",
    Sharding.ZERO1: "ZeRO-1",
    Sharding.ZERO2: "ZeRO-2",
    Sharding.ZERO3: "ZeRO-3",
    Sharding.FSDP: "FSDP2",
    Sharding.DISTRIBUTED_OPTIMIZER: "Megatron",
}


def layout_words(training: Training) -> str:
    """Return a layout in a few words: ``Megatron TP4 PP2 DP1, micro-batch 2, checkpointing``."""
    layout = training.layout
    parts = [SHARDING_WORDS[layout.sharding] if layout.gpus > 1 else "one GPU"]
    for name, size in (
        ("TP", layout.tensor),
        ("PP", layout.pipeline),
        ("VPP", layout.virtual),
        ("CP", layout.context),
        ("EP", layout.expert),
    ):
        if size > 1:
            parts.append(f"{name}{size}")
    if layout.data > 1:
        parts.append(f"DP{layout.data}")
    text = " ".join(parts) + f", micro-batch {training.micro_batch}"
    if training.accumulation > 1:
        text += f" x {training.accumulation}"
    full = training.checkpointing is Checkpointing.FULL
    return text + (", checkpointing" if full else ", no checkpointing")


def reasons(winner: Estimate, other: Estimate) -> tuple[str, ...]:
    """Return why ``winner`` is faster than ``other``, largest difference first."""
    a, b = winner.speed, other.speed
    gaps = (
        (b.compute_s - a.compute_s, "computing", _recomputes(winner, other)),
        (b.exposed_s - a.exposed_s, "waiting for other GPUs", ""),
        (b.bubble_s - a.bubble_s, "idle in the pipeline", ""),
        (b.update_s - a.update_s, "updating weights", ""),
    )
    lines = []
    for gap, words, why in sorted(gaps, key=lambda item: -abs(item[0])):
        if abs(gap) < 0.005 * b.step_s:
            continue
        more = "less" if gap > 0 else "more"
        lines.append(f"{abs(gap):.2f} s {more} {words}{why}")
    if winner.p50_gib < 0.9 * other.p50_gib:
        lines.append(f"{other.p50_gib - winner.p50_gib:.1f} GiB a GPU less memory")
    return tuple(lines)


def _recomputes(winner: Estimate, other: Estimate) -> str:
    mine, theirs = winner.training.checkpointing, other.training.checkpointing
    if mine is not theirs and mine is Checkpointing.NONE:
        return " (nothing is computed twice)"
    return ""


def train_lines(training: Training) -> tuple[str, ...]:
    """Return the ``train:`` lines that ask for this layout, in ms-swift 4's names."""
    layout = training.layout
    lines = [
        f"per_device_train_batch_size: {training.micro_batch}",
        f"gradient_accumulation_steps: {training.accumulation}",
        f"max_length: {training.seq_len}",
        f"tuner_type: {'lora' if training.is_adapter else 'full'}",
    ]
    if training.is_adapter:
        lines.append(f"lora_rank: {training.lora_rank}")
    if training.engine is Engine.MEGATRON:
        for key, size in (
            ("tensor_model_parallel_size", layout.tensor),
            ("pipeline_model_parallel_size", layout.pipeline),
            ("virtual_pipeline_model_parallel_size", layout.virtual),
            ("context_parallel_size", layout.context),
            ("expert_model_parallel_size", layout.expert),
        ):
            if size > 1:
                lines.append(f"{key}: {size}")
        full = training.checkpointing is Checkpointing.FULL
        lines.append(f"recompute_granularity: {'full' if full else 'none'}")
        return tuple(lines)
    full = training.checkpointing is Checkpointing.FULL
    lines.append(f"gradient_checkpointing: {'true' if full else 'false'}")
    if layout.context > 1:
        lines.append(f"sequence_parallel_size: {layout.context}")
    if layout.sharding in (Sharding.FSDP, Sharding.ZERO2):
        lines.append("fsdp: fsdp2")
    if layout.sharding is Sharding.ZERO2:
        lines.append("fsdp_reshard_after_forward: false")
    if layout.sharding in (Sharding.ZERO1, Sharding.ZERO3):
        lines.append(f"deepspeed: {layout.sharding.value}")
    return tuple(lines)
