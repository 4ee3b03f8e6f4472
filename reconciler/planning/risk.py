"""What would make a running job leave?  Each answer is planned.

A newcomer is laid over the snapshot: a team of the cohort that asks for what it is owed, or an
urgent gang, smallest first.  The changed snapshot is planned; only a newcomer for which the job is
really asked to leave is returned.  The planner's own rules answer, so whoever runs on what another
team lent is told who may take it back, and at how few GPUs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from reconciler.domain.job import GpuRequest, JobSpec, PriorityClass, Submission, TopologyDomain
from reconciler.domain.plan import Plan, Verb
from reconciler.domain.snapshot import DesiredJob, Snapshot
from reconciler.domain.team import Team
from reconciler.domain.units import Instant, JobId, JobName, TeamName
from reconciler.planning.memo import Memo
from reconciler.planning.plan import plan

NEWCOMER = JobName("newcomer")
URGENT_SLACK_S = 3600
TRIED_SIZES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """One newcomer for which the job would be asked to leave."""

    words: str
    """``if team vision asks for 4 GPUs of its own quota``."""
    team: TeamName
    priority: PriorityClass
    gpus: int
    resumes: Instant | None
    """When it would run again; None where nothing tells."""


def risks(snapshot: Snapshot, planned: Plan, job: JobId, memo: Memo | None = None) -> list[Risk]:
    """Return what would make ``job`` leave: one newcomer a lender, and one urgent one, each the
    smallest that does.  Empty for a job that does not run, or that nobody may stop.

    Costs one plan a newcomer tried: 4 sizes a lender and 4 of an urgent gang at most.
    """
    decision, status = planned.decisions.get(job), snapshot.statuses.get(job)
    live = None if status is None else status.live_attempt
    if decision is None or decision.verb is not Verb.KEEP or live is None or not live.preemptible:
        return []
    found: dict[tuple[TeamName, PriorityClass], Risk] = {}
    for newcomer, words in _newcomers(snapshot, job):
        key = newcomer.team, newcomer.priority
        if key in found:
            continue
        answer, _ = plan(_with(snapshot, newcomer), memo)
        if answer.decisions[job].verb not in (Verb.PREEMPT, Verb.RESIZE):
            continue
        then = answer.forecast.get(job)
        found[key] = Risk(
            words=words,
            team=newcomer.team,
            priority=newcomer.priority,
            gpus=newcomer.gpus.count,
            resumes=None if then is None or then.start_p50 <= snapshot.now else then.start_p50,
        )
    return [found[key] for key in sorted(found, key=lambda key: (-key[1], key[0]))]


def _newcomers(snapshot: Snapshot, job: JobId) -> Iterator[tuple[JobSpec, str]]:
    own = snapshot.teams.get(TeamName(job.split("/")[0]))
    if own is not None and own.cohort is not None:
        for name, team in sorted(snapshot.teams.items()):
            if name == own.name or team.cohort != own.cohort:
                continue
            for gpus in _sizes(snapshot, team):
                said = f"if team {name} asks for {_gpus(gpus)} of its own quota"
                yield _spec(snapshot, job, name, gpus, PriorityClass.P2), said
    for gpus in _sizes(snapshot, None):
        name = TeamName(job.split("/")[0])
        yield (
            _spec(snapshot, job, name, gpus, PriorityClass.P0),
            f"for an urgent (P0) gang of {_gpus(gpus)}",
        )


def _sizes(snapshot: Snapshot, team: Team | None) -> list[int]:
    """Return the gangs tried, smallest first: within the team's quota, and on one node."""
    most = max((len(node.devices) for node in snapshot.cluster.nodes), default=0)
    if team is not None and team.quota_gpus:
        most = min(most, *team.quota_gpus.values())
    return [gpus for gpus in TRIED_SIZES if gpus <= most]


def _spec(
    snapshot: Snapshot, job: JobId, team: TeamName, gpus: int, priority: PriorityClass
) -> JobSpec:
    """Return a newcomer for devices such as the job has."""
    status = snapshot.statuses[job]
    live = status.live_attempt
    assert live is not None  # asked only for live jobs
    held = set(live.allocation.devices())
    types = {
        device.type
        for node in snapshot.cluster.nodes
        for device in node.devices
        if (node.name, device.id) in held
    }
    is_urgent = priority is PriorityClass.P0
    return JobSpec(
        team=team,
        name=NEWCOMER,
        gpus=GpuRequest(count=gpus, within=TopologyDomain.NODE, types=tuple(sorted(types))),
        priority=priority,
        deadline=Instant(snapshot.now + URGENT_SLACK_S) if is_urgent else None,
    )


def _with(snapshot: Snapshot, spec: JobSpec) -> Snapshot:
    desired = snapshot.desired
    wanted = DesiredJob(id=spec.id, commit=desired.commit, spec=spec)
    submission = Submission(commit=desired.commit, committed_at=snapshot.now)
    return replace(
        snapshot,
        desired=replace(
            desired,
            jobs=dict(sorted({**desired.jobs, spec.id: wanted}.items())),
            submissions={**desired.submissions, spec.id: submission},
        ),
    )


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
