"""Kueue's three scheduler performance tests, planned by headway's own cycle.

The virtual clock is moved on by the measured CPU time of each cycle.  ``batched`` runs begin a
cycle at most every two seconds, as when each decision is a commit that must be pushed first.
"""

from collections.abc import Iterator

from tests.benchmarks.figure import Figure
from tests.benchmarks.kueue_runs import KueueRun, play, scenario

BATCH_MS = 2000
FLOOR = "a planner that needs no time"


def figures() -> Iterator[Figure]:
    """Yield every figure; some three minutes, most of them for the 50,000 jobs."""
    baseline = scenario("baseline")
    run = play(baseline)
    yield from _of("baseline", run, target=1.2)
    yield Figure(
        name="kueue_baseline_decisions_per_cpu_s",
        value=run.decisions_per_s,
        unit="starts/s",
        target=None,
        better="higher",
    )
    yield from _of("baseline_batched", play(baseline, batch_ms=BATCH_MS), target=None)
    yield from _of("tas", play(scenario("tas")), target=1.2)
    yield from _of("large_scale", play(scenario("large-scale")), target=1.2)


def _of(name: str, run: KueueRun, *, target: float | None) -> Iterator[Figure]:
    yield Figure(
        name=f"kueue_{name}_makespan",
        value=run.ratio,
        unit="times",
        target=target,
        better="lower",
        ratio_against=f"{FLOOR} ({run.floor_s:.1f} s)",
    )
    for kind, wait_s in run.wait_mean_s.items():
        if "-" not in kind:
            yield Figure(
                name=f"kueue_{name}_wait_{kind}_s",
                value=wait_s,
                unit="s",
                target=None,
                better="lower",
            )
