"""What a changed job needs, in words and as JSON: memory verdict, duration, GPU-hours."""

from collections.abc import Iterable
from typing import Any

from reconciler.cli.times import duration
from reconciler.domain.units import JobId
from reconciler.preview.needs import MemoryVerdict, Needs

VERDICTS = {
    MemoryVerdict.FITS: "fits",
    MemoryVerdict.TIGHT: "may run out of memory",
    MemoryVerdict.DOES_NOT_FIT: "runs out of memory",
    MemoryVerdict.COUNTED: "not compared",
}


def needs_line(job: JobId, found: Needs) -> str:
    """Return one line: ``job needs 65.3 of 79.2 GiB a GPU ... fits; 12h, 96 GPU-h``."""
    time = (
        f"{duration(found.duration_p50_s)} (p90 {duration(found.duration_p90_s)}), "
        f"{found.gpu_hours:,.1f} GPU-h in all"
    )
    if found.memory_p50_gib is None or found.verdict is None:
        return f"{job} needs {time}; its memory is not known"
    of = "" if found.usable_gib is None else f" of {found.usable_gib:.1f}"
    return (
        f"{job} needs {found.memory_p50_gib:.1f}{of} GiB a device on {found.gpus} x "
        f"{found.gpu_type}, {found.memory_p90_gib:.1f} in one of ten such runs: "
        f"{VERDICTS[found.verdict]}; {time}"
    )


def rests_on(found: Iterable[Needs | None], learned_runs: int) -> str:
    """Return what the estimates rest on, empty where there are none."""
    if not any(each is not None and each.memory_p50_gib is not None for each in found):
        return ""
    if learned_runs:
        runs = f"{learned_runs} finished run" + ("" if learned_runs == 1 else "s")
        return f" Estimates are refined by {runs} of this fleet."
    return " Estimates rest on the shipped constants: no finished run of this fleet is known."


def needs_item(found: Needs | None) -> dict[str, Any] | None:
    """Return what a job needs for machines: GiB a device, seconds."""
    if found is None:
        return None
    return {
        "gpus": found.gpus,
        "gpu_type": found.gpu_type,
        "duration_p50_s": found.duration_p50_s,
        "duration_p90_s": found.duration_p90_s,
        "gpu_hours": round(found.gpu_hours, 3),
        "memory_p50_gib": found.memory_p50_gib,
        "memory_p90_gib": found.memory_p90_gib,
        "usable_gib": found.usable_gib,
        "memory_verdict": None if found.verdict is None else found.verdict.value,
    }
