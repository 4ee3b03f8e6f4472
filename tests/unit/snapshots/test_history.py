"""What finished runs taught lies in one small file that comes back as it was written."""

import pytest

from reconciler.domain.spread import PlacementClass
from reconciler.errors import GitError
from reconciler.snapshots.history import (
    BYTES_KEPT,
    LIKE_RUNS_KEPT,
    RUNS_KEPT,
    history_from_json,
    history_to_json,
    with_runs,
)
from reconciler.snapshots.plain import canonical_text, plain
from tests.unit.snapshots.measured import a_run, some_facts


def test_runs_come_back_as_they_were_written() -> None:
    runs = (
        a_run(1),
        a_run(2, outcome="stopped", peak_bytes=None, wall_s=12.5, is_cpu=True),
        *(a_run(3 + number, placement=each) for number, each in enumerate(PlacementClass)),
    )

    assert history_from_json(history_to_json(runs)) == runs
    assert history_from_json(None) == ()
    assert history_from_json(history_to_json(())) == ()


def test_a_file_of_version_1_is_read_and_written_as_the_present_one() -> None:
    run = plain(a_run(1))
    del run["placement"]
    text = canonical_text({"runs": [run], "version": 1}).encode()

    assert history_from_json(text) == (a_run(1),)
    assert history_from_json(history_to_json(history_from_json(text))) == (a_run(1),)


def test_runs_alike_are_kept_in_each_placement_class() -> None:
    together = [a_run(number, placement=PlacementClass.TOGETHER) for number in range(20)]
    apart = [a_run(number, placement=PlacementClass.RACKS) for number in range(20, 23)]

    kept = with_runs(apart, together)

    assert [run.placement for run in kept].count(PlacementClass.RACKS) == len(apart)
    assert len(kept) == LIKE_RUNS_KEPT + len(apart)


def test_a_new_run_is_one_new_line() -> None:
    before = history_to_json([a_run(1)]).decode().splitlines()
    after = history_to_json([a_run(1), a_run(2)]).decode().splitlines()

    assert len(after) == len(before) + 1


def test_an_attempt_that_is_recorded_twice_counts_once_and_order_does_not_matter() -> None:
    runs = [a_run(number) for number in (3, 1, 2)]

    kept = with_runs(runs, [a_run(1)])

    assert [run.ended_at for run in kept] == [1001, 1002, 1003]
    assert kept == with_runs([], reversed(runs))


def test_of_runs_alike_only_the_newest_few_stay() -> None:
    other = a_run(1, facts=some_facts(task="dpo"))
    many = [a_run(number) for number in range(2, 100)]

    kept = with_runs([other], many)

    assert len(kept) == 1 + LIKE_RUNS_KEPT
    assert kept[0] == other
    assert kept[-1].ended_at == 1099


def test_the_file_stays_small_whatever_ends() -> None:
    runs = [a_run(number, facts=some_facts(model=f"model-{number}" * 20)) for number in range(1000)]

    kept = with_runs([], runs)

    assert len(kept) <= RUNS_KEPT
    assert len(history_to_json(kept)) <= BYTES_KEPT + 100
    assert kept[-1] == runs[-1]


@pytest.mark.parametrize(
    "text", [b"", b"[]", b'{"version":3,"runs":[]}', b'{"version":1,"runs":[{"attempt":"x"}]}']
)
def test_a_file_nobody_here_writes_is_refused(text: bytes) -> None:
    with pytest.raises(GitError, match=r"history\.json"):
        history_from_json(text)
