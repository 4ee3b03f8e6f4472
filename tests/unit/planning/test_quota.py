from typing import Any

from reconciler.domain.units import Instant, JobId, TeamName
from reconciler.planning.quota import TeamUse, Use, peak
from reconciler.planning.topology import layout
from tests.values import a_cluster, a_team

TEAM = TeamName("research")
WHERE = layout(a_cluster({"n1": {"gpus": 4, "gpu_type": "A"}, "n2": {"gpus": 4, "gpu_type": "B"}}))
A, B = 0b00001111, 0b11110000


def use_of(quota: dict[str, int], *held: tuple[str, int, int, int]) -> TeamUse:
    use = TeamUse({TEAM: a_team(quota=quota)}, WHERE)
    for job, devices, start, end in held:
        use.add(JobId(f"research/{job}"), TEAM, devices, Instant(start), Instant(end))
    return use


def allowed(use: TeamUse, gpus: int, start: int, end: int, **more: Any) -> int:
    return use.allowed(TEAM, gpus, Instant(start), Instant(end), **more)


def test_a_team_without_a_quota_may_have_everything() -> None:
    assert allowed(use_of({}), 8, 0, 10) == A | B
    assert not use_of({}).is_bounded(TEAM)
    assert use_of({"*": 1}).is_bounded(TEAM)


def test_the_star_bounds_all_types_together() -> None:
    use = use_of({"*": 4}, ("a", 0b11, 0, 100), ("b", 0b10000, 0, 100))

    assert allowed(use, 1, 0, 10) == A | B
    assert allowed(use, 2, 0, 10) == 0


def test_a_type_bounds_that_type_alone() -> None:
    use = use_of({"A": 2}, ("a", 0b11, 0, 100))

    assert allowed(use, 1, 0, 10) == B


def test_only_what_overlaps_counts() -> None:
    use = use_of({"*": 4}, ("a", 0b1111, 0, 100))

    assert allowed(use, 4, 100, 200) == A | B
    assert allowed(use, 4, 99, 200) == 0


def test_what_is_planned_for_later_counts_from_then() -> None:
    use = use_of({"*": 4}, ("later", 0b1111, 100, 200))

    assert allowed(use, 4, 0, 100) == A | B
    assert allowed(use, 4, 0, 101) == 0


def test_two_uses_one_after_the_other_are_not_added_up() -> None:
    use = use_of({"*": 4}, ("a", 0b11, 0, 50), ("b", 0b11, 50, 100))

    assert allowed(use, 2, 0, 100) == A | B


def test_jobs_that_are_asked_to_leave_are_not_counted() -> None:
    use = use_of({"*": 4}, ("a", 0b1111, 0, 100))

    assert allowed(use, 4, 0, 10, without={JobId("research/a")}) == A | B


def test_held_says_how_many() -> None:
    use = use_of({"*": 4}, ("a", 0b10011, 0, 100))

    assert use.held(TEAM, "*", Instant(5)) == 3
    assert use.held(TEAM, "A", Instant(5)) == 2
    assert use.held(TEAM, "A", Instant(100)) == 0


def test_peak_is_the_most_at_one_instant() -> None:
    uses = [
        Use(job=JobId("x/y"), start=Instant(start), end=Instant(end), type="A", gpus=gpus)
        for start, end, gpus in ((0, 10, 2), (5, 15, 3), (10, 20, 4))
    ]

    assert peak(uses) == 7
    assert peak([]) == 0
