"""What does the production ``plan()`` cost?  Cold, after one event, and with the forecast read.

10,000 gangs in line for 10,000 GPUs, every one of them looked at; once without bounds, once with
quotas of a cohort and racks that have the power for 85 % of their GPUs.  CPU time of one process,
garbage collection off.  An event is an arrival, an end or an edit, each followed by one planning
call.
"""

import gc
import statistics
import time
from collections.abc import Iterator

from reconciler.cycle import run_cycle
from reconciler.domain.plan import Stop
from reconciler.domain.policy import Order
from reconciler.domain.units import Instant
from reconciler.planning.guard import in_brief
from reconciler.planning.memo import Memo
from reconciler.planning.plan import plan
from tests.benchmarks.figure import Figure
from tests.benchmarks.plan_worlds import PlanWorld, a_world, until_in_line

PENDING = 10_000
EVENTS = 240
SCORED = (1_000, 2_000)
CHEAP = 0.5


def figures() -> Iterator[Figure]:
    """Yield every figure; some two minutes on two quiet cores."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield from _cold("plan_cold_10k")
        yield from _cold("plan_cold_10k_preempting", cheap_share=CHEAP)
        yield from _events("plan_event_10k")
        yield from _cold("plan_cold_10k_quotas_power", is_bounded=True)
        yield from _events("plan_event_10k_quotas_power", is_bounded=True)
        yield from _by_score()
    finally:
        if was_on:
            gc.enable()


def in_line(world: PlanWorld) -> Memo:
    """Let the fleet fill up and the gangs come; return the memo of the cycle before they came."""
    world.advance(world.now)
    memo = run_cycle(world, None, guard=in_brief).memo
    world.advance(Instant(world.now + 1))
    memo = run_cycle(world, memo, guard=in_brief).memo
    world.advance(Instant(until_in_line()))
    return memo


def _cold(name: str, *, cheap_share: float = 0.0, is_bounded: bool = False) -> Iterator[Figure]:
    world = a_world(pending=PENDING, cheap_share=cheap_share, is_bounded=is_bounded)
    in_line(world)
    snapshot = world.observe()
    began = time.process_time()
    planned, _ = plan(snapshot)
    yield _ms(name, time.process_time() - began, target=500)
    began = time.process_time()
    len(planned.forecast)
    yield _ms(f"{name}_forecast", time.process_time() - began, target=None)
    stopped = sum(isinstance(action, Stop) for action in planned.actions)
    yield Figure(
        name=f"{name}_preemptions", value=stopped, unit="jobs", target=None, better="lower"
    )


def _events(name: str, *, is_bounded: bool = False) -> Iterator[Figure]:
    """One event a planning call: who ends, who comes, who is edited, in turn."""
    world = a_world(pending=PENDING + EVENTS, is_bounded=is_bounded)
    held = {f"wait-{number:06}" for number in range(PENDING, PENDING + EVENTS)}
    late = [at for at, ask in enumerate(world.asks) if ask.id in held]
    world.hold_back(late)
    memo = run_cycle(world, in_line(world), guard=in_brief).memo
    spent: list[float] = []
    for number in range(EVENTS):
        kind = number % 3
        if kind == 0:
            world.come(late[number])
        elif kind == 1:
            world.end_one()
        else:
            waiting = world.waiting_jobs
            world.edit(waiting[number * 37 % len(waiting)])
        world.advance(Instant(world.now + 1))
        snapshot = world.observe()
        began = time.process_time()
        planned, memo = plan(snapshot, memo)
        update = memo.update
        spent.append(time.process_time() - began)
        if update:
            world.record(snapshot, planned, update)
        for action in planned.actions:
            world.apply(action)
    spent.sort()
    yield _ms(f"{name}_p50", statistics.median(spent), target=None)
    yield _ms(f"{name}_p99", spent[int(0.99 * len(spent))], target=50)
    began = time.process_time()
    len(planned.forecast)
    yield _ms(f"{name}_forecast", time.process_time() - began, target=None)


def _by_score() -> Iterator[Figure]:
    took = []
    for pending in SCORED:
        world = a_world(pending=pending, order=Order.SCORE)
        in_line(world)
        snapshot = world.observe()
        began = time.process_time()
        plan(snapshot)
        took.append(time.process_time() - began)
        yield _ms(f"plan_by_score_{pending}", took[-1], target=None)
    yield Figure(
        name="plan_by_score_cost_of_twice_the_jobs",
        value=took[1] / took[0],
        unit="times",
        target=None,
        better="lower",
    )


def _ms(name: str, seconds: float, *, target: float | None) -> Figure:
    return Figure(
        name=f"{name}_ms", value=1000 * seconds, unit="ms CPU", target=target, better="lower"
    )
