"""What a trace does not tell about its jobs: class, team, deadline, limit, prediction.

All of it by hash (``chance``), so every policy and every run of one seed sees the same.  A bare
load gives every job class P2, preemptible, without deadline; the overlay gives what a shared fleet
has.  Estimates are a separate choice:

========  =====================================================================================
``E0``    the truth, as limit and prediction: for diagnosis only
``E1``    limit d (1 + 4u), rounded up to 1 h, 4 h, 12 h, 1 d, 3 d, 7 d, 14 d
``E2``    E1 and a prediction d exp(z), wrong both ways
``E3``    nothing
``F4``    limit d (1 + 4u), not rounded (Mu'alem and Feitelson's f-model, f = 4)
========  =====================================================================================

No job is killed at a limit: the trace's duration is the truth.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import ceil, exp

from reconciler.simulate.chance import normal, uniform, zipf
from reconciler.simulate.load import Load, TraceJob

HOUR_S = 3600
DAY_S = 24 * HOUR_S
LADDER_S = (
    *(HOUR_S, 4 * HOUR_S, 12 * HOUR_S),
    *(DAY_S, 3 * DAY_S, 7 * DAY_S, 14 * DAY_S),
)
"""Limits people write.  A longer job gets the next multiple of 14 days."""
TEAMS = 12
USERS = 8
KEY_SHARE, HIGH_SHARE, LOW_SHARE = 0.05, 0.15, 0.20
PREEMPTIBLE_P2 = 0.80
DEADLINE_SHARE = 0.20
ONLINE_SHARE = 0.03
ELASTIC_SHARE = 0.30
ELASTIC_FROM_GPUS = 8


class Estimates(StrEnum):
    E0 = "E0"
    E1 = "E1"
    E2 = "E2"
    E3 = "E3"
    F4 = "F4"


class Overlay(StrEnum):
    FULL = "full"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One job as a planner may see it, and its true duration, which only the world may use."""

    id: str
    submit_s: int
    duration_s: int
    gpus: int
    team: str
    user: str
    priority: int = 2
    preemptible: bool = True
    deadline_s: int | None = None
    serves_online: bool = False
    limit_s: int | None = None
    prediction_s: int | None = None
    min_gpus: int = 0
    """Elastic range, both 0 for a rigid job."""
    max_gpus: int = 0


def asks(
    load: Load,
    *,
    overlay: Overlay = Overlay.NONE,
    estimates: Estimates = Estimates.E2,
    seed: int = 1,
    elastic: bool = False,
) -> tuple[Ask, ...]:
    """Return what each job asks for, in the order of the load."""
    return tuple(
        _ask(job, overlay=overlay, estimates=estimates, seed=seed, elastic=elastic) for job in load
    )


def _ask(job: TraceJob, *, overlay: Overlay, estimates: Estimates, seed: int, elastic: bool) -> Ask:
    limit, prediction = estimated(job, estimates, seed)
    team = job.team or f"t{zipf(uniform(seed, 'team', job.id), TEAMS):02d}"
    user = job.user or f"u{zipf(uniform(seed, 'user', job.id), USERS)}"
    low, high = _range(job, seed) if elastic else (0, 0)
    if overlay is Overlay.NONE:
        return Ask(
            id=job.id,
            submit_s=job.submit_s,
            duration_s=job.duration_s,
            gpus=job.gpus,
            team=team,
            user=user,
            limit_s=limit,
            prediction_s=prediction,
            min_gpus=low,
            max_gpus=high,
        )
    priority = class_of(uniform(seed, "class", job.id))
    return Ask(
        id=job.id,
        submit_s=job.submit_s,
        duration_s=job.duration_s,
        gpus=job.gpus,
        team=team,
        user=user,
        priority=priority,
        preemptible=priority > 2
        or (priority == 2 and uniform(seed, "preempt", job.id) < PREEMPTIBLE_P2),
        deadline_s=deadline(job, seed),
        serves_online=uniform(seed, "online", job.id) < ONLINE_SHARE,
        limit_s=limit,
        prediction_s=prediction,
        min_gpus=low,
        max_gpus=high,
    )


def class_of(u: float) -> int:
    """Return the class of ``u`` in [0, 1): P0 5 %, P1 15 %, P2 60 %, P3 20 %."""
    if u < KEY_SHARE:
        return 0
    if u < KEY_SHARE + HIGH_SHARE:
        return 1
    return 2 if u < 1 - LOW_SHARE else 3


def deadline(job: TraceJob, seed: int) -> int | None:
    """Return the instant a fifth of the jobs must be done by: submit + max(600, d)(1.2 + 4.8u)."""
    u = uniform(seed, "deadline", job.id)
    if u >= DEADLINE_SHARE:
        return None
    return job.submit_s + ceil(max(600, job.duration_s) * (1.2 + 4.8 * u / DEADLINE_SHARE))


def estimated(job: TraceJob, estimates: Estimates, seed: int) -> tuple[int | None, int | None]:
    """Return limit and prediction in seconds; None for what the model does not give.

    A limit the trace tells (never below the duration) takes the place of the made-up one.
    """
    if estimates is Estimates.E0:
        return job.duration_s, job.duration_s
    if estimates is Estimates.E3:
        return None, None
    told = None if job.limit_s is None else max(job.limit_s, job.duration_s)
    limit = loose_limit(job, seed) if told is None else told
    if estimates is Estimates.F4:
        return limit, None
    limit = rounded(limit) if told is None else told
    if estimates is Estimates.E1:
        return limit, None
    return limit, max(round(job.duration_s * exp(normal(seed, "noise", job.id))), 1)


def loose_limit(job: TraceJob, seed: int) -> int:
    """Return d (1 + 4u), whole seconds, rounded up."""
    return ceil(job.duration_s * (1 + 4 * uniform(seed, "limit", job.id)))


def rounded(limit_s: int) -> int:
    """Return the next rung of the ladder."""
    for rung in LADDER_S:
        if limit_s <= rung:
            return rung
    return ceil(limit_s / LADDER_S[-1]) * LADDER_S[-1]


def next_limit(limit_s: int) -> int:
    """Return the rung above ``limit_s``; beyond the ladder, twice as much."""
    return next((rung for rung in LADDER_S if rung > limit_s), 2 * limit_s)


def _range(job: TraceJob, seed: int) -> tuple[int, int]:
    if job.gpus < ELASTIC_FROM_GPUS or uniform(seed, "elastic", job.id) >= ELASTIC_SHARE:
        return 0, 0
    return job.gpus // 2, 2 * job.gpus
