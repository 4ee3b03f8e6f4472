"""Whom a job stops, and what is remembered of whom it might."""

from dataclasses import replace

from hypothesis import given
from hypothesis.strategies import booleans, integers, lists, sampled_from, sets, tuples

from reconciler.domain.units import JobId
from reconciler.domain.value_state import Learned, ValueState
from reconciler.planning.table import Draft, Table
from reconciler.planning.value.belief import Beliefs
from reconciler.planning.value.decide import decide
from reconciler.planning.value.fleet import JobFacts
from reconciler.planning.value.here import Candidate, Pairs
from reconciler.planning.value.index import Residuals
from reconciler.planning.value.ranking import Valuation
from reconciler.planning.value.rules import Rules
from reconciler.planning.value.stock import Shelf, Stock
from tests.unit.planning.value.worlds import NOW, fleet, job, nodes, runs

SHORT = {"predicted": 60, "limit": 3600}
LONG = {"predicted": 500_000, "limit": 1_209_600}


def test_victims_on_one_row_are_the_cheapest_set_and_not_the_cheapest_one_by_one() -> None:
    """Two pairs are cheapest per device; a pair and a single free enough for less."""
    others = [runs(f"other{n}", ((n, 8),), preemptible=False) for n in range(1, 21)]
    world = fleet(
        nodes(21, sizes=[5, *[8] * 20]),
        running=[
            *others,
            runs("pair", ((0, 2),), predicted=500_000, limit=0),
            runs("pair-too", ((0, 2),), predicted=50_000, limit=0),
            runs("single", ((0, 1),), predicted=70_000, limit=0),
        ],
        waiting=[job("short", 3, **SHORT)],
    )

    (start,) = decide(world, ValueState(), NOW).starts

    assert start.victims == ("t/pair", "t/single")


def test_one_victim_that_frees_enough_goes_before_two_that_cost_more() -> None:
    world = fleet(
        nodes(1, size=8),
        running=[
            runs("wide", ((0, 4),), **LONG),
            runs("pair", ((0, 2),), predicted=50_000, limit=0),
            runs("pair-too", ((0, 2),), predicted=50_000, limit=0),
        ],
        waiting=[job("short", 4, **SHORT)],
    )

    (start,) = decide(world, ValueState(), NOW).starts

    assert start.victims == ("t/wide",)


@given(
    lists(integers(0, 40_000), min_size=1, max_size=6),
    sampled_from([0, 3600, 1_209_600]),
    sampled_from([0, NOW + 9_000]),
    integers(-5_000, 5_000),
)
def test_candidates_of_the_last_pass_are_as_good_as_new_ones(
    spans: list[int], limit: int, deadline: int, since: int
) -> None:
    """Whatever time passes between two passes, also backwards."""
    facts = runs("one", ((0, 4),), since=NOW + since, limit=limit, deadline=deadline)
    rules, residuals, stock = Rules(), Residuals(Beliefs(Learned())), Stock()
    running = Table({facts.job: facts})
    at = NOW
    for turn, span in enumerate(spans):
        at += span if turn % 3 else -span
        valuation = Valuation(
            now=at, ranked_at=at, budget_s=86_400.0, residuals=residuals, rules=rules
        )
        fresh = replace(valuation, residuals=Residuals(Beliefs(Learned())))
        kept, new = _one(stock, valuation, running), _one(Stock(), fresh, running)
        assert (kept.rate, kept.price) == (new.rate, new.price)


def test_a_candidate_is_not_made_again_while_its_rate_stays() -> None:
    facts = runs("one", ((0, 4),), since=NOW - 36_000)
    valuation = Valuation(
        now=NOW,
        ranked_at=NOW,
        budget_s=86_400.0,
        residuals=Residuals(Beliefs(Learned())),
        rules=Rules(),
    )
    stock, running = Stock(), Table({facts.job: facts})
    first = _one(stock, valuation, running)
    again = _one(stock, replace(valuation, now=NOW + 1), running)
    other = _one(stock, replace(valuation, budget_s=9_000.0), running)
    assert again is first
    assert other is not first


@given(
    lists(
        tuples(
            integers(0, 900),
            lists(tuples(integers(0, 5), integers(-1_500, 300), booleans()), max_size=3),
            sets(integers(0, 5)),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_the_candidates_follow_whoever_comes_goes_or_becomes_firm(
    steps: list[tuple[int, list[tuple[int, int, bool]], set[int]]],
) -> None:
    residuals, stock = Residuals(Beliefs(Learned())), Stock()
    running: Draft[JobId, JobFacts] = Draft()
    at = NOW
    for span, changes, numbers in steps:
        at += span
        for number, since, goes in changes:
            job = JobId(f"t/{number}")
            running.pop(job)
            if not goes:
                running[job] = runs(str(number), ((number, 4),), since=at + since)
        firm = [JobId(f"t/{number}") for number in numbers]
        valuation = Valuation(
            now=at, ranked_at=at, budget_s=86_400.0, residuals=residuals, rules=Rules()
        )
        kept = stock.shelved(valuation, running.done(), firm, 8)
        new = Stock().shelved(valuation, Table(dict(running)), firm, 8)
        assert _rows(kept) == _rows(new)
        kept.add_young(valuation)
        new.add_young(valuation)
        assert _rows(kept) == _rows(new)
        known = {each.facts.job for pairs in _rows(kept).values() for each, _ in pairs}
        assert known == running.keys() - set(firm)


def _one(stock: Stock, valuation: Valuation, running: Table[JobId, JobFacts]) -> Candidate:
    """Return the candidate of the only job that runs."""
    shelf = stock.shelved(valuation, running, (), 8)
    shelf.add_young(valuation)
    (((found, _),),) = _rows(shelf).values()
    return found


def _rows(shelf: Shelf) -> dict[int, Pairs]:
    return {row: here.pairs for row, here in shelf.rows.items()}
