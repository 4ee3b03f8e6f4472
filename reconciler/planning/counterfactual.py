"""What is the smallest change that would start a waiting job sooner?  Each answer is planned.

A candidate changes one fact of the snapshot: the gang is smaller, another job had ended, a team
of the cohort lent GPUs, more device types or a wider domain would do.  The changed snapshot is
planned from nothing; only a candidate under which the job really starts sooner is returned.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from reconciler.domain.attempt import AttemptPhase
from reconciler.domain.job import GangSize, JobSpec, TopologyDomain
from reconciler.domain.plan import Expectation, Plan, Verb
from reconciler.domain.policy import Policy
from reconciler.domain.reason import Reason
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.status import JobPhase
from reconciler.domain.team import Team
from reconciler.domain.units import Instant, JobId, Seconds, TeamName
from reconciler.planning.forecast import MOVED_S, MOVED_SHARE
from reconciler.planning.memo import Memo
from reconciler.planning.plan import plan
from reconciler.planning.remaining import total

TRIED_SIZES = 6
TRIED_ENDS = 4
_WIDER = (TopologyDomain.NVLINK, TopologyDomain.NODE, TopologyDomain.RACK, TopologyDomain.CLUSTER)


class Change(StrEnum):
    """What a candidate changes."""

    FEWER_GPUS = "fewer_gpus"
    OTHER_ENDS = "other_ends"
    TEAM_LENDS = "team_lends"
    MORE_TYPES = "more_types"
    WIDER_DOMAIN = "wider_domain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """One change, and what the planner answered to it."""

    change: Change
    words: str
    """``with 3 GPUs``, ``if search/b ends``: follows the instant of the start."""
    gpus: int
    starts_now: bool
    start_p50: Instant
    end_p50: Instant
    sooner_s: Seconds
    """How much earlier it starts than the plan says, in seconds."""
    later_end_s: Seconds
    """How much later it ends than the plan says; negative: sooner."""
    other: JobId | None = None
    """The job whose end is meant."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    change: Change
    words: str
    snapshot: Snapshot
    gpus: int
    other: JobId | None = None


def suggestions(
    snapshot: Snapshot, planned: Plan, job: JobId, memo: Memo | None = None
) -> tuple[Suggestion, ...]:
    """Return verified changes under which ``job`` starts sooner, one a kind, the soonest first.

    Empty for a job that does not wait, or that has no place to be compared with.  Costs one whole
    plan a candidate, at most 6 sizes, 4 ends and one of each other kind; the ``memo`` that came
    with ``planned`` makes each cheaper.
    """
    spec = _spec(snapshot, job)
    decision, expected = planned.decisions.get(job), planned.forecast.get(job)
    if spec is None or decision is None or expected is None or decision.verb is not Verb.WAIT:
        return ()
    best: dict[Change, Suggestion] = {}
    for candidate in _candidates(snapshot, spec, expected):
        if candidate.change in best and best[candidate.change].starts_now:
            continue
        found = _verified(candidate, job, expected, memo)
        known = best.get(candidate.change)
        if found is not None and (known is None or found.start_p50 < known.start_p50):
            best[candidate.change] = found
    order = {change: number for number, change in enumerate(Change)}
    return tuple(sorted(best.values(), key=lambda each: (each.start_p50, order[each.change])))


def _verified(
    candidate: _Candidate, job: JobId, expected: Expectation, memo: Memo | None
) -> Suggestion | None:
    answer, _ = plan(candidate.snapshot, memo)
    decision, then = answer.decisions.get(job), answer.forecast.get(job)
    if decision is None or then is None:
        return None
    starts = decision.verb is Verb.START
    sooner_s = expected.start_p50 - then.start_p50
    if not starts and sooner_s <= max(MOVED_S, MOVED_SHARE * (expected.start_p50 - answer.now)):
        return None
    return Suggestion(
        change=candidate.change,
        words=candidate.words,
        gpus=candidate.gpus,
        starts_now=starts,
        start_p50=then.start_p50,
        end_p50=then.end_p50,
        sooner_s=Seconds(sooner_s),
        later_end_s=Seconds(then.end_p50 - expected.end_p50),
        other=candidate.other,
    )


def _candidates(snapshot: Snapshot, spec: JobSpec, expected: Expectation) -> Iterator[_Candidate]:
    yield from _smaller(snapshot, spec)
    yield from _ends(snapshot, spec, expected)
    yield from _lent(snapshot, spec)
    yield from _types(snapshot, spec)
    yield from _wider(snapshot, spec)


def _smaller(snapshot: Snapshot, spec: JobSpec) -> Iterator[_Candidate]:
    """Yield smaller legal gangs, the largest first."""
    sizes = smaller_sizes(snapshot.sizes.get(spec.id, ()), spec, snapshot.policy)
    for size in sizes[:TRIED_SIZES]:
        request = replace(spec.gpus, count=size.gpus)
        changed = _with_spec(snapshot, replace(spec, gpus=request, elastic=None))
        yield _Candidate(
            Change.FEWER_GPUS,
            f"with {size.gpus} GPU{'' if size.gpus == 1 else 's'}",
            replace(changed, sizes={**snapshot.sizes, spec.id: (size,)}),
            size.gpus,
        )


