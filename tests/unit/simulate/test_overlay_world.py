"""Reservations of the overlay: booked by the planner, drained towards, opened on time."""

from reconciler.domain.policy import Policy
from reconciler.simulate.asks import HOUR_S, Ask
from reconciler.simulate.baselines.ordered import Fifo
from reconciler.simulate.calendar import Booked, calendar
from reconciler.simulate.costs import Costs
from reconciler.simulate.counted import CountedFleet
from reconciler.simulate.metrics import figures
from reconciler.simulate.outcome import Played
from reconciler.simulate.paper_fleet import paper_cluster
from reconciler.simulate.play_headway import play_headway
from tests.unit.simulate.paper import ask

DAY_S = 24 * HOUR_S


def window(name: str, start_s: int, *, nodes: int = 1, team: str = "held") -> Booked:
    return Booked(
        id=name,
        team=team,
        nodes=nodes,
        asked_s=60,
        start_s=start_s,
        end_s=start_s + 2 * HOUR_S,
        shows_up=True,
    )


def headway(jobs: tuple[Ask, ...], *asked: Booked, nodes: int = 2) -> Played:
    return play_headway(
        jobs,
        paper_cluster(nodes, 8),
        gpus_per_node=8,
        tor_size=None,
        costs=Costs.times(1),
        policy=Policy(),
        reservations=asked,
        check_every=1,
    )


def test_a_window_opens_on_time_although_long_work_ran_on_its_node() -> None:
    jobs = (
        ask("one", 0, 8, 20 * HOUR_S, limit_s=DAY_S),
        ask("two", 0, 8, 20 * HOUR_S, limit_s=DAY_S),
        ask("held", 0, 1, 60, team="held"),
    )
    found = headway(jobs, window("w", 5 * HOUR_S))
    said = figures(found)
    assert (said["reservations_accepted"], said["reservations_on_time"]) == (1, 1.0)
    assert said["preemptions"] == 1
    assert all(each.ended_s >= 20 * HOUR_S for each in found.outcomes[:2])


def test_a_window_nobody_can_make_room_for_is_refused_and_no_miss() -> None:
    jobs = (
        ask("stays", 0, 16, 20 * HOUR_S, limit_s=DAY_S, preemptible=False),
        ask("held", DAY_S, 1, 60, team="held"),
    )
    said = figures(headway(jobs, window("w", 5 * HOUR_S)))
    assert said["reservations_accepted"] == 0
    assert said["reservations_missed_by_refusal"] == 0
    assert said["reservations_on_time"] is None


def test_the_calendar_books_two_a_week_for_the_three_largest_teams() -> None:
    jobs = tuple(
        ask(f"{team}{day}", day * DAY_S, size, 1000, team=team)
        for day in range(57)
        for team, size in (("a", 8), ("b", 4), ("c", 2), ("d", 1))
    )
    found = calendar(jobs, nodes=16, seed=1)
    assert {each.team for each in found} == {"a", "b", "c"}
    assert 40 <= len(found) <= 48
    for each in found:
        assert each.nodes == 2
        assert 8 * HOUR_S <= each.end_s - each.start_s <= 24 * HOUR_S
        assert 24 * HOUR_S <= each.start_s - each.asked_s <= 72 * HOUR_S


def test_other_policies_lose_the_nodes_for_as_long() -> None:
    fleet = CountedFleet(
        (ask("runs", 0, 16, 4 * HOUR_S),),
        nodes=2,
        gpus_per_node=8,
        costs=Costs.flat(60),
        reservations=(window("w", HOUR_S),),
    )
    fleet.run(Fifo())
    (outcome,) = fleet.played("fifo", 0.0).outcomes
    assert outcome.ended_s == 3 * HOUR_S + 60 + 3 * HOUR_S
