"""Values to JSON and back."""

import os
import subprocess
import sys

import pytest

from reconciler.domain.attempt import Observation, ObservedState, Outcome
from reconciler.domain.cluster import Device, DeviceKind, Node, NodeState
from reconciler.domain.job import PriorityClass
from reconciler.domain.policy import Policy, PreemptionPolicy
from reconciler.domain.units import AttemptId, DeviceId, Instant, NodeName
from reconciler.snapshots.plain import digest_of, plain, restore

SEEN = Observation(
    attempt=AttemptId("t.j-g1-a1-0123456789"),
    state=ObservedState.ENDED,
    started_at=Instant(5),
    outcome=Outcome.STOPPED,
    step=7,
)
NODE = Node(
    name=NodeName("n1"),
    rack="r1",
    devices=(Device(id=DeviceId("cpu-0"), kind=DeviceKind.CPU_SLOT, type="cpu", memory_gib=2.5),),
    state=NodeState.DRAINING,
)


@pytest.mark.parametrize("value", [SEEN, NODE, Policy(), PreemptionPolicy()])
def test_a_value_comes_back_as_it_was(value: object) -> None:
    assert restore(type(value), plain(value)) == value


def test_a_field_that_was_not_written_takes_its_default() -> None:
    data = plain(SEEN)
    del data["message"]

    assert restore(Observation, data).message == ""


def test_a_field_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="has no field colour"):
        restore(Observation, {**plain(SEEN), "colour": "red"})


def test_text_where_a_number_is_wanted_is_refused() -> None:
    with pytest.raises(ValueError, match="expected"):
        restore(Observation, {**plain(SEEN), "step": "7"})


def test_keys_that_are_enums_are_written_as_their_values() -> None:
    assert plain({PriorityClass.P0: (PriorityClass.P1,)}) == {"0": [1]}


def test_a_value_without_a_spelling_is_refused() -> None:
    with pytest.raises(TypeError, match="no JSON spelling for object"):
        plain(object())


def test_the_digest_does_not_depend_on_the_order_of_a_mapping_or_a_set() -> None:
    assert digest_of({"a": 1, "b": {2, 1}}) == digest_of({"b": {1, 2}, "a": 1})


def test_the_digest_is_the_same_in_a_process_with_another_hash_seed() -> None:
    code = (
        "from reconciler.snapshots.plain import digest_of;"
        "print(digest_of({'s': frozenset({'x', 'y', 'zebra', 'w'}), 'k': {'b': 1, 'a': 2}}))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1
