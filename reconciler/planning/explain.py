"""Answers "why?": what a job waits for, when that comes, who is ahead, how its score adds up.

Words for people, made from the snapshot and the plan alone; nothing here decides anything.
"""

from reconciler.domain.plan import Decision, Verb
from reconciler.domain.reason import Reason
from reconciler.domain.units import JobId


def headline(decision: Decision) -> str:
    """Return a decision in a few words: ``wait, gpus_busy`` or ``preempt, for hotfix-eval``.

    Other jobs are named shortly where they are of the same team.
    """
    if decision.verb is Verb.PREEMPT and decision.for_job is not None:
        return f"preempt, for {_short(decision.for_job, decision.job)}"
    if decision.reason is Reason.PREEMPTING:
        names = ", ".join(_short(victim, decision.job) for victim in decision.victims)
        return f"wait, preempting {names}"
    if decision.verb is Verb.KEEP and decision.reason is Reason.RUNS:
        return "keep"
    return f"{decision.verb.value}, {decision.reason.value}"


def _short(job: JobId, beside: JobId) -> str:
    team, name = job.split("/")
    return name if team == beside.split("/")[0] else job
