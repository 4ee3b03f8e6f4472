from typing import Any

from reconciler.planning.eligibility import Bar, bar, counted, words
from reconciler.planning.shapes import Shapes
from reconciler.planning.standing import standings
from tests.builders import a_snapshot
from tests.values import NOW, a_job_id, a_spec


def bar_of(name: str = "job", **given: Any) -> Bar | None:
    snapshot = a_snapshot(**given)
    jobs = standings(snapshot)
    here = jobs[a_job_id(name)]
    assert here.status is not None and here.spec is not None
    return bar(
        here.status,
        here.spec,
        jobs=jobs,
        shapes=Shapes(snapshot.cluster, None),
        policy=snapshot.policy,
        now=snapshot.now,
    )


def test_a_plain_job_has_no_bar() -> None:
    assert bar_of(pending={"job": {}}) is None


def test_a_bar_of_dependencies_names_those_that_are_left() -> None:
    found = bar_of(
        pending={"job": {"after": ["b", "a", "done"]}, "a": {}, "b": {}},
        others={"done": {"phase": "succeeded"}},
    )

    assert found is not None
    assert (found.after, found.detail) == (
        ("research/a", "research/b"),
        "after research/a, research/b",
    )
    assert not found.is_held


def test_a_succeeded_dependency_counts_even_when_its_file_is_gone() -> None:
    done = {"phase": "succeeded", "file": "gone"}

    assert bar_of(pending={"job": {"after": ["done"]}}, others={"done": done}) is None


def test_a_failed_dependency_that_runs_again_is_waited_for() -> None:
    again = {"phase": "failed", "generation": 2, "recorded_generation": 1}
    found = bar_of(pending={"job": {"after": ["dep"]}}, others={"dep": again})

    assert found is not None
    assert (found.reason.value, found.is_held) == ("dependency_running", False)


def test_a_job_that_comes_after_itself_waits() -> None:
    found = bar_of(pending={"job": {"after": ["job"]}})

    assert found is not None and found.reason.value == "dependency_running"


def test_a_back_off_says_when_it_ends() -> None:
    found = bar_of(pending={"job": {"retry_in": "30s", "tries_used": 1}})

    assert found is not None
    assert (found.until, found.detail) == (NOW + 30, "try 2 of 3 comes after a pause")


def test_never_is_said_before_waiting() -> None:
    found = bar_of(pending={"job": {"gpus": 99, "after": ["dep"]}, "dep": {}})

    assert found is not None and found.reason.value == "never_fits"


def test_a_request_is_told_in_words() -> None:
    spec = a_spec(gpus=8, types=["A", "B"], min_memory_gib=75.5, within="rack")

    assert words(spec.gpus) == "8 GPUs of type A or B with 75.5 GiB in one rack"
    assert words(a_spec(gpus=1).gpus) == "1 GPU in one node"
    assert counted(2) == "2 GPUs"
    assert counted(2, "CPU slot") == "2 CPU slots"
