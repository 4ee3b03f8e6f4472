"""What runs measured of being spread: one ratio a class, from runs of one kind, odd ones aside."""

from itertools import permutations
from math import log
from typing import Any

import pytest

from reconciler.domain.policy import SpreadSlowdown
from reconciler.domain.spread import PlacementClass, SpreadMeasured
from reconciler.planning.slowdown import PSEUDO_RUNS, slowdown, times_as_long
from reconciler.snapshots.history import MeasuredRun, history_to_json
from reconciler.snapshots.learned import learned_from
from reconciler.snapshots.measured_spread import LEAST_RUNS, MOST, measured_spread
from tests.unit.snapshots.measured import TRAIN, a_run, some_facts

TOGETHER, NODES, RACKS = PlacementClass
TOLD = SpreadSlowdown(nodes=1.05, racks=1.28)


def runs_of(
    placement: PlacementClass, *slower: float, first: int = 1, **changes: Any
) -> list[MeasuredRun]:
    """Return runs in one class whose steps took these multiples of what is expected."""
    return [
        a_run(first + number, placement=placement, slower=each, **changes)
        for number, each in enumerate(slower)
    ]


def test_runs_over_racks_are_held_against_runs_together() -> None:
    runs = runs_of(TOGETHER, 1.0, 1.0, 1.0) + runs_of(RACKS, 1.6, 1.6, 1.6, first=9)

    measured = measured_spread(runs)

    assert measured.racks.ratio == pytest.approx(1.6)
    assert (measured.racks.runs, measured.racks.weight) == (3, 1.5)
    assert not measured.nodes.runs
    assert measured_spread(reversed(runs)) == measured


@pytest.mark.parametrize(
    "other",
    [
        {"facts": some_facts(model="Qwen/Qwen3-4B")},
        {"facts": some_facts(task="dpo")},
        {"facts": some_facts(tuner="full")},
        {"facts": some_facts(data=("other",))},
        {"facts": some_facts(max_length=512)},
        {"facts": some_facts(per_device_batch=4)},
        {"facts": some_facts(global_batch=64)},
        {"train": TRAIN | {"gradient_checkpointing": False}},
        {"gpu_type": "H100-80GB"},
        {"gpus": 8},
        {"asked_gpus": 8},
        {"processes": 8},
        {"placement": None},
    ],
)
def test_only_runs_of_one_kind_say_anything_of_each_other(other: dict[str, Any]) -> None:
    apart = runs_of(RACKS, 1.6, 1.6, 1.6)
    together = runs_of(TOGETHER, 1.0, 1.0, 1.0, first=9)

    assert measured_spread(apart + together).racks.runs == 3
    assert not measured_spread(
        apart + [a_run(number, **({"placement": TOGETHER} | other)) for number in (9, 10, 11)]
    )


def test_kinds_are_pooled_each_against_its_own_runs_together() -> None:
    runs = []
    for number, pace in enumerate((1.0, 7.0, 0.2)):  # kinds that are slow and fast in themselves
        kind = some_facts(data=(f"data-{number}",))
        runs += runs_of(TOGETHER, pace, facts=kind, first=100 * number)
        runs += runs_of(NODES, pace * 1.2, facts=kind, first=100 * number + 50)

    measured = measured_spread(runs).nodes

    assert measured.ratio == pytest.approx(1.2)
    assert (measured.runs, measured.weight) == (3, 1.5)


@pytest.mark.parametrize("slower", [0.01, 0.5, 3.0, 1_000.0])
def test_one_odd_run_moves_the_ratio_to_another_run_at_most(slower: float) -> None:
    spread = (1.3, 1.31, 1.32, 1.33, slower)
    for odd_together in (False, True):
        runs = runs_of(TOGETHER, 1.0, 1.0, slower if odd_together else 1.0)
        runs += runs_of(RACKS, *spread, first=9)

        assert 1.3 <= measured_spread(runs).racks.ratio <= 1.33


def test_a_class_with_fewer_than_three_runs_says_nothing() -> None:
    together = runs_of(TOGETHER, 1.0, 1.0, 1.0, 1.0)
    for count in range(LEAST_RUNS):
        apart = runs_of(RACKS, *[2.0] * count, first=9)
        assert measured_spread(together + apart) == SpreadMeasured()
    apart = runs_of(RACKS, *[2.0] * LEAST_RUNS, first=9)
    assert measured_spread(together + apart).racks.runs == LEAST_RUNS


