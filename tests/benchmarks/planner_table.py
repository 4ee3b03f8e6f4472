"""Makes the tables of the planner's benchmark: per trace, per policy, against bound and targets."""

from collections.abc import Iterable, Mapping, Sequence
from math import exp, log
from typing import Any

HEADWAY, EASY = "headway", "easy"
Row = Mapping[str, Any]

LONG_TRACE_JOBS = 80_000
CPU_TARGET_S, CPU_LIMIT_S = 60, 300
"""Seconds of CPU for planning a long trace whole."""

TARGETS = (
    # figure, over all traces, worst trace; True: more is better
    ("EASY's mean wait / headway's", "mean", 5.0, 2.2, True),
    ("P99 wait against EASY's", "p99", 0.40, 1.0, False),
    ("longest wait against EASY's", "max", 0.85, 1.05, False),
    ("mean JCT over the bound", "bound", 1.35, None, False),
)

PROMISES = (
    # figure, its key, how a value is told, what every trace must reach; True: more is better
    ("P0 first start, P95", "p0_start_p95_s", "{:.0f} s", 300.0, False),
    ("feasible deadlines met", "deadline_hit_rate", "{:.1%}", 0.95, True),
    ("reservations within 60 s", "reservations_on_time", "{:.1%}", 1.0, True),
)


def tables(rows: Mapping[str, Sequence[Row]]) -> str:
    """Return the markdown of all tables; ``rows`` are the cells by table."""
    parts = ["# Planner policy over public traces\n"]
    for table, cells in rows.items():
        if cells:
            parts.append(f"\n## {'Bare traces' if table == 'bare' else 'Full overlay'}\n")
            parts.append(_verdicts(cells))
            parts += [_speed(row) for row in cells if _is_long(row)]
            parts.append(_waits(cells))
            if table == "overlay":
                parts += [_kept(cells), _promises(cells)]
    return "\n".join(parts) + "\n"


def _of(cells: Sequence[Row], trace: str, policy: str) -> list[Row]:
    return [row for row in cells if (row["trace"], row["policy"]) == (trace, policy)]


def paired(cells: Sequence[Row], trace: str, policy: str, key: str) -> tuple[float, float] | None:
    """Return EASY's and the policy's mean of ``key`` over the seeds both were played with."""
    easy = {row["seed"]: row[key] for row in _of(cells, trace, EASY)}
    own = {row["seed"]: row[key] for row in _of(cells, trace, policy)}
    if len(own) == 1 and policy != HEADWAY:  # nothing in it depends on the seed
        own = dict.fromkeys(easy, next(iter(own.values())))
    seeds = sorted(easy.keys() & own.keys())
    if not seeds:
        return None
    return (
        sum(easy[seed] for seed in seeds) / len(seeds),
        sum(own[seed] for seed in seeds) / len(seeds),
    )


def ratio(cells: Sequence[Row], trace: str, policy: str, figure: str) -> float | None:
    """Return one figure of a policy on one trace: against EASY, or against the bound."""
    if figure == "bound":
        own = _of(cells, trace, policy)
        if not own or not own[0]["bound_jct_mean_s"]:
            return None
        return float(sum(r["jct_mean_s"] / r["bound_jct_mean_s"] for r in own)) / len(own)
    found = paired(cells, trace, policy, f"wait_{figure}_s")
    if found is None or not found[0] or not found[1]:
        return None
    return found[0] / found[1] if figure == "mean" else found[1] / found[0]


def geomean(values: Iterable[float]) -> float:
    """Return the geometric mean; 0 of nothing."""
    logs = [log(value) for value in values if value > 0]
    return exp(sum(logs) / len(logs)) if logs else 0.0


def _traces(cells: Sequence[Row]) -> list[str]:
    return sorted({row["trace"] for row in cells})


