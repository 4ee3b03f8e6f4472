"""What a simulation says: one document for machines, one table for people."""

from collections.abc import Mapping
from typing import Any

from reconciler.simulate.fairness import worst_against_alone
from reconciler.simulate.load import offered_load, span_s
from reconciler.simulate.metrics import figures
from reconciler.simulate.simulation import Simulation

VERSION = "headway/v1"
TAIL_ALERT_S = 6 * 3600
"""A 99th percentile of waiting from here on, with a median far below, is told."""
TAIL_FACTOR = 12


def document(simulation: Simulation) -> dict[str, Any]:
    """Return the whole result as plain values; ``policies`` in the order they were asked for."""
    setup, load, found = simulation.setup, simulation.load, simulation.bound
    gpus = setup.nodes * setup.gpus_per_node
    return {
        "api_version": VERSION,
        "kind": "Simulation",
        "load": {
            "name": simulation.name,
            "jobs": len(load),
            "left_out": simulation.left_out,
            "deferred": simulation.deferred,
            "first_submit_s": load[0].submit_s,
            "span_s": span_s(load),
            "rho": offered_load(load, gpus),
        },
        "setup": {
            "nodes": setup.nodes,
            "gpus_per_node": setup.gpus_per_node,
            "tor_size": setup.tor_size,
            "tick_s": setup.tick_s,
            "overlay": setup.overlay.value,
            "estimates": setup.estimates.value,
            "seed": setup.seed,
            "restart": {
                "save_s": setup.costs.save_s,
                "save_node_s": setup.costs.save_node_s,
                "restore_s": setup.costs.restore_s,
                "restore_node_s": setup.costs.restore_node_s,
            },
            "elastic": setup.elastic,
        },
        "bound": None
        if found is None
        else {
            "duration_s": found.duration_s,
            "srpt_s": found.srpt_s,
            "busy_time_s": found.busy_time_s,
            "lagrangian_s": found.lagrangian_s,
        },
        "policies": [
            {
                **figures(
                    each,
                    bound_jct_s=None if found is None else found.best_s,
                    quotas=simulation.quotas,
                ),
                "fairness_worst": worst_against_alone(each.outcomes, simulation.alone or {}),
            }
            for each in simulation.played
        ],
    }


HEADS = (
    *("POLICY", "MEAN", "P50", "P95", "P99", "MAX", "FIRST START", "JCT", "/BOUND"),
    *("SLOWDOWN", "USED", "IDLE", "PREEMPTED", "LOST GPU-H", "P0 P95", "DEADLINES", "CPU"),
)


def rows(said: Mapping[str, Any]) -> list[list[str]]:
    """Return one row of text a policy, under ``HEADS``; ``-`` where a figure does not exist."""
    return [
        [
            str(each["policy"]),
            *(_span(each[f"wait_{name}_s"]) for name in ("mean", "p50", "p95", "p99", "max")),
            _span(each["first_start_wait_mean_s"]),
            _span(each["jct_mean_s"]),
            _number(each["jct_over_bound"], 2),
            _number(each["bounded_slowdown_mean"], 1),
            _percent(each["utilisation_in_window"]),
            _percent(each["idle_while_queued"]),
            f"{each['preemptions'] + each['migrations']}",
            _number(each["gpu_hours_lost"], 0),
            "-" if each["p0_start_p95_s"] is None else _span(each["p0_start_p95_s"]),
            _percent(each["deadline_hit_rate"]),
            f"{each['cpu_s']:.1f}s",
        ]
        for each in said["policies"]
    ]


def remarks(said: Mapping[str, Any]) -> list[str]:
    """Return what a reader should not overlook: fat tails, refusals, jobs left out."""
    found = []
    load = said["load"]
    if load["left_out"]:
        found.append(f"{load['left_out']} jobs are wider than the cluster and were left out")
    if load["deferred"]:
        found.append(f"{load['deferred']} jobs were over their team's budget and came a week later")
    for each in said["policies"]:
        p50, p99 = each["wait_p50_s"], each["wait_p99_s"]
        if p99 >= TAIL_ALERT_S and p99 > TAIL_FACTOR * max(p50, 60):
            found.append(
                f"{each['policy']}: half wait {_span(p50)} or less, but one in a hundred more "
                f"than {_span(p99)}: the alert is at {_span(TAIL_ALERT_S)}"
            )
        asked, taken = each["reservations_asked"], each["reservations_accepted"]
        if asked:
            found.append(
                f"{each['policy']}: {taken} of {asked} reservations accepted, "
                f"{_percent(each['reservations_on_time'])} of those due started within a minute"
            )
        found += [f"{each['policy']}: {note}" for note in each["notes"]]
    return found


def _span(seconds: float) -> str:
    """Return ``17s``, ``4.2m``, ``3.5h`` or ``2.1d``."""
    if seconds < 60:
        return f"{seconds:.0f}s"
    if seconds < 3600:
        return f"{seconds / 60:.1f}m"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.2f}h"
    return f"{seconds / 86400:.1f}d"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}%"


def heading(said: Mapping[str, Any]) -> str:
    """Return what was played on what, in one line."""
    load, setup = said["load"], said["setup"]
    return (
        f"{load['name']}: {load['jobs']} jobs on {setup['nodes']} nodes x "
        f"{setup['gpus_per_node']} GPUs, load {load['rho']:.2f}, overlay {setup['overlay']}, "
        f"estimates {setup['estimates']}, seed {setup['seed']}"
    )
