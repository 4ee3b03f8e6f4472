from typing import Any

import pytest

from reconciler.planning.deletion import Pruning, is_due, pruning
from reconciler.planning.standing import standing, standings
from tests.builders import a_snapshot
from tests.values import NOW, a_job_id, a_policy


def verdict(**given: Any) -> Pruning:
    snapshot = a_snapshot(**given)
    return pruning(snapshot, standings(snapshot))


def fleet(there: int, gone: int, team: str = "research") -> dict[str, dict[str, Any]]:
    """Return pending jobs of one team, some with their file gone."""
    files = ["there"] * there + ["gone"] * gone
    return {
        f"{team}/j{i:02d}": {"reason": "gpus_busy", "file": "gone" if f == "gone" else "valid"}
        for i, f in enumerate(files)
    }


@pytest.mark.parametrize(
    ("there", "gone", "blocks"),
    [(10, 5, False), (10, 6, True), (64, 7, False), (64, 8, True), (94, 10, False), (94, 11, True)],
)
def test_the_brake_is_five_jobs_or_a_tenth(there: int, gone: int, blocks: bool) -> None:
    assert (len(verdict(pending=fleet(there, gone)).blocked) == gone) is blocks


def test_a_whole_team_is_too_much() -> None:
    both = fleet(20, 0, "vision") | fleet(0, 2)

    assert len(verdict(pending=both).blocked) == 2


def test_the_only_job_of_a_team_may_go() -> None:
    assert verdict(pending=fleet(20, 0, "vision") | fleet(0, 1)).blocked == frozenset()


def test_everything_is_too_much_even_over_teams() -> None:
    assert len(verdict(pending=fleet(0, 1, "vision") | fleet(0, 1)).blocked) == 2


def test_the_only_job_there_is_may_go() -> None:
    assert verdict(pending=fleet(0, 1)).blocked == frozenset()


def test_files_added_elsewhere_do_not_hide_a_deletion() -> None:
    """Six left and six came: the count of files is the same, the set is not."""
    came = {f"research/new{i}": {} for i in range(6)}

    assert len(verdict(pending=fleet(10, 6) | came).blocked) == 6


def test_finished_and_invalid_jobs_are_not_at_stake() -> None:
    others = {
        f"research/o{i}": {"phase": phase, "file": "gone"}
        for i, phase in enumerate(("succeeded", "failed", "invalid") * 4)
    }

    assert verdict(pending=fleet(1, 0), others=others).blocked == frozenset()


def test_jobs_already_being_cancelled_do_not_count_again() -> None:
    leaving = {
        f"research/l{i}": {"file": "gone", "cause": "cancel", "reason": "file_deleted"}
        for i in range(5)
    }

    assert verdict(nodes={"n1": 8}, running=leaving, pending=fleet(9, 2)).blocked == frozenset()


def test_an_admin_allows_as_many_as_are_gone_and_no_fewer() -> None:
    assert len(verdict(pending=fleet(10, 6), allowed_prune=6).allowed) == 6
    assert len(verdict(pending=fleet(10, 6), allowed_prune=5).blocked) == 6


def test_an_allowance_once_recorded_holds() -> None:
    gone = {name: job | {"prune_allowed": True} for name, job in fleet(0, 6).items()}

    found = verdict(pending=gone)

    assert (len(found.allowed), len(found.blocked)) == (6, 0)


def test_a_rewritten_main_deletes_nothing() -> None:
    assert verdict(pending=fleet(10, 6), rewritten=True) == Pruning()


@pytest.mark.parametrize(
    ("absent_for", "grace", "due"),
    [("0s", "0s", False), ("1s", "0s", True), ("9m", "10m", False), ("10m", "10m", True)],
)
def test_a_deletion_takes_a_second_look_and_the_grace(
    absent_for: str, grace: str, due: bool
) -> None:
    snapshot = a_snapshot(pending={"job": {"file": "gone", "absent_for": absent_for}})
    policy = a_policy(deletion={"grace": grace}).deletion

    assert is_due(standing(snapshot, a_job_id("job")), now=NOW, policy=policy) is due