def _verdicts(cells: Sequence[Row]) -> str:
    lines = [
        "| figure | geometric mean | target | worst trace | target | reached |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, figure, target, worst_target, more in TARGETS:
        known = {t: ratio(cells, t, HEADWAY, figure) for t in _traces(cells)}
        values = {trace: value for trace, value in known.items() if value is not None}
        if not values:
            continue
        mean = geomean(values.values())
        worst = (min if more else max)(values, key=lambda trace: values[trace])
        ok = mean >= target if more else mean <= target
        if worst_target is not None:
            ok = ok and (values[worst] >= worst_target if more else values[worst] <= worst_target)
        lines.append(
            f"| {name} | {mean:.2f} | {target:.2f} | {values[worst]:.2f} ({worst}) | "
            f"{'-' if worst_target is None else f'{worst_target:.2f}'} | {'yes' if ok else 'no'} |"
        )
    return "\n".join(lines) + "\n"


def _is_long(row: Row) -> bool:
    return bool(row["policy"] == HEADWAY and row["jobs"] >= LONG_TRACE_JOBS)


def _speed(row: Row) -> str:
    """Return what planning a long trace cost, against target and limit."""
    cpu_s = row["cpu_s"]
    said = "reached" if cpu_s <= CPU_TARGET_S else "not reached, within the limit"
    if cpu_s > CPU_LIMIT_S:
        said = "over the limit"
    return (
        f"Planner CPU of {row['trace']}, seed {row['seed']} ({row['jobs']} jobs, "
        f"{row['decisions']} cycles): {cpu_s:.0f} s; target {CPU_TARGET_S} s, limit "
        f"{CPU_LIMIT_S} s: {said}.\n"
    )


def _waits(cells: Sequence[Row]) -> str:
    lines = [
        "| trace | policy | seeds | mean wait h | P50 | P95 | P99 | max d | JCT / bound | "
        "EASY's mean / own | P99 / EASY's | max / EASY's | preempted a job | idle while queued | "
        "cycle ms mean / P99 | CPU s | jobs served of asked |",
        "|" + " --- |" * 17,
    ]
    order = [EASY, "easy-e2", "fifo", "fifo-skip", "conservative", "multifactor", "kueue"]
    order += ["las", "srtf", HEADWAY]
    for trace in _traces(cells):
        for policy in order:
            own = _of(cells, trace, policy)
            if own:
                lines.append(_wait_row(cells, trace, policy, own))
    return "\n".join(lines) + "\n"


def _wait_row(cells: Sequence[Row], trace: str, policy: str, own: Sequence[Row]) -> str:
    def mean(key: str) -> float:
        return sum(row[key] or 0.0 for row in own) / len(own)

    def against(figure: str) -> str:
        value = ratio(cells, trace, policy, figure)
        return "-" if value is None else f"{value:.2f}"

    cycles = "-"
    if own[0]["cycle_mean_ms"] is not None:
        cycles = f"{mean('cycle_mean_ms'):.1f} / {mean('cycle_p99_ms'):.1f}"
    return (
        f"| {trace} | {policy} | {len(own)} | {mean('wait_mean_s') / 3600:.3f} | "
        f"{mean('wait_p50_s') / 3600:.3f} | {mean('wait_p95_s') / 3600:.2f} | "
        f"{mean('wait_p99_s') / 3600:.1f} | {mean('wait_max_s') / 86400:.2f} | "
        f"{against('bound')} | {against('mean')} | {against('p99')} | {against('max')} | "
        f"{mean('preemptions_per_job'):.3f} | {100 * mean('idle_while_queued'):.1f} % | "
        f"{cycles} | {mean('cpu_s'):.0f} | {_served(own)} |"
    )


def _served(own: Sequence[Row]) -> str:
    """Return how many jobs were served of those asked for, over all seeds; jobs wider than the
    cluster are asked for too."""
    asked = sum(row["jobs"] + row["load"]["left_out"] for row in own)
    return f"{sum(row.get('jobs_done', row['jobs']) for row in own)} of {asked}"


def _kept(cells: Sequence[Row]) -> str:
    """Return whether headway keeps what is promised of urgent work, on the worst trace too."""
    lines = [
        "| promise | worst trace, mean of its seeds | worst run | target | kept |",
        "|" + " --- |" * 5,
    ]
    for name, key, form, target, more in PROMISES:
        runs = [row for row in cells if row["policy"] == HEADWAY and row[key] is not None]
        if not runs:
            continue
        by_trace = {
            trace: sum(own) / len(own)
            for trace in _traces(runs)
            if (own := [row[key] for row in runs if row["trace"] == trace])
        }
        worst = (min if more else max)(by_trace, key=lambda trace: by_trace[trace])
        run = (min if more else max)(runs, key=lambda row: row[key])
        ok = by_trace[worst] >= target if more else by_trace[worst] <= target
        lines.append(
            f"| {name} | {form.format(by_trace[worst])} ({worst}) | {form.format(run[key])} "
            f"({run['trace']}, seed {run['seed']}) | {form.format(target)} | "
            f"{'yes' if ok else 'no'} |"
        )
    return "\n".join(lines) + "\n"


def _promises(cells: Sequence[Row]) -> str:
    lines = [
        "| trace | policy | P0 first start P95 s | P0 within 5 min | deadlines met | "
        "reservations accepted | started within 60 s | quota violations | P2 wait h | P3 wait h |",
        "|" + " --- |" * 10,
    ]
    for trace in _traces(cells):
        for policy in dict.fromkeys(row["policy"] for row in cells):
            own = _of(cells, trace, policy)
            if own:
                lines.append(_promise_row(trace, policy, own))
    return "\n".join(lines) + "\n"


def _promise_row(trace: str, policy: str, own: Sequence[Row]) -> str:
    def mean(key: str) -> float | None:
        values = [row[key] for row in own if row[key] is not None]
        return sum(values) / len(values) if values else None

    def percent(key: str) -> str:
        value = mean(key)
        return "-" if value is None else f"{100 * value:.1f} %"

    def waited(level: str) -> str:
        values = [row["wait_mean_s_by_class"].get(level, 0.0) for row in own]
        return f"{sum(values) / len(values) / 3600:.2f}"

    accepted = sum(row["reservations_accepted"] for row in own)
    asked = sum(row["reservations_asked"] for row in own)
    booked = f"{accepted} of {asked}" if asked else "-"
    return (
        f"| {trace} | {policy} | {mean('p0_start_p95_s') or 0:.0f} | "
        f"{percent('p0_within_5_min')} | {percent('deadline_hit_rate')} | {booked} | "
        f"{percent('reservations_on_time')} | {sum(row['quota_violations'] for row in own)} | "
        f"{waited('P2')} | {waited('P3')} |"
    )