def smaller_sizes(
    sizes: tuple[GangSize, ...], spec: JobSpec, policy: Policy
) -> tuple[GangSize, ...]:
    """Return legal sizes below the requested one, largest first, one a GPU count.

    Where estimating knew no other size, those that keep the global batch and the model's split
    are taken, with the duration stretched by the missing GPUs.
    """
    known = {size.gpus: size for size in reversed(sizes) if size.gpus < spec.gpus.count}
    if not known:
        whole = total(spec, sizes, policy)
        known = {
            gpus: GangSize(
                gpus=gpus,
                gpu_type="",
                duration_p50_s=_stretched(whole.p50, spec.gpus.count, gpus),
                duration_p90_s=_stretched(whole.p90, spec.gpus.count, gpus),
            )
            for gpus in range(1, spec.gpus.count)
            if _keeps_batch(spec, gpus)
        }
    return tuple(known[gpus] for gpus in sorted(known, reverse=True))


def _keeps_batch(spec: JobSpec, gpus: int) -> bool:
    facts = spec.facts
    if spec.runs_command or gpus % facts.model_parallel:
        return False
    if facts.global_batch is None:
        return True
    replicas = gpus // facts.model_parallel
    return facts.global_batch % (replicas * (facts.per_device_batch or 1)) == 0


def _stretched(seconds: Seconds, gpus: int, fewer: int) -> Seconds:
    return Seconds(-(-seconds * gpus // fewer))


def _ends(snapshot: Snapshot, spec: JobSpec, expected: Expectation) -> Iterator[_Candidate]:
    """Yield the ends of the jobs whose devices this one waits for."""
    for other in [each for each in expected.rests_on if each != spec.id][:TRIED_ENDS]:
        status = snapshot.statuses.get(other)
        live = status.live_attempt if status is not None else None
        if status is None or live is None:
            continue
        ended = replace(
            live,
            phase=AttemptPhase.SUCCEEDED,
            reason=Reason.COMPLETED,
            started_at=live.started_at or live.decided_at,
            ended_at=snapshot.now,
        )
        finished = replace(
            status,
            phase=JobPhase.SUCCEEDED,
            reason=Reason.COMPLETED,
            attempts=(*status.attempts[:-1], ended),
        )
        changed = replace(
            snapshot,
            statuses={**snapshot.statuses, other: finished},
            observations={k: v for k, v in snapshot.observations.items() if k != live.id},
        )
        yield _Candidate(Change.OTHER_ENDS, f"if {other} ends", changed, spec.gpus.count, other)


def _lent(snapshot: Snapshot, spec: JobSpec) -> Iterator[_Candidate]:
    """Yield what a team with quota to spare could lend, the fewest GPUs first.

    Teams of the same cohort lend by themselves; this asks for a change of conf.
    """
    own = snapshot.teams.get(spec.team)
    if own is None or not own.quota_gpus:
        return
    for name, other in sorted(snapshot.teams.items()):
        if name == own.name or not other.quota_gpus:
            continue
        for gpus in sorted({1, 2, max(spec.gpus.count // 2, 1), spec.gpus.count}):
            taken = _moved(other, -gpus)
            if taken is None:
                break
            teams: Mapping[TeamName, Team] = {
                **snapshot.teams,
                name: taken,
                own.name: _moved(own, gpus) or own,
            }
            yield _Candidate(
                Change.TEAM_LENDS,
                f"if team {name} lends {gpus} of its quota",
                replace(snapshot, teams=teams),
                spec.gpus.count,
            )


def _moved(team: Team, gpus: int) -> Team | None:
    """Return ``team`` with ``gpus`` more of each quota; None where one would be negative."""
    quota = {name: limit + gpus for name, limit in team.quota_gpus.items()}
    return None if min(quota.values()) < 0 else replace(team, quota_gpus=quota)


def _types(snapshot: Snapshot, spec: JobSpec) -> Iterator[_Candidate]:
    if not spec.gpus.types:
        return
    there = {device.type for node in snapshot.cluster.nodes for device in node.devices}
    for name in sorted(there - set(spec.gpus.types)):
        request = replace(spec.gpus, types=(*spec.gpus.types, name))
        changed = _with_spec(snapshot, replace(spec, gpus=request))
        yield _Candidate(Change.MORE_TYPES, f"if {name} will do as well", changed, spec.gpus.count)


def _wider(snapshot: Snapshot, spec: JobSpec) -> Iterator[_Candidate]:
    for domain in _WIDER[_WIDER.index(spec.gpus.within) + 1 :]:
        request = replace(spec.gpus, within=domain)
        changed = _with_spec(snapshot, replace(spec, gpus=request))
        yield _Candidate(
            Change.WIDER_DOMAIN, f"with `within: {domain.value}`", changed, spec.gpus.count
        )


def _spec(snapshot: Snapshot, job: JobId) -> JobSpec | None:
    wanted = snapshot.desired.jobs.get(job)
    return None if wanted is None else wanted.spec


def _with_spec(snapshot: Snapshot, spec: JobSpec) -> Snapshot:
    wanted = snapshot.desired.jobs[spec.id]
    jobs = {**snapshot.desired.jobs, spec.id: replace(wanted, spec=spec)}
    return replace(snapshot, desired=replace(snapshot.desired, jobs=jobs))
