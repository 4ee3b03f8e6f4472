"""Do the ``after:`` lists of all jobs together make sense?  Names exist, nothing is circular."""

from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from reconciler.domain.units import JobId
from reconciler.specs.codes import Code
from reconciler.specs.findings import Finding
from reconciler.specs.names import nearest

LOOKED_AT = 500

if TYPE_CHECKING:
    from reconciler.specs.reading import SpecEntry


def dependency_findings(
    entries: "Iterable[SpecEntry]", known: Collection[JobId]
) -> dict[JobId, list[Finding]]:
    """Return the findings by job; ``known`` are all jobs of the tree, also those not read."""
    findings: dict[JobId, list[Finding]] = {}
    after: dict[JobId, tuple[JobId, ...]] = {}
    for entry in entries:
        if entry.spec is None or not entry.spec.after:
            continue
        after[entry.id] = entry.spec.after
        for number, other in enumerate(entry.spec.after):
            if other not in known:
                close = nearest(other, _candidates(other, known))
                hint = f"did you mean `{close}`?" if close else "write team/name"
                findings.setdefault(entry.id, []).append(
                    Finding(("after", number), Code.AFTER_UNKNOWN, f"there is no job {other}", hint)
                )
    for cycle in _cycles(after):
        message = f"these jobs wait for each other: {' -> '.join((*cycle, cycle[0]))}"
        for job in cycle:
            findings.setdefault(job, []).append(
                Finding(
                    ("after",), Code.AFTER_CYCLE, message, "remove one of the dependencies", True
                )
            )
    return findings


def _candidates(other: JobId, known: Collection[JobId]) -> list[JobId]:
    """Return the jobs that ``other`` may be a slip of: looking at all of a large fleet is slow."""
    if len(known) <= LOOKED_AT:
        return list(known)
    team, _, name = other.partition("/")
    alike = (job for job in known if job.startswith(f"{team}/") or job.endswith(f"/{name}"))
    return list(islice(alike, LOOKED_AT))


def _cycles(after: Mapping[JobId, tuple[JobId, ...]]) -> list[tuple[JobId, ...]]:
    """Return each circle of dependencies once, starting at its first name.

    Every job is left once all it waits for is left; what remains holds a circle, and following
    the first remaining dependency of any of them ends in one.
    """
    waits = {job: {other for other in others if other in after} for job, others in after.items()}
    ready = [job for job, others in waits.items() if not others]
    waited_for: dict[JobId, list[JobId]] = {}
    for job, others in waits.items():
        for other in others:
            waited_for.setdefault(other, []).append(job)
    while ready:
        done = ready.pop()
        del waits[done]
        for job in waited_for.get(done, ()):
            waits[job].discard(done)
            if not waits[job]:
                ready.append(job)
    cycles = []
    seen: set[JobId] = set()
    for start in sorted(waits):
        trail: dict[JobId, int] = {}
        job = start
        while job not in seen and job not in trail:
            trail[job] = len(trail)
            job = min(waits[job])
        if job in trail:
            circle = list(trail)[trail[job] :]
            first = circle.index(min(circle))
            cycles.append(tuple(circle[first:] + circle[:first]))
        seen.update(trail)
    return cycles
