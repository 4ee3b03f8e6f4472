"""Could this reservation ever be held, and may its team ask for it?

Like the meaning of a job: nothing here depends on what runs now, which the planner knows.
"""

from collections.abc import Iterable, Mapping

from reconciler.domain.job import JobSpec
from reconciler.domain.reservation import Reservation
from reconciler.domain.units import JobId
from reconciler.specs.capacity import Capacity
from reconciler.specs.codes import Code
from reconciler.specs.findings import Finding
from reconciler.specs.meaning import budget_findings, gang_findings, no_team, size_findings
from reconciler.specs.platform import Platform


def reservation_findings(
    held: Reservation, platform: Platform, capacity: Capacity
) -> list[Finding]:
    """Return why the platform would never hold this, one finding a rule."""
    most = platform.policy.max_request_gpus
    if held.gpus.count > most:
        said = f"{held.gpus.count} GPUs is an absurd request: at most {most} are taken for one"
        return [Finding(("gpus",), Code.WILDCARD, said, "write the number you need")]
    team = platform.teams.get(held.team)
    findings: list[Finding] = []
    if team is None:
        findings.append(no_team(held.team, platform))
    else:
        findings += gang_findings(held.gpus, team, ("gpus",))
    findings += size_findings(held.gpus, platform, capacity, ("gpus",))
    start, end = held.occurrences[0]
    gpu_hours = held.gpus.count * (end - start) / 3600
    findings += budget_findings(held.budget_group, held.team, platform, gpu_hours)
    findings += [
        Finding(
            ("for", number),
            Code.RESERVED_FOR,
            f"{job} is not of team {held.team}, whose quota the reservation uses",
            f"name jobs of jobs/{held.team}/, or let that team reserve",
        )
        for number, job in enumerate(held.for_jobs)
        if not job.startswith(f"{held.team}/")
    ]
    return findings


def served_findings(
    reservations: Iterable[Reservation], specs: Mapping[JobId, JobSpec | None]
) -> dict[JobId, list[Finding]]:
    """Return what shows only beside the jobs: names that are none, gangs that are too large.

    ``specs`` has every job that was read; None for one whose document is not valid.
    """
    found: dict[JobId, list[Finding]] = {}
    for held in reservations:
        for number, job in enumerate(held.for_jobs):
            said = _unserved(held, job, specs)
            if said:
                hint = "write team/name of a job, or ask for as many GPUs as it does"
                finding = Finding(("for", number), Code.RESERVED_FOR, said, hint, is_warning=True)
                found.setdefault(held.id, []).append(finding)
    return found


def _unserved(held: Reservation, job: JobId, specs: Mapping[JobId, JobSpec | None]) -> str:
    if job not in specs:
        return f"there is no job {job} yet"
    spec = specs[job]
    if spec is not None and spec.gpus.count > held.gpus.count:
        return f"{job} needs {spec.gpus.count} GPUs, the reservation keeps {held.gpus.count}"
    return ""
