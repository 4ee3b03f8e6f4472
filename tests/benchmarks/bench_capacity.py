"""How fast is everybody planned?  Cold, within quotas, and as the fleet grows.

CPU time of one process, not wall time: other work on the machine does not count.  The growth from
100 to 100,000 pending jobs is also drawn, ``build/bench/planner_growth.svg``.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from reconciler.planning.capacity.cold import Ask, plan_everybody
from reconciler.planning.capacity.power import RackPower
from reconciler.planning.capacity.state import State
from reconciler.planning.forecast import forecast
from tests.benchmarks.capacity_worlds import (
    NOW,
    RACK,
    SIZE,
    TYPES,
    FleetWorld,
    a_fleet,
    a_view,
)
from tests.benchmarks.figure import Figure
from tests.benchmarks.growth_chart import growth_svg

HERE = Path(__file__).parent
OUT = HERE.parent.parent / "build" / "bench"
SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
RUNS = 5
POWERED = 2_000
"""A power cap that binds is dear: all 10,000 take most of a minute."""
WATTS = {TYPES[0]: 400, TYPES[1]: 700}


def figures() -> Iterator[Figure]:
    """Yield every figure; about two minutes on two quiet cores."""
    fleet = a_fleet()
    _cold_s(fleet, fleet.asks)  # the first call pays for imports and caches
    cold_s = statistics.median(_cold_s(fleet, fleet.asks) for _ in range(RUNS))
    yield _milliseconds("planner_cold_10k", cold_s, target=500)
    for factor in (1.2, 0.8):
        asks = [fleet.asks_within(factor) for _ in range(3)]
        within_s = statistics.median(_cold_s(fleet, each) for each in asks)
        name = f"planner_cold_10k_quotas_{str(factor).replace('.', '_')}"
        yield _milliseconds(name, within_s, target=None)
    powered_s = _powered_s(fleet, fleet.asks_within(1.2)[:POWERED])
    yield _milliseconds("planner_cold_2k_quotas_and_power", powered_s, target=None)
    everyone = a_view(fleet)
    yield _milliseconds("planner_forecast_10k", cpu_s(lambda: forecast(everyone)), target=None)
    exact = a_fleet(exact_seconds=True)
    exact_s = statistics.median(_cold_s(exact, exact.asks) for _ in range(3))
    yield _milliseconds("planner_cold_10k_uneven_durations", exact_s, target=None)
    yield from _growth(cold_s)


def _milliseconds(name: str, seconds: float, *, target: float | None) -> Figure:
    return Figure(
        name=f"{name}_ms", value=seconds * 1000, unit="CPU ms", target=target, better="lower"
    )


def _growth(ten_thousand_s: float) -> Iterator[Figure]:
    """Plan fleets of equal load: one GPU a pending job."""
    rows: list[tuple[int, float]] = []
    for pending in SIZES:
        fleet = a_fleet(nodes=max(pending // 8, 4), pending=pending)
        runs = 3 if pending <= 10_000 else 1
        rows.append((pending, min(_cold_s(fleet, fleet.asks) for _ in range(runs))))
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "planner_growth.svg").write_text(growth_svg(rows), encoding="utf-8")
    (OUT / "planner_growth.csv").write_text(
        "pending,cpu_s\n" + "".join(f"{n},{s:.4f}\n" for n, s in rows), encoding="utf-8"
    )
    largest_s = rows[-1][1]
    yield Figure(
        name="planner_cold_100k_s", value=largest_s, unit="CPU s", target=10, better="lower"
    )
    yield Figure(
        name="planner_cost_of_ten_times_the_jobs",
        value=largest_s / ten_thousand_s,
        unit="times",
        target=None,
        better="lower",
        ratio_against="10,000 jobs on 10,000 GPUs",
    )


def _cold_s(fleet: FleetWorld, asks: Sequence[Ask]) -> float:
    """Return the CPU seconds of one plan of everybody, building the capacity included."""
    holds = fleet.holds
    return cpu_s(lambda: plan_everybody(State(fleet.grid, holds, NOW), asks))


def _powered_s(fleet: FleetWorld, asks: Sequence[Ask]) -> float:
    """Return the CPU seconds of a plan in racks that power 85 % of their GPUs."""
    cap = int(RACK * SIZE * max(WATTS.values()) * 0.85)
    power = RackPower(fleet.grid, cap, WATTS, NOW)
    holds = fleet.holds
    for row, count, start, end in zip(
        *(column.tolist() for column in (holds.row, holds.count, holds.start, holds.end)),
        strict=True,
    ):
        power.spend((row,), (count,), start, end)
    return cpu_s(lambda: plan_everybody(State(fleet.grid, holds, NOW), asks, power))


def cpu_s(work: Callable[[], object]) -> float:
    """Return the CPU seconds of ``work``; garbage is collected before it, not during it."""
    gc.collect()
    gc.disable()
    try:
        began = time.process_time()
        work()
        return time.process_time() - began
    finally:
        gc.enable()
