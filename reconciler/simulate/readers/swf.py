"""Reads SWF, the format of the parallel computers' archive (Feitelson): 18 columns.

Lines that begin with ``;`` are comments.

Used of each line: job number, submit time, run time, allocated processors (requested ones where
that is -1), requested time as the limit, user and group.  -1 stands for unknown.  One processor
becomes one GPU.  Jobs that never ran are left out.
"""

from collections.abc import Iterable

from reconciler.simulate.load import Load, LoadError, TraceJob, in_order

COLUMNS = 18
NUMBER, SUBMIT, RUN, ALLOCATED, REQUESTED, LIMIT, USER, GROUP = 0, 1, 3, 4, 7, 8, 11, 12


def read(lines: Iterable[str], name: str) -> Load:
    """Return the load in ``lines``.  Raises ``LoadError`` naming the file and the line."""
    jobs = []
    for at, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        jobs.append(_job(line.split(), name, at))
    return in_order(jobs)


def _job(words: list[str], name: str, at: int) -> TraceJob:
    if len(words) < COLUMNS:
        raise LoadError(f"{name}:{at}: SWF has {COLUMNS} columns, this line has {len(words)}")
    try:
        values = [float(word) for word in words[:COLUMNS]]
    except ValueError as error:
        raise LoadError(f"{name}:{at}: expected numbers: {error}") from None
    allocated, requested, limit = (int(values[k]) for k in (ALLOCATED, REQUESTED, LIMIT))
    return TraceJob(
        id=f"swf-{int(values[NUMBER])}",
        submit_s=max(int(values[SUBMIT]), 0),
        duration_s=max(round(values[RUN]), 0),
        gpus=allocated if allocated > 0 else max(requested, 0),
        user="" if values[USER] < 0 else f"u{int(values[USER])}",
        team="" if values[GROUP] < 0 else f"g{int(values[GROUP])}",
        limit_s=limit if limit > 0 else None,
    )
