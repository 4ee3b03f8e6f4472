"""Quotas and weekly budgets of teams, derived from what they ask for; the same for every policy."""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from reconciler.simulate.asks import Ask

QUOTA_OVER_DEMAND = 1.2
BUDGET_OVER_USE = 1.1
WEEK_S = 7 * 86400


def quotas(jobs: Sequence[Ask], gpus: int) -> dict[str, int]:
    """Return GPUs by team: 1.2 times its share of the GPU-seconds asked for, all of it at least.

    The cluster is shared out whole, so that what the quotas allow together is never less than what
    there is.
    """
    asked: dict[str, float] = {}
    for job in jobs:
        asked[job.team] = asked.get(job.team, 0.0) + job.gpus * job.duration_s
    whole = sum(asked.values())
    return {
        team: max(ceil(QUOTA_OVER_DEMAND * gpus * part / whole), 1)
        for team, part in sorted(asked.items())
    }


def within_budgets(jobs: Sequence[Ask]) -> tuple[tuple[Ask, ...], int]:
    """Return the jobs as their teams' weekly budgets admit them, and how many came later for it.

    A budget is 1.1 times the team's mean GPU-seconds a week.  A job that would overrun it comes at
    the start of the first week that has room; the first job of a week is always admitted.  The wait
    counts from there, for every policy alike.
    """
    first = min(job.submit_s for job in jobs)
    weeks = max((max(job.submit_s for job in jobs) - first) / WEEK_S, 1.0)
    asked: dict[str, float] = {}
    for job in jobs:
        asked[job.team] = asked.get(job.team, 0.0) + job.gpus * job.duration_s
    budget = {team: BUDGET_OVER_USE * part / weeks for team, part in asked.items()}
    used: dict[tuple[str, int], float] = {}
    admitted, deferred = [], 0
    for job in jobs:
        own = (job.submit_s - first) // WEEK_S
        week, cost = own, job.gpus * job.duration_s
        while used.get((job.team, week), 0.0) and used[job.team, week] + cost > budget[job.team]:
            week += 1
        used[job.team, week] = used.get((job.team, week), 0.0) + cost
        if week > own:
            deferred += 1
            job = replace(job, submit_s=first + week * WEEK_S, deadline_s=None)
        admitted.append(job)
    return tuple(sorted(admitted, key=lambda job: job.submit_s)), deferred
