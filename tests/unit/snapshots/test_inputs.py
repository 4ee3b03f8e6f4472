"""The recorded inputs of a decision: deltas, wholes, parts, broken chains."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from reconciler.domain.attempt import Observation, ObservedState
from reconciler.domain.cluster import Device, DeviceKind, NodeState
from reconciler.domain.plan import PlannerState
from reconciler.domain.units import AttemptId, CommitId, DeviceId, Instant, JobId, NodeName
from reconciler.domain.value_state import FirmPlace, Shadow, ShadowJob, ValueState
from reconciler.errors import GitError
from reconciler.snapshots.inputs import (
    INPUTS_FILE,
    PART_BYTES,
    WHOLE_EVERY,
    Inputs,
    Recorded,
    decode,
    encode,
    part_path,
)

FIRST = Inputs(
    desired=CommitId("c" * 40),
    now=Instant(1000),
    looked_at=Instant(999),
    versions={"headway": "1"},
)

FIRM = FirmPlace(since=7, nodes=(1, 2))


def seen(number: int, step: int = 0) -> Observation:
    return Observation(
        attempt=AttemptId(f"t.j{number}-g1-a1-0123456789"), state=ObservedState.RUNNING, step=step
    )


def with_observations(inputs: Inputs, *observations: Observation) -> Inputs:
    return replace(inputs, observations={each.attempt: each for each in observations})


class Branch:
    """Commits of inputs files, newest first, as a reader meets them."""

    def __init__(self) -> None:
        self.commits: list[dict[str, bytes]] = []
        self.last: Recorded | None = None

    def decide(self, inputs: Inputs) -> Mapping[str, bytes | None]:
        files, self.last = encode(inputs, self.last)
        tree = dict(self.commits[0]) if self.commits else {}
        for path, data in files.items():
            if data is None:
                del tree[path]
            else:
                tree[path] = data
        self.commits.insert(0, tree)
        return files

    def commit_something_else(self) -> None:
        self.commits.insert(0, self.commits[0])


def test_inputs_come_back_from_one_commit() -> None:
    branch = Branch()
    inputs = replace(
        with_observations(FIRST, seen(1), seen(2)),
        node_states={NodeName("n1"): NodeState.DOWN},
        devices={
            NodeName("n1"): (
                Device(id=DeviceId("cpu-0"), kind=DeviceKind.CPU_SLOT, type="cpu", memory_gib=1),
            )
        },
        is_rewritten=True,
        allowed_prune=3,
        previous_look_at=Instant(900),
        cursor=CommitId("b" * 40),
    )
    branch.decide(inputs)

    assert decode(branch.commits).inputs() == inputs


def test_the_second_commit_holds_only_what_changed() -> None:
    branch = Branch()
    branch.decide(with_observations(FIRST, seen(1), seen(2)))
    second = replace(with_observations(FIRST, seen(1), seen(3)), now=Instant(1015))
    files = branch.decide(second)

    document = json.loads(files[INPUTS_FILE] or b"")
    assert sorted(document["set"]) == ["now", f"observations/{seen(3).attempt}"]
    assert document["drop"] == [f"observations/{seen(2).attempt}"]
    assert decode(branch.commits).inputs() == second


def test_a_commit_between_two_decisions_does_not_break_the_chain() -> None:
    branch = Branch()
    branch.decide(FIRST)
    branch.commit_something_else()
    branch.decide(replace(FIRST, now=Instant(1015)))
    branch.commit_something_else()
    third = replace(FIRST, now=Instant(1030))
    branch.decide(third)
    branch.commit_something_else()

    assert decode(branch.commits).inputs() == third


def test_every_256th_decision_is_whole_and_a_reader_stops_there() -> None:
    branch = Branch()
    for number in range(WHOLE_EVERY + 3):
        branch.decide(with_observations(replace(FIRST, now=Instant(number)), seen(1, number)))

    read = []

    def history() -> Iterator[Mapping[str, bytes]]:
        for files in branch.commits:
            read.append(files)
            yield files

    found = decode(history())
    assert found.inputs().now == WHOLE_EVERY + 2
    assert found.sequence == 2
    assert len(read) == 3


def test_a_large_change_is_split_into_parts_and_the_parts_go_away_again() -> None:
    branch = Branch()
    many = with_observations(FIRST, *(seen(number) for number in range(1000)))
    files = branch.decide(many)

    assert part_path(2) in files
    assert all(len(data) <= PART_BYTES + 1024 for data in files.values() if data)
    assert decode(branch.commits).inputs() == many

    after = branch.decide(replace(many, now=Instant(1015)))
    assert after[part_path(1)] is None
    assert decode(branch.commits).inputs().now == 1015


def test_what_was_decoded_can_be_continued() -> None:
    branch = Branch()
    branch.decide(FIRST)
    branch.decide(with_observations(FIRST, seen(1)))
    branch.last = decode(branch.commits)
    third = with_observations(replace(FIRST, now=Instant(1015)), seen(1, 5))
    branch.decide(third)

    assert decode(branch.commits).inputs() == third


def test_a_cut_history_is_refused() -> None:
    branch = Branch()
    branch.decide(FIRST)
    branch.decide(replace(FIRST, now=Instant(1015)))

    with pytest.raises(GitError, match="do not reach back to a whole one"):
        decode(branch.commits[:1])


def test_a_missing_part_is_refused() -> None:
    branch = Branch()
    branch.decide(with_observations(FIRST, *(seen(number) for number in range(1000))))
    del branch.commits[0][part_path(1)]

    with pytest.raises(GitError, match=r"0001\.json is missing"):
        decode(branch.commits)


def test_a_later_version_is_refused() -> None:
    with pytest.raises(GitError, match="has version 2"):
        decode([{INPUTS_FILE: b'{"version": 2}'}])


def test_equal_inputs_are_equal_bytes_whatever_the_order_they_were_seen_in() -> None:
    one, _ = encode(with_observations(FIRST, seen(1), seen(2)), None)
    other, _ = encode(with_observations(FIRST, seen(2), seen(1)), None)

    assert one == other


def remembering(waits: int) -> PlannerState:
    jobs = {
        JobId(f"t/j{number}"): ShadowJob(arrived=number, gpus=1, pools=-1, limit=60)
        for number in range(waits)
    }
    return PlannerState(value=ValueState(shadow=Shadow(jobs=jobs), firm={JobId("t/f"): FIRM}))


def test_a_planner_state_is_recorded_entry_by_entry() -> None:
    branch = Branch()
    before = replace(FIRST, planner_state=remembering(500), next_planner_state=remembering(500))
    branch.decide(before)
    files = branch.decide(replace(before, next_planner_state=remembering(501)))
    written = files[INPUTS_FILE]
    assert written is not None
    assert len(written) < 1000
    assert decode(branch.commits).inputs().next_planner_state == remembering(501)
    assert decode(branch.commits).inputs().planner_state == remembering(500)


def test_reading_a_planner_state_leaves_what_was_recorded_alone() -> None:
    _, recorded = encode(replace(FIRST, planner_state=remembering(3)), None)
    facts = json.dumps(recorded.facts, sort_keys=True)
    assert recorded.inputs().planner_state == remembering(3)
    assert json.dumps(recorded.facts, sort_keys=True) == facts
