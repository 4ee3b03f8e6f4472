"""Each baseline on a world small enough to play by hand."""

from reconciler.simulate.baselines.conservative import Conservative
from reconciler.simulate.baselines.multifactor import Multifactor
from reconciler.simulate.baselines.ordered import Easy, Fifo, FifoSkip
from reconciler.simulate.baselines.rounds import Las, Srtf
from reconciler.simulate.baselines.team_queues import TeamQueues
from reconciler.simulate.costs import Costs
from tests.unit.simulate.paper import ask, ends, played, starts

HEAD_BLOCKED = (
    ask("runs", 0, 6, 100),
    ask("wide", 10, 8, 100),
    ask("short", 20, 2, 50),
    ask("long", 20, 2, 150),
)


def test_fifo_starts_nobody_before_the_one_ahead() -> None:
    assert starts(played(Fifo(), HEAD_BLOCKED)) == {
        "runs": 0,
        "wide": 100,
        "short": 200,
        "long": 200,
    }


def test_skipping_starts_whoever_fits_and_so_delays_the_wide_gang() -> None:
    found = starts(played(FifoSkip(), HEAD_BLOCKED))
    assert (found["short"], found["long"], found["wide"]) == (20, 70, 220)


def test_easy_backfills_what_ends_before_the_head_starts_and_nothing_that_delays_it() -> None:
    found = starts(played(Easy(), HEAD_BLOCKED))
    assert found == {"runs": 0, "short": 20, "wide": 100, "long": 200}


def test_easy_backfills_a_long_job_beside_the_heads_place() -> None:
    jobs = (ask("runs", 0, 8, 100), ask("wide", 10, 12, 100), ask("beside", 20, 4, 500))
    found = starts(played(Easy(), jobs, nodes=2))
    assert (found["beside"], found["wide"]) == (20, 100)


def test_easy_takes_a_loose_limit_for_the_truth() -> None:
    jobs = (
        ask("runs", 0, 6, 100),
        ask("wide", 10, 8, 100),
        ask("short", 20, 2, 50, limit_s=120),
    )
    assert starts(played(Easy(), jobs))["short"] == 200


def test_conservative_backfilling_delays_no_planned_job_not_only_the_first() -> None:
    jobs = (
        ask("runs", 0, 6, 90),
        ask("first", 10, 8, 60),
        ask("second", 11, 4, 600),
        ask("third", 12, 8, 30),
        ask("late", 13, 2, 50),
    )
    found = starts(played(Conservative(), jobs))
    assert found["late"] == 30
    assert (found["first"], found["second"], found["third"]) == (90, 150, 750)


def test_multifactor_lets_the_team_that_used_least_go_first() -> None:
    jobs = (
        ask("greedy-1", 0, 8, 4000, team="greedy"),
        ask("greedy-2", 10, 8, 100, team="greedy"),
        ask("modest", 20, 8, 100, team="modest"),
    )
    found = starts(played(Multifactor(), jobs))
    assert found["modest"] < found["greedy-2"]


def test_team_queues_serve_within_quota_before_borrowers() -> None:
    jobs = (
        ask("a-1", 0, 8, 100, team="a"),
        ask("a-2", 1, 8, 100, team="a"),
        ask("b-1", 2, 8, 100, team="b"),
    )
    found = starts(played(TeamQueues({"a": 4, "b": 8}), jobs))
    assert found == {"a-1": 0, "b-1": 100, "a-2": 200}


def test_team_queues_never_hold_more_than_the_cohort_may() -> None:
    jobs = (ask("one", 0, 8, 100, team="a"), ask("two", 0, 8, 100, team="b"))
    found = starts(played(TeamQueues({"a": 4, "b": 4}), jobs, nodes=2))
    assert sorted(found.values()) == [0, 100]


def test_team_queues_let_small_jobs_pass_a_gang_that_does_not_fit() -> None:
    found = starts(played(TeamQueues({"a": 8}), HEAD_BLOCKED))
    assert (found["short"], found["wide"]) == (20, 220)


def test_srtf_stops_the_longer_job_at_a_round_and_charges_the_restart() -> None:
    jobs = (ask("long", 0, 8, 1000), ask("short", 70, 8, 100))
    found = played(Srtf(60), jobs, costs=Costs.flat(60))
    assert starts(found) == {"long": 60, "short": 120}
    assert ends(found) == {"long": 220 + 60 + 940, "short": 220}
    assert [outcome.preemptions for outcome in found.outcomes] == [1, 0]


def test_a_preemptor_waits_until_its_victim_has_saved() -> None:
    jobs = (ask("long", 0, 8, 1000), ask("short", 70, 8, 100))
    found = played(Srtf(60), jobs, costs=Costs.times(1))
    assert starts(found)["short"] == 120 + 21
    assert ends(found)["long"] == 241 + 62 + 940
    assert found.outcomes[0].overhead_gpu_s == (21 + 62) * 8


def test_las_serves_the_job_that_got_least_once_the_other_left_the_first_class() -> None:
    jobs = (ask("old", 0, 8, 10_000), ask("new", 600, 8, 600))
    found = played(Las(300), jobs)
    assert starts(found)["new"] == 2100
    assert ends(found) == {"new": 2700, "old": 10_900}


def test_rounds_move_a_running_job_for_one_that_fits_only_by_count() -> None:
    jobs = (
        ask("left", 0, 5, 5000),
        ask("right", 0, 5, 6000),
        ask("stays", 1, 3, 9000),
        ask("wide", 10, 8, 200),
    )
    found = played(Srtf(60), jobs, nodes=2)
    assert starts(found)["wide"] <= 120
    assert max(ends(found).values()) < 20_000
