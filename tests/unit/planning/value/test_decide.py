"""What the value order starts and whom it stops, one small fleet at a time."""

from dataclasses import replace

from reconciler.domain.units import JobId
from reconciler.domain.value_state import FirmPlace, ValueState
from reconciler.planning.value.decide import ValueMemo, decide
from reconciler.planning.value.fleet import Cause, Choices, Ended, Fleet
from tests.unit.planning.value.worlds import NOW, fleet, job, nodes, runs

SHORT = {"predicted": 60, "limit": 3600}
LONG = {"predicted": 500_000, "limit": 1_209_600}


def decided(world: Fleet, state: ValueState | None = None, now: int = NOW) -> Choices:
    return decide(world, state or ValueState(), now)


def started(choices: Choices) -> dict[str, tuple[tuple[int, int], ...]]:
    return {str(start.job): start.nodes for start in choices.starts}


def firm_state(*names: str) -> ValueState:
    return ValueState(firm={JobId(f"t/{name}"): FirmPlace(since=0) for name in names})


def test_waiting_jobs_take_what_is_free_cheapest_first() -> None:
    world = fleet(nodes(1), waiting=[job("long", 8, **LONG), job("short", 4, **SHORT)])
    assert list(started(decided(world))) == ["t/short"]


def test_a_short_gang_stops_a_long_job_that_ran_its_quantum() -> None:
    long = runs("long", ((0, 8),), arrived=NOW - 7200, **LONG)
    choices = decided(fleet(nodes(1), running=[long], waiting=[job("short", 8, **SHORT)]))
    assert choices.stops == ("t/long",)
    (start,) = choices.starts
    assert (start.job, start.victims, start.cause) == ("t/short", ("t/long",), Cause.VALUE)


def test_nobody_is_stopped_within_the_quantum() -> None:
    long = runs("long", ((0, 8),), ran_s=599, **LONG)
    assert decided(fleet(nodes(1), running=[long], waiting=[job("short", 8, **SHORT)])).stops == ()


def test_nobody_is_stopped_for_a_gain_below_the_price() -> None:
    one, other = runs("a", ((0, 8),)), job("b", 8)
    assert decided(fleet(nodes(1), running=[one], waiting=[other])).stops == ()


def test_work_that_cannot_be_stopped_is_never_a_victim() -> None:
    fixed = runs("fixed", ((0, 8),), preemptible=False, **LONG)
    waiting = [job("rush", 8, rush=True, level=0, **SHORT), job("short", 8, **SHORT)]
    choices = decided(fleet(nodes(1), running=[fixed], waiting=waiting), firm_state("short"))
    assert choices.stops == ()


def test_a_more_urgent_class_is_never_stopped_by_value() -> None:
    urgent = runs("p1", ((0, 8),), level=1, **LONG)
    world = fleet(nodes(1), running=[urgent], waiting=[job("p3", 8, level=3, **SHORT)])
    assert decided(world).stops == ()


def test_a_job_in_a_rush_needs_no_price_and_no_quantum() -> None:
    victim = runs("v", ((0, 8),), ran_s=10, **SHORT)
    world = fleet(nodes(1), running=[victim], waiting=[job("p0", 8, rush=True, level=0, **LONG)])
    (start,) = decided(world).starts
    assert (start.victims, start.cause) == (("t/v",), Cause.RUSH)


def test_a_victim_moves_where_there_is_a_hole_for_it() -> None:
    small = runs("small", ((0, 2),), **LONG)
    other = runs("other", ((1, 4),), preemptible=False, **LONG)
    world = fleet(nodes(2), running=[small, other], waiting=[job("wide", 8, **SHORT)])
    choices = decided(world)
    assert choices.stops == ("t/small",)
    assert started(choices) == {"t/wide": ((0, 8),), "t/small": ((1, 2),)}


def test_eight_small_jobs_are_weighed_together_against_one_gang() -> None:
    small = [runs(f"s{n}", ((0, 1),), predicted=3600, limit=7200, ran_s=700) for n in range(8)]
    gang = job("gang", 8, predicted=3000, limit=7200)
    assert decided(fleet(nodes(1), running=small, waiting=[gang])).stops == ()


def test_a_job_at_its_budget_becomes_firm_and_stops_whom_it_needs() -> None:
    victim = runs("v", ((0, 8),), ran_s=700, **SHORT)
    late = job("late", 8, arrived=NOW - 100_000, bound=86_400, **LONG)
    choices = decided(fleet(nodes(1), running=[victim], waiting=[late]))
    assert choices.firm == {"t/late"}
    assert choices.stops == ("t/v",)
    assert choices.state.firmed == 1


def test_a_firm_job_is_no_victim_and_stays_firm_while_it_runs() -> None:
    firm = runs("firm", ((0, 8),), **LONG)
    choices = decided(
        fleet(nodes(1), running=[firm], waiting=[job("short", 8, **SHORT)]), firm_state("firm")
    )
    assert choices.stops == ()
    assert choices.firm == {"t/firm"}


def test_a_firm_place_is_forgotten_with_its_job() -> None:
    assert decided(fleet(nodes(1), waiting=[]), firm_state("gone")).state.firm == {}


