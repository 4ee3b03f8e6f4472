"""Figures of one run, in the words of ``docs/simulator.md``.

Wait is end - submission - the trace's duration at the requested size, at least 0 for each job, so
that stopping and restarting cannot hide it.  A job that was refused or given up waits until the
whole run is over and meets no deadline.  Percentiles are nearest-rank.
"""

from collections.abc import Callable, Mapping, Sequence
from math import ceil

from reconciler.simulate.outcome import JobOutcome, Played

BOUNDED_BY_S = 600
"""Shortest duration a slowdown is measured against (Feitelson's bounded slowdown)."""
P0_START_BOUND_S = 300
ON_TIME_S = 60


def wait_s(outcome: JobOutcome) -> float:
    """Return how long a job waited in all: what its time in the system exceeds its duration by."""
    ask = outcome.ask
    return max(outcome.ended_s - ask.submit_s - ask.duration_s, 0.0)


def first_wait_s(outcome: JobOutcome) -> float:
    """Return how long a job waited for its first start."""
    return max(outcome.first_start_s - outcome.ask.submit_s, 0.0)


def jct_s(outcome: JobOutcome) -> float:
    """Return submission to end."""
    return outcome.ended_s - outcome.ask.submit_s


def bounded_slowdown(outcome: JobOutcome) -> float:
    """Return time in the system over duration, durations under 10 min counted as 10 min."""
    return max(jct_s(outcome) / max(outcome.ask.duration_s, BOUNDED_BY_S), 1.0)


def mean(values: Sequence[float]) -> float:
    """Return the mean; 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least ``share`` of ``values`` do not exceed; 0 of none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[max(ceil(share * len(ordered)), 1) - 1]


def figures(
    played: Played, *, bound_jct_s: float | None = None, quotas: Mapping[str, int] | None = None
) -> dict[str, object]:
    """Return every figure of a run, by name; times in seconds, shares in [0, 1].

    ``quotas`` (GPUs by team) decides which deadlines are feasible: a gang above its team's quota
    has none.
    """
    outcomes = played.outcomes
    over_s = max((outcome.ended_s for outcome in outcomes), default=0.0)
    waits = [wait_s(each) if each.done else over_s - each.ask.submit_s for each in outcomes]
    jobs = max(len(outcomes), 1)
    jct = mean([jct_s(each) if each.done else over_s - each.ask.submit_s for each in outcomes])
    return {
        "policy": played.policy,
        "jobs": len(outcomes),
        "jobs_done": sum(outcome.done for outcome in outcomes),
        "wait_mean_s": mean(waits),
        "wait_p50_s": percentile(waits, 0.50),
        "wait_p95_s": percentile(waits, 0.95),
        "wait_p99_s": percentile(waits, 0.99),
        "wait_max_s": max(waits, default=0.0),
        "first_start_wait_mean_s": mean([first_wait_s(outcome) for outcome in outcomes]),
        "jct_mean_s": jct,
        "bound_jct_mean_s": bound_jct_s,
        "jct_over_bound": jct / bound_jct_s if bound_jct_s else None,
        "bounded_slowdown_mean": mean([bounded_slowdown(outcome) for outcome in outcomes]),
        "utilisation_in_window": utilisation(played),
        "makespan_s": _makespan_s(played),
        "idle_while_queued": _share(
            played.integrals.idle_gpu_s, played.integrals.queued_s * played.gpus
        ),
        "stuck_by_node": _share(played.integrals.stuck_s, played.integrals.queued_s),
        "preemptions": sum(outcome.preemptions for outcome in outcomes),
        "preemptions_per_job": sum(outcome.preemptions for outcome in outcomes) / jobs,
        "migrations": sum(outcome.migrations for outcome in outcomes),
        "lost_runs": sum(outcome.lost for outcome in outcomes),
        "gpu_hours_lost": sum(outcome.overhead_gpu_s for outcome in outcomes) / 3600,
        "wide_gang_wait_mean_s": _mean_wait(outcomes, lambda o: o.ask.gpus * 10 >= played.gpus),
        **_classes(outcomes),
        **_deadlines(outcomes, quotas or {}),
        **_reservations(played),
        "quota_violations": played.quota_violations,
        "node_failures": played.node_failures,
        "decisions": played.decisions,
        "cpu_s": played.cpu_s,
        "cycle_mean_ms": 1000 * mean(played.cycle_s) if played.cycle_s else None,
        "cycle_p99_ms": 1000 * percentile(played.cycle_s, 0.99) if played.cycle_s else None,
        "cycle_max_ms": 1000 * max(played.cycle_s) if played.cycle_s else None,
        "notes": list(played.notes),
    }


def utilisation(played: Played) -> float:
    """Return the share of GPU-seconds held before the last submission."""
    if not played.outcomes:
        return 0.0
    first = min(outcome.ask.submit_s for outcome in played.outcomes)
    last = max(outcome.ask.submit_s for outcome in played.outcomes)
    held = sum(stay.gpus * max(min(stay.ended_s, last) - stay.began_s, 0) for stay in played.stays)
    return _share(held, (last - first) * played.gpus)


def _makespan_s(played: Played) -> float:
    if not played.outcomes:
        return 0.0
    first = min(outcome.ask.submit_s for outcome in played.outcomes)
    return max(outcome.ended_s for outcome in played.outcomes) - first


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _mean_wait(outcomes: Sequence[JobOutcome], which: Callable[[JobOutcome], bool]) -> float:
    return mean([wait_s(outcome) for outcome in outcomes if which(outcome)])


def _classes(outcomes: Sequence[JobOutcome]) -> dict[str, object]:
    urgent = [first_wait_s(outcome) for outcome in outcomes if outcome.ask.priority == 0]
    return {
        "p0_jobs": len(urgent),
        "p0_start_p95_s": percentile(urgent, 0.95) if urgent else None,
        "p0_within_5_min": (
            sum(wait <= P0_START_BOUND_S for wait in urgent) / len(urgent) if urgent else None
        ),
        "wait_mean_s_by_class": {
            f"P{priority}": _mean_wait(outcomes, lambda o, p=priority: o.ask.priority == p)  # type: ignore[misc]
            for priority in sorted({outcome.ask.priority for outcome in outcomes})
        },
    }


def _deadlines(outcomes: Sequence[JobOutcome], quotas: Mapping[str, int]) -> dict[str, object]:
    due = [outcome for outcome in outcomes if outcome.ask.deadline_s is not None]
    feasible = [
        outcome
        for outcome in due
        if outcome.ask.gpus <= quotas.get(outcome.ask.team, outcome.ask.gpus)
        and outcome.ask.submit_s + outcome.ask.duration_s <= (outcome.ask.deadline_s or 0)
    ]
    met = [o for o in feasible if o.done and o.ended_s <= (o.ask.deadline_s or 0)]
    return {
        "deadlines": len(due),
        "deadlines_feasible": len(feasible),
        "deadline_hit_rate": len(met) / len(feasible) if feasible else None,
    }


def _reservations(played: Played) -> dict[str, object]:
    held = played.reservations
    kept = [r for r in held if r.accepted and r.ready_s is not None]
    late = [max((r.ready_s or 0) - r.start_s, 0.0) for r in kept]
    missed = sum(not r.accepted and r.was_possible for r in held)
    due = sum(r.accepted for r in held) + missed
    return {
        "reservations_asked": len(held),
        "reservations_accepted": sum(r.accepted for r in held),
        "reservations_missed_by_refusal": missed,
        "reservations_on_time": sum(value <= ON_TIME_S for value in late) / due if due else None,
        "reservation_start_error_max_s": max(late, default=None) if held else None,
    }
