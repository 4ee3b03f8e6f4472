"""Ranks jobs: the order in which one planning cycle considers them.

Pure and total.  Equal inputs give an equal order and no two jobs ever tie, so a preview
on a pull request and the live reconciler agree on who goes first.

A score is a weighted sum of five shares, each in [0, 1].  The weights are policy, and a
team may bring its own; they always sum to 1, so scores stay comparable between teams.  Where the
policy counts fair use, the sum is multiplied by what it makes of the team (``fair_use``).
Whatever the scores, a P0 with less than two hours of slack goes first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from reconciler.domain.job import PendingJob, PriorityClass
from reconciler.domain.policy import Policy, ScoreWeights
from reconciler.domain.team import Team
from reconciler.domain.units import Instant, JobId, Seconds, TeamName

DEADLINE_HORIZON_S = Seconds(24 * 3600)
"""Slack of a day or more is not urgent at all."""
DEADLINE_DOUBLES_UNDER_S = Seconds(2 * 3600)
PRESSES_FROM = 0.5
"""The share of its slack after which a deadline presses: late enough that most jobs have started
by themselves, early enough that victims have left and an estimate may be somewhat short."""
BREVITY_HORIZON_S = Seconds(24 * 3600)
"""A job of a day or more gets nothing for brevity."""

RankKey: TypeAlias = tuple[int, float, Instant, JobId]
"""Smaller goes first: urgency, the score negated, the submission, the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreParts:
    """What each factor adds to a score: its share times its weight."""

    priority_class: float
    deadline: float
    serves_online: float
    model_heat: float
    brevity: float
    favour: float = 1.0
    """What fair use makes of the sum: more than 1 where the team used less than its share."""

    @property
    def total(self) -> float:
        """The score: the sum, in [0, 1], times the favour."""
        return self.favour * (
            self.priority_class
            + self.deadline
            + self.serves_online
            + self.model_heat
            + self.brevity
        )


def rank_key(
    job: PendingJob,
    *,
    now: Instant,
    policy: Policy,
    teams: Mapping[TeamName, Team],
    favour: float = 1.0,
) -> RankKey:
    """Return the sort key of ``job``; ``now`` is taken as :func:`rank_instant` gives it."""
    at = rank_instant(now, policy)
    weights = weights_of(job, policy, teams)
    parts = score(job, now=at, weights=weights, heat=policy.model_heat, favour=favour)
    return (0 if is_urgent(job, now=at) else 1, -parts.total, job.submitted_at, job.spec.id)


def rank_instant(now: Instant, policy: Policy) -> Instant:
    """Return ``now`` rounded down to ``policy.rerank_every_s``, so that ranks seldom move."""
    return Instant(now - now % max(policy.rerank_every_s, 1))


def weights_of(job: PendingJob, policy: Policy, teams: Mapping[TeamName, Team]) -> ScoreWeights:
    """Return the team's own weights, or the policy's."""
    team = teams.get(job.spec.team)
    return policy.weights if team is None or team.weights is None else team.weights


def score(
    job: PendingJob,
    *,
    now: Instant,
    weights: ScoreWeights,
    heat: Mapping[str, float],
    favour: float = 1.0,
) -> ScoreParts:
    """Return what each of the five factors adds to the job's score at ``now``.

    ``favour`` is what decayed fair use makes of the job's team.
    """
    return ScoreParts(
        priority_class=weights.priority_class * class_share(job.spec.priority),
        deadline=weights.deadline * deadline_share(job, now=now),
        serves_online=weights.serves_online * job.spec.serves_online,
        model_heat=weights.model_heat * heat_share(job, heat),
        brevity=weights.brevity * brevity_share(job.remaining_s),
        favour=favour,
    )


def class_share(priority: PriorityClass) -> float:
    """Return 1.0 for P0 down to 0.0 for P4, in even steps."""
    return 1.0 - priority / PriorityClass.P4


def deadline_share(job: PendingJob, *, now: Instant) -> float:
    """Return how urgent the deadline is; the share doubles in the last two hours of slack."""
    slack_s = slack(job, now=now)
    if slack_s is None:
        return 0.0
    within = min(max(slack_s, 0), DEADLINE_HORIZON_S)
    share = 0.5 * (1.0 - within / DEADLINE_HORIZON_S)
    return 2.0 * share if slack_s < DEADLINE_DOUBLES_UNDER_S else share


def heat_share(job: PendingJob, heat: Mapping[str, float]) -> float:
    """Return the policy's heat of the job's model, in [0, 1]; 0 for a model it does not name."""
    return min(max(heat.get(job.spec.facts.model, 0.0), 0.0), 1.0)


def brevity_share(remaining_s: Seconds) -> float:
    """Return 1.0 for a job that is nearly done, 0.0 for a day of work or more."""
    return 1.0 - min(max(remaining_s, 0), BREVITY_HORIZON_S) / BREVITY_HORIZON_S


def slack(job: PendingJob, *, now: Instant) -> Seconds | None:
    """Return deadline - now - expected remaining time; negative when it is too late."""
    latest_start = job.latest_start()
    return None if latest_start is None else Seconds(latest_start - now)


def presses(job: PendingJob, *, delay_s: int, now: Instant) -> bool:
    """True for a job that is still expected to meet its deadline, but not for long any more.

    ``delay_s`` is how long it has waited in all: the slack it had is what is left and that.
    """
    slack_s = slack(job, now=now)
    if slack_s is None or slack_s < 0:
        return False
    return delay_s >= PRESSES_FROM * (slack_s + delay_s)


def is_urgent(job: PendingJob, *, now: Instant) -> bool:
    """True for a P0 with less than two hours of slack: it goes first whatever the scores."""
    slack_s = slack(job, now=now)
    return (
        job.spec.priority is PriorityClass.P0
        and slack_s is not None
        and slack_s < DEADLINE_DOUBLES_UNDER_S
    )
