"""The benchmark's table compares equal seeds only, and says yes only where both bounds hold."""

import pytest

from tests.benchmarks.planner_policy import CASES, _words
from tests.benchmarks.planner_table import geomean, paired, ratio, tables


def a_row(trace: str, policy: str, seed: int, wait_s: float, **more: object) -> dict[str, object]:
    known = {
        "trace": trace,
        "policy": policy,
        "seed": seed,
        "jct_mean_s": wait_s + 3600,
        "bound_jct_mean_s": 3600,
        "preemptions_per_job": 0.1,
        "idle_while_queued": 0.02,
        "cycle_mean_ms": None,
        "cycle_p99_ms": None,
        "cpu_s": 1.0,
        "jobs": 10,
        "load": {"left_out": 1},
    }
    waits = {f"wait_{name}_s": wait_s for name in ("mean", "p50", "p95", "p99", "max")}
    return {**known, **waits, **more}


def test_ratios_are_taken_over_the_seeds_both_were_played_with() -> None:
    cells = [
        a_row("t", "easy", 1, 1000),
        a_row("t", "easy", 2, 3000),
        a_row("t", "headway", 2, 300),
    ]
    assert paired(cells, "t", "headway", "wait_mean_s") == (3000, 300)
    assert ratio(cells, "t", "headway", "mean") == 10
    assert ratio(cells, "t", "headway", "p99") == pytest.approx(0.1)
    assert ratio(cells, "t", "headway", "bound") == pytest.approx(3900 / 3600)


def test_a_policy_without_chance_is_compared_with_every_seed() -> None:
    cells = [a_row("t", "easy", seed, 1000 * seed) for seed in (1, 2)]
    cells.append(a_row("t", "fifo", 1, 3000))
    assert paired(cells, "t", "fifo", "wait_mean_s") == (1500, 3000)


def test_nothing_in_common_is_no_ratio() -> None:
    cells = [a_row("t", "easy", 1, 1000), a_row("t", "headway", 2, 100)]
    assert ratio(cells, "t", "headway", "mean") is None


def test_refused_jobs_are_in_the_table() -> None:
    cells = [a_row("t", "easy", 1, 1000), a_row("t", "headway", 1, 100, jobs_done=9)]
    lines = tables({"bare": cells}).splitlines()
    served = {
        line.split("|")[2].strip(): line.split("|")[-2].strip() for line in lines if "t |" in line
    }
    assert (served["easy"], served["headway"]) == ("10 of 11", "9 of 11")


@pytest.mark.parametrize(
    ("cpu_s", "said"),
    [(60, "reached"), (61, "not reached, within the limit"), (301, "over the limit")],
)
def test_the_cpu_of_a_long_trace_is_held_against_its_limit(cpu_s: float, said: str) -> None:
    long = a_row("long", "headway", 1, 100, jobs=85_053, decisions=160_000, cpu_s=cpu_s)
    short = a_row("short", "headway", 1, 100, cpu_s=999)
    lines = [line for line in tables({"bare": [long, short]}).splitlines() if "Planner CPU" in line]
    assert len(lines) == 1
    assert lines[0].endswith(f"target 60 s, limit 300 s: {said}.")


def test_a_won_mean_with_a_starved_trace_has_not_reached_the_target() -> None:
    def cells(worst: float) -> list[dict[str, object]]:
        return [
            a_row("good", "easy", 1, 10_000),
            a_row("good", "headway", 1, 500),
            a_row("bad", "easy", 1, 10_000),
            a_row("bad", "headway", 1, worst),
        ]

    def verdict(text: str) -> str:
        (line,) = [each for each in text.splitlines() if each.startswith("| EASY's mean wait")]
        return line.split("|")[-2].strip()

    assert verdict(tables({"bare": cells(4000)})) == "yes"
    assert verdict(tables({"bare": cells(9000)})) == "no"
    assert geomean([2.0, 8.0]) == 4.0


def test_a_promise_is_kept_where_every_trace_keeps_it_in_the_mean_of_its_seeds() -> None:
    def cells(worst: float) -> list[dict[str, object]]:
        kept = {
            "p0_start_p95_s": 40,
            "p0_within_5_min": 1.0,
            "reservations_on_time": 1.0,
            "reservations_accepted": 1,
            "reservations_asked": 1,
            "quota_violations": 0,
            "wait_mean_s_by_class": {},
        }
        met = (("good", 1, 1.0), ("bad", 1, 0.99), ("bad", 2, worst))
        return [
            a_row(trace, "headway", seed, 100, **kept, deadline_hit_rate=share)
            for trace, seed, share in met
        ]

    def verdict(worst: float) -> list[str]:
        lines = tables({"overlay": cells(worst)}).splitlines()
        (line,) = [each for each in lines if each.startswith("| feasible deadlines met")]
        return [each.strip() for each in line.split("|")[2:-1]]

    assert verdict(0.92) == ["95.5% (bad)", "92.0% (bad, seed 2)", "95.0%", "yes"]
    assert verdict(0.90) == ["94.5% (bad)", "90.0% (bad, seed 2)", "95.0%", "no"]


def test_the_cases_are_the_eight_traces_with_their_published_node_counts() -> None:
    assert {name: case.nodes for name, case in CASES.items()} == {
        "c02": 12,
        "c03": 20,
        "c04": 69,
        "c06": 13,
        "lingjun": 128,
        "venus": 20,
        "philly_4vc": 115,
        "philly_octnov": 238,
    }
    assert _words("a,b", ()) == ["a", "b"]
    assert _words(None, ("c",)) == ["c"]
