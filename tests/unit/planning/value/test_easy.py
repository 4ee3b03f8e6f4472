"""EASY in counts, and the shadow schedule that rests on it."""

from collections.abc import Mapping

from reconciler.domain.units import JobId
from reconciler.domain.value_state import Shadow, ShadowJob
from reconciler.planning.value.easy import Easy
from reconciler.planning.value.fleet import Ended, JobFacts, Nodes
from reconciler.planning.value.rules import RULES
from reconciler.planning.value.shadow import Guess, ShadowSchedule
from tests.unit.planning.value.worlds import NOW, job, nodes, runs


def waits(gpus: int, limit: int, arrived: int = 0) -> ShadowJob:
    return ShadowJob(arrived=arrived, gpus=gpus, pools=-1, limit=limit)


def busy(gpus: int, limit: int, row: int, start: int = 0) -> ShadowJob:
    return ShadowJob(
        arrived=0, gpus=gpus, pools=-1, limit=limit, start=start, end=limit, nodes=(row, gpus)
    )


def started(jobs: Mapping[str, ShadowJob], where: Nodes, at: int = 10) -> list[str]:
    easy = Easy(where, {JobId(name): each for name, each in jobs.items()})
    return [name for name, _ in easy.start_all(at)]


def test_jobs_start_in_order_of_arrival_while_they_fit() -> None:
    jobs = {"b": waits(4, 100, 1), "a": waits(4, 100, 2), "c": waits(4, 100, 3)}
    assert started(jobs, nodes(1)) == ["b", "a"]


def test_a_short_job_fills_the_hole_before_the_first_ones_reservation() -> None:
    jobs = {"r": busy(6, 1000, 0), "first": waits(8, 500, 1), "short": waits(2, 900, 2)}
    assert started(jobs, nodes(1)) == ["short"]


def test_a_long_job_does_not_delay_the_first_one() -> None:
    jobs = {"r": busy(6, 1000, 0), "first": waits(8, 500, 1), "long": waits(2, 5000, 2)}
    assert started(jobs, nodes(1)) == []


def test_a_long_job_may_use_what_the_reservation_leaves() -> None:
    jobs = {
        "r": busy(8, 1000, 0), "s": busy(4, 9000, 1),
        "first": waits(8, 500, 1), "long": waits(4, 5000, 2),
    }  # fmt: skip
    assert started(jobs, nodes(2)) == ["long"]


def test_spare_devices_beside_the_reservation_are_given_once() -> None:
    jobs = {
        "r": busy(6, 1000, 0), "first": waits(6, 500, 1),
        "x": waits(1, 9000, 2), "y": waits(1, 9000, 3), "z": waits(1, 9000, 4),
    }  # fmt: skip
    assert started(jobs, nodes(1)) == ["x", "y"]


def guess(left: int = 600, served: int = 0) -> Guess:
    return Guess(left=lambda facts, ran: left, served=lambda facts: served)


def advanced(
    schedule: ShadowSchedule,
    now: int,
    *live: JobFacts,
    new: tuple[JobFacts, ...] = (),
    ended: tuple[Ended, ...] = (),
    gone: tuple[str, ...] = (),
    left: int = 600,
    served: int = 0,
) -> Shadow:
    known = {facts.job: facts for facts in (*live, *new)}
    gone_jobs = tuple(JobId(name) for name in gone)
    return schedule.advance(now, known, new, ended, gone_jobs, guess(left, served), RULES)


def test_a_job_that_ended_in_reality_takes_its_true_time_in_the_shadow() -> None:
    first, second = job("a", 8), job("b", 8, arrived=NOW + 1)
    schedule = ShadowSchedule(Shadow(), nodes(1))
    advanced(schedule, NOW + 1, new=(first, second), left=50_000)
    shadow = advanced(
        schedule, NOW + 2000, second, ended=(Ended(facts=first, served=1000),), left=50_000
    )
    assert shadow.jobs[second.job].start == NOW + 1000
    assert shadow.worst_wait == 999


def test_a_job_that_outlives_its_belief_in_reality_stays_in_the_shadow() -> None:
    facts = runs("a", ((0, 8),), arrived=NOW)
    schedule = ShadowSchedule(Shadow(), nodes(1))
    advanced(schedule, NOW, new=(facts,), left=600)
    shadow = advanced(schedule, NOW + 700, facts, left=900, served=5000)
    assert shadow.jobs[facts.job].end > NOW + 700


def test_a_job_whose_real_one_never_ran_so_long_leaves_the_shadow_as_believed() -> None:
    facts, behind = job("a", 8), job("b", 8, arrived=NOW + 1)
    schedule = ShadowSchedule(Shadow(), nodes(1))
    advanced(schedule, NOW + 1, new=(facts, behind))
    shadow = advanced(schedule, NOW + 700, facts, behind)
    assert shadow.jobs[behind.job].start == NOW + 600
    assert shadow.jobs[facts.job].nodes == ()


def test_a_job_that_vanished_makes_room() -> None:
    first, second = job("a", 8), job("b", 8, arrived=NOW + 1)
    schedule = ShadowSchedule(Shadow(), nodes(1))
    advanced(schedule, NOW + 10, new=(first, second))
    shadow = advanced(schedule, NOW + 20, second, gone=("t/a",))
    assert shadow.jobs[second.job].nodes == (0, 8)
    assert first.job not in shadow.jobs


def test_the_wait_that_is_coming_is_known_before_it_is_over() -> None:
    jobs = tuple(job(f"j{number}", 8, arrived=NOW + number) for number in range(5))
    shadow = advanced(ShadowSchedule(Shadow(), nodes(1)), NOW + 10, new=jobs, left=10_000)
    assert shadow.worst_wait == 0
    assert shadow.coming_wait == 40_000 - 4


def test_nothing_coming_is_said_when_nobody_waits() -> None:
    facts = job("a", 8)
    shadow = advanced(ShadowSchedule(Shadow(), nodes(1)), NOW, new=(facts,))
    assert shadow.coming_wait == 0


def test_a_quiet_cycle_returns_the_same_value() -> None:
    facts = job("a", 8)
    schedule = ShadowSchedule(Shadow(), nodes(1))
    shadow = advanced(schedule, NOW, new=(facts,))
    assert advanced(schedule, NOW + 15, facts) is shadow


def test_the_working_form_is_the_same_whether_kept_or_made_again() -> None:
    jobs = [job(f"j{n}", 1 + n % 9, arrived=NOW + 100 * n, limit=3600 * (1 + n % 5))
            for n in range(40)]  # fmt: skip
    kept = ShadowSchedule(Shadow(), nodes(2))
    value = Shadow()
    for step, facts in enumerate(jobs):
        known = tuple(jobs[:step])
        now = NOW + 100 * step
        again = ShadowSchedule(value, kept.nodes)
        value = advanced(kept, now, *known, new=(facts,), left=700 + 61 * (step % 7))
        other = advanced(again, now, *known, new=(facts,), left=700 + 61 * (step % 7))
        assert other == value


def test_a_cluster_that_lost_a_node_sends_its_shadow_jobs_back_to_wait() -> None:
    first, second = job("a", 8), job("b", 8)
    shadow = advanced(ShadowSchedule(Shadow(), nodes(2)), NOW, new=(first, second))
    smaller = Nodes(
        names=("n01",), sizes=(8,), pool=(0,), pools=("a",), rack=(0,), node=(0,)
    )  # fmt: skip
    schedule = ShadowSchedule(shadow, smaller)
    assert sorted(bool(each.nodes) for each in schedule.jobs.values()) == [False, True]
