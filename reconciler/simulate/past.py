"""How would the jobs of the past have fared under another policy?  The same cycle, again.

What is taken from the past is what nobody can change now: who asked for what, when, and how long
it really worked.  Both sides are simulated, the policy that holds and the other one, so that what
the simulation leaves out (people who would have acted otherwise, machines that broke) is left out
of both.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.domain.budget import Budget
from reconciler.domain.cluster import Cluster
from reconciler.domain.job import JobSpec
from reconciler.domain.policy import Policy
from reconciler.domain.team import Team
from reconciler.domain.units import Instant, JobId, Seconds, TeamName
from reconciler.planning.memo import Memo
from reconciler.simulate.runs import Behaviour
from reconciler.simulate.world import SimWorld

CADENCE_S = Seconds(300)
"""Between cycles in which nothing happened; a cycle follows each event at once."""
PATIENCE_S = 6 * 3600
"""Where nothing starts, ends or is due for this long, nothing ever will."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastJob:
    """One generation of one job, as it was."""

    spec: JobSpec
    submitted_at: Instant
    work_s: Seconds
    """Running time until it ended, over all its attempts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fared:
    """What became of one job in one simulation; None: nothing, as far as it was looked at."""

    submitted_at: Instant
    work_s: Seconds
    started_at: Instant | None = None
    ended_at: Instant | None = None
    preemptions: int = 0

    @property
    def wait_s(self) -> int | None:
        """End - submission - work, in seconds, floored at 0: stops and restarts count."""
        if self.ended_at is None:
            return None
        return max(self.ended_at - self.submitted_at - self.work_s, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What does not change between the two sides."""

    cluster: Cluster
    teams: Mapping[TeamName, Team]
    budgets: Mapping[str, Budget]


def fared(past: Sequence[PastJob], fleet: Fleet, policy: Policy) -> Mapping[JobId, Fared]:
    """Return what becomes of each job under ``policy``, sorted by job.

    A job that ran in several generations is simulated once a generation; the last one is told.
    """
    if not past:
        return {}
    ordered = sorted(past, key=lambda job: (job.submitted_at, job.spec.id))
    world = SimWorld(
        fleet.cluster,
        now=ordered[0].submitted_at,
        policy=replace(policy, cycle_s=CADENCE_S),
        teams=fleet.teams,
        budgets=fleet.budgets,
    )
    found: dict[JobId, Fared] = {}
    memo: Memo | None = None
    for job in ordered:
        memo = _let_pass(world, found, job.submitted_at - world.now, memo)
        world.behaviours[job.spec.id] = Behaviour(work_s=job.work_s)
        world.main.write(replace(job.spec, suspend=False, after=()), now=world.now)
        found[job.spec.id] = Fared(submitted_at=world.now, work_s=job.work_s)
    while any(each.ended_at is None for each in found.values()):
        before = dict(found)
        memo = _let_pass(world, found, PATIENCE_S, memo)
        if found == before and world.events.next_at() is None:
            break  # whoever is left runs nowhere
    return {job: found[job] for job in sorted(found)}


def _let_pass(
    world: SimWorld, found: dict[JobId, Fared], span_s: int, memo: Memo | None
) -> Memo | None:
    if span_s <= 0:
        return memo
    for report in world.cycles(span_s, memo):
        memo = report.memo
        for status in report.update.changed:
            known = found.get(status.job)
            if known is None or known.ended_at is not None:
                continue
            live = status.live_attempt
            started = live.decided_at if live is not None else None
            found[status.job] = replace(
                known,
                started_at=started if known.started_at is None else known.started_at,
                ended_at=report.snapshot.now if status.phase.is_finished else None,
                preemptions=status.preemptions,
            )
    return memo


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One simulation in figures; waits in seconds."""

    wait_mean_s: float
    wait_p50_s: int
    wait_p95_s: int
    wait_max_s: int
    preemptions: int
    unfinished: int
    last_end: Instant | None


def side(results: Iterable[Fared]) -> Side:
    """Return the figures of one simulation."""
    every = list(results)
    waits = sorted(each.wait_s for each in every if each.wait_s is not None)
    ends = [each.ended_at for each in every if each.ended_at is not None]
    at = len(waits)
    return Side(
        wait_mean_s=sum(waits) / at if at else 0.0,
        wait_p50_s=waits[at // 2] if at else 0,
        wait_p95_s=waits[min(int(0.95 * at), at - 1)] if at else 0,
        wait_max_s=waits[-1] if at else 0,
        preemptions=sum(each.preemptions for each in every),
        unfinished=sum(each.ended_at is None for each in every),
        last_end=max(ends, default=None),
    )


def moved(
    before: Mapping[JobId, Fared], after: Mapping[JobId, Fared]
) -> tuple[tuple[JobId, int], ...]:
    """Return (job, how much longer it waits in seconds) for jobs that ended on both sides.

    Winners first: the most negative difference, then by name.
    """
    changes = []
    for job, was in before.items():
        now_s = after[job].wait_s
        if was.wait_s is not None and now_s is not None and now_s != was.wait_s:
            changes.append((job, now_s - was.wait_s))
    return tuple(sorted(changes, key=lambda each: (each[1], each[0])))
