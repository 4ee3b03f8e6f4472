from typing import Any

from reconciler.domain.units import Seconds
from reconciler.planning.compare import Comparison, compare
from reconciler.planning.plan import plan
from tests.builders import a_snapshot

HOUR = 3600
BASE: dict[str, Any] = {
    "nodes": {"n1": 8},
    "running": {"sweep": {"gpus": 8, "ran": "1h", "estimate": "4h", "since_checkpoint": "1m"}},
    "pending": {"next": {"gpus": 8, "estimate": "1h"}},
}


def compared(before: dict[str, Any], after: dict[str, Any], **more: Any) -> Comparison:
    return compare(plan(a_snapshot(**before))[0], plan(a_snapshot(**after))[0], **more)


def with_pending(**jobs: dict[str, Any]) -> dict[str, Any]:
    return BASE | {"pending": BASE["pending"] | jobs}


def test_no_change_is_no_change() -> None:
    assert not compared(BASE, BASE)


def test_an_urgent_job_tells_whom_it_stops_and_delays() -> None:
    found = compared(BASE, with_pending(urgent={"gpus": 8, "priority": "P0", "estimate": "1h"}))

    assert found.added == ("research/urgent",)
    assert [(p.job, p.for_job) for p in found.preempted] == [("research/sweep", "research/urgent")]
    resumes = found.preempted[0].resumes
    assert resumes is not None and resumes.rests_on == ("research/next",)
    assert [shift.job for shift in found.delayed] == ["research/sweep"]
    assert found.delayed[0].start_by_s > 2 * HOUR
    assert [shift.job for shift in found.sooner] == ["research/next"]


def test_a_higher_job_that_takes_a_start_displaces_its_loser() -> None:
    before = {"nodes": {"n1": 8}, "pending": {"a": {"gpus": 8, "estimate": "1h"}}}
    after = {
        "nodes": {"n1": 8},
        "pending": before["pending"] | {"b": {"gpus": 8, "priority": "P1", "estimate": "2h"}},
    }
    found = compared(before, after)

    assert found.displaced == ("research/a",)
    assert (found.delayed[0].start_by_s, found.delayed[0].end_by_s) == (2 * HOUR, 2 * HOUR)


def test_a_removed_job_lets_others_start_sooner() -> None:
    found = compared(with_pending(first={"gpus": 8, "priority": "P1", "estimate": "2h"}), BASE)

    assert found.removed == ("research/first",)
    assert [(s.job, s.start_by_s) for s in found.sooner] == [("research/next", -2 * HOUR)]


def test_a_job_that_can_run_no_more_is_told() -> None:
    found = compared(BASE, BASE | {"pending": {"next": {"gpus": 16}}})

    assert found.without_place == ("research/next",)


def test_small_shifts_are_left_out() -> None:
    before = with_pending(last={"gpus": 8, "priority": "P4", "estimate": "1h"})
    after = with_pending(last={"gpus": 8, "priority": "P4", "estimate": "59m"})

    assert not compared(before, after, at_least_s=Seconds(120))
    assert compared(before, after, at_least_s=Seconds(60)).sooner
