"""Whom a job stops, where the cheapest per device is not the cheapest."""

from reconciler.domain.value_state import ValueState
from reconciler.planning.value.decide import decide
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
