"""Composition cannot take more time or memory than it is given, and one bad document is one."""

import pytest

from reconciler.specs.bounded import WALL, BoundedComposer
from reconciler.specs.composed import ComposeError, GroupFile

GROUPS = {"model/small.yaml": GroupFile({"model": "s"}, "train")}
FINE = {"defaults": [{"/model": "small"}, "_self_"], "kind": "Job"}
DOUBLING = {"a0": "x" * 100} | {f"a{n}": f"${{a{n - 1}}}" * 4 for n in range(1, 20)}
"""4^19 letters: allowed one by one, and more than any memory together."""


def composer(wall_s: float = 60.0) -> BoundedComposer:
    return BoundedComposer({"jobs": lambda: GROUPS}, wall_s=wall_s)


def test_a_document_that_doubles_is_refused_and_the_others_go_on() -> None:
    with composer() as bounded:
        before = bounded.compose("jobs", {}, FINE)
        with pytest.raises(ComposeError) as said:
            bounded.compose("jobs", {}, DOUBLING)
        after = bounded.compose("jobs", {}, FINE)

    assert said.value.code == "HW037"
    assert said.value.about != WALL, "the verdict would not be kept"
    assert before.document == after.document == {"train": {"model": "s"}, "kind": "Job"}


def test_a_document_that_takes_too_long_is_stopped() -> None:
    with composer(wall_s=0.01) as bounded, pytest.raises(ComposeError) as said:
        bounded.compose("jobs", {}, DOUBLING)

    assert (said.value.code, said.value.about) == ("HW037", WALL)


def test_a_number_that_is_none_is_refused_and_not_a_crash() -> None:
    with composer() as bounded:
        for value in ("nan", "inf"):
            with pytest.raises(ComposeError) as said:
                bounded.compose("jobs", {"x": None}, FINE, (f"x={value}",))
            assert said.value.code == "HW016"


def test_the_child_sees_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_TOKEN", "s3cret")
    with composer() as bounded, pytest.raises(ComposeError) as said:
        bounded.compose("jobs", {}, {"x": "${oc.env:HEADWAY_TOKEN}"})

    assert said.value.code == "HW036"
    assert "s3cret" not in str(said.value)


def test_the_child_ends_with_the_composer() -> None:
    bounded = composer()
    bounded.compose("jobs", {}, FINE)
    child = bounded._child
    assert child is not None

    bounded.close()

    assert child.poll() is not None


def test_a_child_that_died_is_replaced() -> None:
    with composer() as bounded:
        bounded.compose("jobs", {}, FINE)
        child = bounded._child
        assert child is not None
        child.kill()
        child.wait()

        assert bounded.compose("jobs", {}, FINE).document["kind"] == "Job"
