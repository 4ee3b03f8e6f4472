"""Words an estimate for people and for machines: parts, a memory bar, verdict, speed.

The bar is one letter a slice of the device: W weights, G gradients, O optimizer, A activations,
L logits, T temporaries, B buffers, R runtime, a dot for what is free.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from reconciler.cli.tables import Column, fields, render
from reconciler.cli.terminal import Terminal, wrap
from reconciler.cli.times import duration
from reconciler.estimating import counting
from reconciler.estimating.advise import layout_words
from reconciler.estimating.estimate import Course, Estimate
from reconciler.estimating.margins import Verdict
from reconciler.estimating.training import Training

BAR_WIDTH = 60
PARTS = (
    ("weights", "W"),
    ("gradients", "G"),
    ("optimizer", "O"),
    ("activations", "A"),
    ("logits", "L"),
    ("temporaries", "T"),
    ("buffers", "B"),
    ("runtime", "R"),
)
VERDICTS = {
    Verdict.FITS: ("fits", "good"),
    Verdict.TIGHT: ("fits, but inside the margin: may run out of memory", "wait"),
    Verdict.DOES_NOT_FIT: ("does not fit", "bad"),
}
EVIDENCE = {
    "single": "runs of fixed length on one GPU",
    "exact": "runs of fixed length on several GPUs",
    "sharded": "runs under DeepSpeed's ZeRO",
    "variable": "runs of varying length",
}


def training_words(training: Training) -> str:
    """Return model, task, tuner and batch on one line."""
    model = training.model
    billions = counting.total(model) / 1e9
    tuner = "all weights"
    if training.is_adapter:
        tuner = f"LoRA r={training.lora_rank} on {','.join(training.lora_targets)}"
    kept = "" if training.quantisation.value == "none" else f" on {training.quantisation.value}"
    return (
        f"{model.name} ({billions:.3g} B), {training.task.value}, {tuner}{kept}, "
        f"{training.optimizer.value}, {training.seq_len} tokens x "
        f"{training.micro_batch} x {training.accumulation}"
    )


def text(
    one: Estimate,
    terminal: Terminal,
    *,
    smallest: int | None = None,
    course: Course | None = None,
    constants: str = "",
) -> str:
    """Return an estimate as people read it."""
    verdict, style = VERDICTS[one.fit.verdict]
    where = f"{one.gpus} x {one.gpu.name}"
    lines = [
        training_words(one.training),
        f"on {where}: {layout_words(one.training)}",
        "",
        _parts(one, terminal),
        "",
        _bar(one),
        "",
        fields(
            [
                ("Verdict", terminal.paint(verdict, style)),
                ("Memory a GPU", _memory(one)),
                ("All GPUs", f"{one.total_gib:.0f} GiB"),
                ("Smallest gang", _smallest(smallest, one)),
                ("Speed", _speed(one)),
                *_course(course),
                ("Rests on", _rests(one, constants)),
            ]
        ),
    ]
    lines += [wrap(f"note: {note}", terminal.width, "      ") for note in one.notes]
    return "\n".join(lines)


def _parts(one: Estimate, terminal: Terminal) -> str:
    values = asdict(one.memory.parts)
    rows = [
        (f"{letter} {name}", f"{values[name]:.2f}", f"{100 * values[name] / one.p50_gib:.0f} %")
        for name, letter in PARTS
    ]
    columns = (Column("PART"), Column("GIB", "right"), Column("SHARE", "right"))
    return render(columns, rows, terminal)


def _bar(one: Estimate) -> str:
    """Return the device as letters; what does not fit runs over the closing bracket."""
    usable = one.fit.usable_gib
    size = usable if usable < float("inf") else one.p50_gib
    values = asdict(one.memory.parts)
    bar, filled = "", 0.0
    for name, letter in PARTS:
        filled += values[name]
        until = round(BAR_WIDTH * filled / size)
        bar += letter * max(until - len(bar), 0)
    over = bar[BAR_WIDTH : 2 * BAR_WIDTH]
    inside = bar[:BAR_WIDTH].ljust(BAR_WIDTH, ".")
    tail = f"{over}{'...' if len(bar) > 2 * BAR_WIDTH else ''}"
    return f"[{inside}]{tail} {100 * one.p50_gib / size:.0f} %"


def _memory(one: Estimate) -> str:
    usable = one.fit.usable_gib
    limit = f" of {usable:.1f} usable" if usable < float("inf") else ""
    return f"{one.p50_gib:.1f} GiB expected, {one.p90_gib:.1f} in nine of ten runs{limit}"


def _smallest(gpus: int | None, one: Estimate) -> str:
    if gpus is None:
        return f"none fits with this layout on {one.gpu.name}"
    return f"{gpus} x {one.gpu.name}"


def _speed(one: Estimate) -> str:
    fast = one.speed
    return (
        f"{fast.tokens_per_s_per_gpu:,.0f} tokens/s a GPU, {fast.step_s:.2f} s a step "
        f"(MFU {100 * fast.mfu:.0f} %)"
    )


def _course(course: Course | None) -> list[tuple[str, str]]:
    if course is None:
        return []
    words = (
        f"{course.steps:,} steps in {duration(round(course.duration_p50_s))} "
        f"(nine of ten within {duration(round(course.duration_p90_s))}), "
        f"{course.gpu_hours:,.1f} GPU-hours"
    )
    if course.cost is not None:
        words += f", cost {course.cost:,.2f}"
    return [("Duration", words)]


def _rests(one: Estimate, constants: str) -> str:
    measured = (
        f"{one.measured_runs} published runs on this GPU"
        if one.is_calibrated
        else "no published run on this GPU"
    )
    return f"{measured}; errors of {EVIDENCE[one.evidence.value]}; {constants}"


def item(
    one: Estimate,
    *,
    smallest: int | None = None,
    course: Course | None = None,
    constants: str = "",
) -> dict[str, Any]:
    """Return an estimate for JSON: GiB, seconds, whole GPUs."""
    usable = one.fit.usable_gib
    return {
        "model": one.training.model.name,
        "parameters": counting.total(one.training.model),
        "gpu_type": one.gpu.name,
        "gpus": one.gpus,
        "layout": layout_words(one.training),
        "memory": {
            "p50_gib": round(one.p50_gib, 3),
            "p90_gib": round(one.p90_gib, 3),
            "total_gib": round(one.total_gib, 3),
            "usable_gib": usable if usable < float("inf") else None,
            "states_gib": round(one.memory.states_gib, 3),
            "peak": one.memory.peak,
            "parts_gib": {
                name: round(value, 3) for name, value in asdict(one.memory.parts).items()
            },
        },
        "verdict": one.fit.verdict.value,
        "fits": one.fit.fits,
        "fits_factor": one.fit.factor,
        "evidence": one.evidence.value,
        "measured_runs": one.measured_runs,
        "smallest_gang": smallest,
        "speed": {
            "tokens_per_s_per_gpu": round(one.speed.tokens_per_s_per_gpu, 1),
            "step_s": round(one.speed.step_s, 4),
            "mfu": round(one.speed.mfu, 4),
        },
        "course": None if course is None else _course_item(course),
        "notes": list(one.notes),
        "constants": constants,
    }


def _course_item(course: Course) -> dict[str, Any]:
    return {
        "steps": course.steps,
        "tokens": course.tokens,
        "duration_p50_s": round(course.duration_p50_s),
        "duration_p90_s": round(course.duration_p90_s),
        "gpu_hours": round(course.gpu_hours, 2),
        "cost": None if course.cost is None else round(course.cost, 2),
    }


def options_table(options: Sequence[Estimate], terminal: Terminal) -> str:
    """Return the ranked layouts as a table."""
    columns = (
        Column("#", "right"),
        Column("S A STEP", "right"),
        Column("TOKENS/S/GPU", "right"),
        Column("P50 GIB", "right"),
        Column("P90 GIB", "right"),
        Column("LAYOUT"),
    )
    rows = [
        (
            str(index),
            f"{one.speed.step_s:.2f}",
            f"{one.speed.tokens_per_s_per_gpu:,.0f}",
            f"{one.p50_gib:.1f}",
            f"{one.p90_gib:.1f}",
            layout_words(one.training),
        )
        for index, one in enumerate(options, start=1)
    ]
    return render(columns, rows, terminal)
