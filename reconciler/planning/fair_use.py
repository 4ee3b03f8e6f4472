"""Who has had much of the fleet lately?  Decayed fair use, as a factor in the order.

A team's use is its GPU-seconds, each halved every half life since it was used: of attempts that
ended as the planner remembers it, of those that run worked out from when they began.  Its share
of everybody's use is held against the share that it is entitled to (its quota's):

    factor = 2 to the power of strength x (1 - share / entitled share), the bracket within [-1, 1]

A team that used nothing lately goes up to twice as high, one with twice its share half as high,
and where all use is one team's, all its jobs are moved alike.  The factor says who goes first.
The rates that are held against each other for a preemption are without it, so what is used up by
running cannot make two jobs stop each other in turn.
"""

from collections.abc import Iterable, Mapping
from math import fsum, log

from reconciler.domain.attempt import Attempt
from reconciler.domain.plan import Used
from reconciler.domain.policy import FairUse
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.team import Team
from reconciler.domain.units import Instant, JobId, TeamName
from reconciler.planning.priority import rank_instant
from reconciler.planning.quota import ALL_TYPES
from reconciler.planning.standing import Standing

Factors = Mapping[str, float]
"""Team to its factor; ``""`` for every team that is not named.  Empty: use is not counted."""


def used_after(snapshot: Snapshot, ended: Mapping[JobId, Standing]) -> Mapping[TeamName, Used]:
    """Return what to remember once the attempts that just ended are counted.

    The very mapping that is remembered where nothing changes, and always where use is not counted.
    """
    before, half_life_s = snapshot.planner_state.used, snapshot.policy.fair_use.half_life_s
    if not half_life_s or not ended:
        return before
    added: dict[TeamName, list[float]] = {}
    for job, standing in ended.items():
        if standing.attempt is not None:
            use = _use_of(standing.attempt, snapshot.now, half_life_s)
            added.setdefault(team_of(job), []).append(use)
    after = dict(before)
    for team, uses in added.items():
        kept = _decayed(before.get(team), snapshot.now, half_life_s)
        gpu_seconds = round(fsum((kept, *uses)))
        if gpu_seconds:
            after[team] = Used(gpu_seconds=gpu_seconds, at=snapshot.now)
    return before if after == before else dict(sorted(after.items()))


def factors(
    snapshot: Snapshot, used: Mapping[TeamName, Used], live: Mapping[JobId, Standing]
) -> Factors:
    """Return the factor of every team that is declared or used anything.

    Of hundredths, and of the instant that ranks are of, so that ranks seldom move; empty where
    use is not counted or nobody used anything.
    """
    rules = snapshot.policy.fair_use
    shares = use_shares(snapshot, used, live)
    if not shares:
        return {}
    entitled = entitled_shares(snapshot.teams, shares)
    found: dict[str, float] = {"": _factor(0.0, rules)}
    for team, share in shares.items():
        found[team] = _factor(share / entitled[team], rules)
    return found


def factor_of(team: str, found: Factors) -> float:
    """Return one team's factor; a team that used nothing and nobody declared goes before all."""
    return found.get(team, found.get("", 1.0))


def use_shares(
    snapshot: Snapshot, used: Mapping[TeamName, Used], live: Mapping[JobId, Standing]
) -> Mapping[TeamName, float]:
    """Return each team's share of the decayed use, sorted by team; empty where there is none."""
    half_life_s = snapshot.policy.fair_use.half_life_s
    if not half_life_s:
        return {}
    at = rank_instant(snapshot.now, snapshot.policy)
    uses: dict[TeamName, list[float]] = {team: [] for team in snapshot.teams}
    for team, each in used.items():
        uses.setdefault(team, []).append(_decayed(each, at, half_life_s))
    for job, standing in live.items():
        if standing.live is not None:
            uses.setdefault(team_of(job), []).append(_use_of(standing.live, at, half_life_s))
    sums = {team: fsum(uses[team]) for team in sorted(uses)}
    total = fsum(sums.values())
    return {team: use / total for team, use in sums.items()} if total >= 1.0 else {}


def entitled_shares(
    teams: Mapping[TeamName, Team], among: Iterable[TeamName]
) -> Mapping[TeamName, float]:
    """Return the share of each team by its quota; one without a quota counts as the mean."""
    quotas = {team: _quota(teams.get(team)) for team in among}
    known = [quota for quota in quotas.values() if quota]
    mean = sum(known) / len(known) if known else 1.0
    total = sum(quota or mean for quota in quotas.values())
    return {team: (quota or mean) / total for team, quota in quotas.items()}


def fair_use_words(
    snapshot: Snapshot, live: Mapping[JobId, Standing], team: str, found: Factors
) -> str:
    """Return what a team used lately against its share, and what that does to its jobs."""
    shares = use_shares(snapshot, snapshot.planner_state.used, live)
    entitled = entitled_shares(snapshot.teams, shares)
    used, share = shares.get(TeamName(team), 0.0), entitled.get(TeamName(team), 0.0)
    factor = factor_of(team, found)
    moved = "up" if factor > 1.0 else "down" if factor < 1.0 else "neither up nor down"
    days = snapshot.policy.fair_use.half_life_s / 86_400
    return (
        f"team {team} used {used:.0%} of the fleet lately (half life {days:g} d), its share is"
        f" {share:.0%}: its jobs go {moved}, score x {factor:.2f}"
    )


def team_of(job: JobId) -> TeamName:
    """Return the team that a job's name begins with."""
    return TeamName(job.split("/", 1)[0])


def _quota(team: Team | None) -> float:
    if team is None:
        return 0.0
    quota = team.quota_gpus
    return float(quota.get(ALL_TYPES, sum(quota.values())))


def _factor(ratio: float, rules: FairUse) -> float:
    bracket = min(max(1.0 - ratio, -1.0), 1.0)
    return float(round(2.0 ** (rules.strength * bracket), 2))


def _decayed(used: Used | None, now: Instant, half_life_s: int) -> float:
    if used is None:
        return 0.0
    return float(used.gpu_seconds * 2.0 ** (-max(now - used.at, 0) / half_life_s))


def _use_of(attempt: Attempt, now: Instant, half_life_s: int) -> float:
    """Return the integral of gpus x 2^(-age / half life) over the time the attempt ran."""
    since = attempt.started_at
    if since is None or since >= now:
        return 0.0
    until = now if attempt.ended_at is None else min(attempt.ended_at, now)
    left_since = 2.0 ** (-(now - since) / half_life_s)
    left_until = 2.0 ** (-(now - until) / half_life_s)
    return float(attempt.gpus * half_life_s / log(2.0) * max(left_until - left_since, 0.0))