def test_a_blocked_firm_gang_keeps_rows_clear_of_work_that_cannot_be_stopped() -> None:
    fixed = runs("fixed", ((0, 1),), preemptible=False, limit=7200, predicted=7000)
    firm = job("firm", 16, **LONG)
    waiting = [firm, job("new", 1, preemptible=False, **LONG)]
    choices = decided(fleet(nodes(2), running=[fixed], waiting=waiting), firm_state("firm"))
    assert choices.state.firm[JobId("t/firm")].nodes == (0, 1)
    assert choices.starts == ()


def test_work_that_can_be_stopped_still_fills_the_rows_of_a_blocked_firm_gang() -> None:
    fixed = runs("fixed", ((0, 1),), preemptible=False, **LONG)
    waiting = [job("firm", 16, **LONG), job("new", 1, **LONG)]
    choices = decided(fleet(nodes(2), running=[fixed], waiting=waiting), firm_state("firm"))
    assert list(started(choices)) == ["t/new"]


def test_without_kept_rows_others_would_have_blocked_the_gang() -> None:
    fixed = runs("fixed", ((0, 1),), preemptible=False, **LONG)
    waiting = [job("gang", 16, **LONG), job("new", 1, preemptible=False, **LONG)]
    choices = decided(fleet(nodes(2), running=[fixed], waiting=waiting))
    assert list(started(choices)) == ["t/new"]


def test_work_that_cannot_be_stopped_is_kept_together() -> None:
    fixed = runs("fixed", ((1, 1),), preemptible=False, **LONG)
    tight = runs("tight", ((0, 6),), **LONG)
    world = fleet(
        nodes(3), running=[fixed, tight], waiting=[job("new", 2, preemptible=False, **LONG)]
    )
    assert started(decided(world)) == {"t/new": ((1, 2),)}


def test_two_giants_start_early_enough_for_both() -> None:
    one = job("one", 10, arrived=NOW - 60_000, limit=400_000, predicted=100_000)
    two = job("two", 10, arrived=NOW - 59_000, limit=400_000, predicted=100_000)
    busy = runs("busy", ((0, 8),), ran_s=60_000, **LONG)
    world = fleet(nodes(2), running=[busy], waiting=[one, two])
    changed = [replace(facts, bound=86_400) for facts in (one, two)]
    assert decided(replace(world, waiting=changed)).firm == {"t/one"}
    assert decided(replace(world, waiting=changed[:1])).firm == frozenset()


def test_too_many_firm_jobs_raise_the_budget() -> None:
    late = [
        job(f"late{n:02}", 8, arrived=NOW - 100_000 - n, bound=86_400, **LONG) for n in range(12)
    ]
    few = decided(fleet(nodes(1), waiting=late[:3]))
    state = replace(ValueState(), firmed=5)
    choices = decided(fleet(nodes(1), waiting=late), state)
    assert choices.state.firmed == 17
    assert few.state.relieved_s == 0
    assert choices.state.relieved_s == choices.budget_s


def test_a_row_where_nothing_may_start_is_not_cleared() -> None:
    long = runs("long", ((0, 8),), **LONG)
    world = fleet(nodes(1), running=[long], waiting=[job("short", 8, **SHORT)], shut=frozenset({0}))
    assert decided(world).stops == ()


def test_a_start_leaves_what_is_promised_before_it_lets_go() -> None:
    edges = ((0, 8, NOW + 1000),)
    waiting = [job("long", 1, reach_s=5000), job("brief", 1, reach_s=900)]
    choices = decided(fleet(nodes(1), waiting=waiting, edges=edges))
    assert list(started(choices)) == ["t/brief"]


def test_an_account_is_not_overdrawn() -> None:
    waiting = [job("a", 4), job("b", 4), job("c", 4)]
    account = {facts.job: "team" for facts in waiting}
    world = fleet(nodes(2), waiting=waiting, headroom={"team": 8}, account=account)
    assert len(decided(world).starts) == 2


def test_a_job_that_may_not_start_for_its_account_stops_nobody() -> None:
    long = runs("long", ((0, 8),), **LONG)
    short = job("short", 8, **SHORT)
    world = fleet(
        nodes(1), running=[long], waiting=[short],
        headroom={"team": 4}, account={short.job: "team"},
    )  # fmt: skip
    assert decided(world).stops == ()


def test_jobs_aside_are_known_but_not_decided_on() -> None:
    leaving = runs("leaving", ((0, 8),), **LONG)
    world = fleet(nodes(1), waiting=[job("short", 8, **SHORT)], aside=[leaving])
    choices = decided(world)
    assert (choices.starts, choices.stops) == ((), ())
    assert choices.state.arrivals == 2


def test_who_ended_teaches_and_leaves() -> None:
    facts = job("a", 1)
    state = decided(fleet(nodes(1), waiting=[facts])).state
    ended = [Ended(facts=facts, served=50)]
    after = decided(fleet(nodes(1), ended=ended), state, NOW + 100).state
    assert after.learned.population.n == 1
    assert after.believed == after.learned
    unlearned = [Ended(facts=facts, served=50, learns=False)]
    assert decided(fleet(nodes(1), ended=unlearned), state).state.learned.population.n == 0


def test_a_memo_of_another_past_changes_nothing() -> None:
    memo = ValueMemo()
    decide(fleet(nodes(3), waiting=[job("x", 24)]), ValueState(), NOW - 500, memo=memo)
    world = fleet(nodes(1), waiting=[job("a", 4), job("b", 8), job("c", 1)])
    assert decide(world, ValueState(), NOW, memo=memo) == decided(world)
