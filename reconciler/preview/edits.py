"""How do two specs of one job differ, in words?  ``priority P2 -> P1`` and the like."""

from dataclasses import fields
from typing import Any

from reconciler.domain.job import JobSpec


def spec_edits(old: JobSpec | None, new: JobSpec | None) -> list[tuple[str, str]]:
    """Return (field, words) of what differs between two specs of a job."""
    if old is None or new is None:
        return []
    found: list[tuple[str, str]] = []
    for item in fields(JobSpec):
        was, now = getattr(old, item.name), getattr(new, item.name)
        if item.name in ("spec_digest", "estimates") or was == now:
            continue
        if item.name == "gpus":
            found.append(("gpus", _request_edit(old, new)))
        elif item.name == "facts":
            found += _fact_edits(old, new)
        else:
            found.append((item.name, f"{_label(item.name)} {_shown(was)} -> {_shown(now)}"))
    return found or [("train", "other keys of train or run")]


def _fact_edits(old: JobSpec, new: JobSpec) -> list[tuple[str, str]]:
    pairs = [
        (item.name, getattr(old.facts, item.name), getattr(new.facts, item.name))
        for item in fields(old.facts)
    ]
    return [
        (name, f"{_label(name)} {_shown(was)} -> {_shown(now)}")
        for name, was, now in pairs
        if was != now
    ]


def _request_edit(old: JobSpec, new: JobSpec) -> str:
    was, now = request_words(old), request_words(new)
    if was == now and old.gpus.min_memory_gib != new.gpus.min_memory_gib:
        was = f"needs {old.gpus.min_memory_gib:.1f} GiB a GPU"
        now = f"{new.gpus.min_memory_gib:.1f}"
    return f"{was} -> {now}"


def _label(name: str) -> str:
    return name.removesuffix("_s").replace("_", " ")


def _shown(value: Any) -> str:
    if value is None or value == () or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(str(each) for each in value)
    return str(getattr(value, "name", value))


def request_words(spec: JobSpec) -> str:
    """Return ``4x A100-80GB``, or ``4 GPUs`` where any type will do."""
    if not spec.gpus.types:
        return f"{spec.gpus.count} GPU" + ("" if spec.gpus.count == 1 else "s")
    return f"{spec.gpus.count}x {'/'.join(spec.gpus.types)}"