@pytest.mark.parametrize(("slower", "ratio"), [(1e6, MOST), (1e-6, 1 / MOST)])
def test_what_a_job_wrote_is_believed_within_bounds(slower: float, ratio: float) -> None:
    runs = runs_of(TOGETHER, 1.0, 1.0) + runs_of(RACKS, *[slower] * 5, first=9)

    assert measured_spread(runs).racks.ratio == ratio


def test_a_run_without_any_time_is_passed_over() -> None:
    never = a_run(99, placement=RACKS, steps=10**18, training_s=5e-324)
    runs = runs_of(TOGETHER, 1.0) + runs_of(RACKS, 1.5, 1.5, 1.5, first=9)

    assert measured_spread([*runs, never]) == measured_spread(runs)
    assert learned_from(history_to_json([never]), TOLD).alike == {}


def test_the_order_of_runs_does_not_matter() -> None:
    runs = runs_of(TOGETHER, 1.0, 1.1) + runs_of(NODES, 1.2, 1.3, 1.5, first=9)

    assert len({measured_spread(each) for each in permutations(runs)}) == 1


def test_few_runs_leave_the_policys_word_nearly_alone_and_many_move_it_to_what_they_say() -> None:
    def learned(kinds: int, together: int = 8, apart: int = 8) -> float:
        runs = []
        for number in range(kinds):
            kind = some_facts(data=(f"data-{number}",))
            runs += runs_of(TOGETHER, *[1.0] * together, facts=kind, first=100 * number)
            runs += runs_of(RACKS, *[1.6] * apart, facts=kind, first=100 * number + 50)
        return slowdown(TOLD, measured_spread(runs)).racks

    assert learned(0) == 1.28
    assert learned(1, together=1, apart=2) == 1.28
    assert learned(1, together=1, apart=3) == 1.33
    assert learned(1) == 1.43  # eight and eight weigh as much as the policy
    assert 1.55 < learned(12) < 1.6
    assert learned(1, together=8, apart=3) > learned(1, together=1, apart=3)


@pytest.mark.parametrize("told", [TOLD, SpreadSlowdown(nodes=1.0, racks=1.055)])
def test_a_class_that_no_run_measured_keeps_the_policys_word_to_the_digit(
    told: SpreadSlowdown,
) -> None:
    of_racks = runs_of(TOGETHER, 1.0) + runs_of(RACKS, 3.0, 3.0, 3.0, first=9)

    assert slowdown(told, SpreadMeasured()) is told
    assert slowdown(told, measured_spread(of_racks)).nodes == told.nodes


def test_where_the_policy_says_nothing_nothing_is_learned() -> None:
    runs = runs_of(TOGETHER, 1.0, 1.0) + runs_of(RACKS, 2.0, 2.0, 2.0, first=9)
    text = history_to_json(runs)

    assert slowdown(SpreadSlowdown(), measured_spread(runs)) == SpreadSlowdown()
    assert not learned_from(text).spread
    assert learned_from(text).alike == learned_from(text, SpreadSlowdown()).alike


def test_factors_stay_in_order_and_never_below_one() -> None:
    together = runs_of(TOGETHER, *[1.0] * 8)
    fast = runs_of(RACKS, *[0.5] * 8, first=20)
    slow_nodes = runs_of(NODES, *[2.0] * 8, first=40)

    assert slowdown(TOLD, measured_spread(together + fast)) == SpreadSlowdown(nodes=1.0, racks=1.01)
    both = slowdown(TOLD, measured_spread(together + slow_nodes))
    assert both.nodes == both.racks
    told_apart = slowdown(TOLD, measured_spread(together + slow_nodes + fast))
    assert told_apart.nodes == told_apart.racks < both.nodes


def test_the_policys_word_counts_for_so_many_runs() -> None:
    runs = runs_of(TOGETHER, *[1.0] * 8) + runs_of(RACKS, *[1.28 * 1.28] * 8, first=20)
    measured = measured_spread(runs)

    assert measured.racks.weight == PSEUDO_RUNS
    assert slowdown(TOLD, measured).racks == round(1.28**1.5, 2)


def test_a_gang_that_was_spread_teaches_how_long_it_takes_together() -> None:
    apart = runs_of(RACKS, 1.5, 1.5, 1.5, 1.5)
    together = runs_of(TOGETHER, *[1.0] * 4, first=9)
    text = history_to_json(apart + together)

    learned = learned_from(text, TOLD)

    factor = times_as_long(slowdown(TOLD, learned.spread), RACKS)
    (ratios,), (told_nothing,) = learned.alike.values(), learned_from(text).alike.values()
    assert 1.28 < factor < 1.5
    assert learned.speed["A100-80GB"] > learned_from(text).speed["A100-80GB"]
    assert sum(told_nothing) == pytest.approx(sum(ratios) + 4 * log(factor))
