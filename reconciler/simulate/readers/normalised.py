"""Reads the normalised CSV: ``job_id,user,team,submit_s,duration_s,gpus,gpu_type,status,extra``.

Lines that begin with ``#`` are comments.  ``submit_s`` counts from the trace's own origin.
"""

import csv
from collections.abc import Iterable

from reconciler.simulate.load import Load, LoadError, TraceJob, in_order

COLUMNS = ("job_id", "submit_s", "duration_s", "gpus")


def read(lines: Iterable[str], name: str) -> Load:
    """Return the load in ``lines``.  Raises ``LoadError`` naming the file and the line."""
    numbered = [(at, line) for at, line in enumerate(lines, start=1) if not line.startswith("#")]
    if not numbered:
        raise LoadError(f"{name}: the file is empty")
    header = next(csv.reader([numbered[0][1]]))
    missing = [column for column in COLUMNS if column not in header]
    if missing:
        raise LoadError(
            f"{name}:{numbered[0][0]}: the header has no {', '.join(missing)}; "
            "expected job_id,user,team,submit_s,duration_s,gpus,gpu_type,status,extra"
        )
    return in_order(
        _job(dict(zip(header, row, strict=False)), name, at)
        for (at, _), row in zip(
            numbered[1:], csv.reader(line for _, line in numbered[1:]), strict=True
        )
        if row
    )


def _job(row: dict[str, str], name: str, at: int) -> TraceJob:
    try:
        return TraceJob(
            id=row["job_id"],
            submit_s=round(float(row["submit_s"])),
            duration_s=round(float(row["duration_s"])),
            gpus=int(row["gpus"]),
            user=row.get("user", ""),
            team=row.get("team", ""),
            gpu_type=row.get("gpu_type", ""),
        )
    except (ValueError, KeyError) as error:
        raise LoadError(
            f"{name}:{at}: expected whole numbers of seconds and GPUs: {error}"
        ) from None
