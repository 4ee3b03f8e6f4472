"""Reasons, phases and places in plain words."""

import pytest

from reconciler.cli.phrases import PHASE_STYLES, PHRASES, count, phrase, why_in_short
from reconciler.cli.places import device_noun, place
from reconciler.cli.terminal import STYLES
from reconciler.domain.cluster import Allocation, NodeShare
from reconciler.domain.reason import Reason
from reconciler.domain.status import JobPhase
from reconciler.domain.units import DeviceId, NodeName
from tests.unit.cli.sample_fleet import a_status


def an_allocation(*shares: tuple[str, tuple[str, ...]]) -> Allocation:
    return Allocation(
        shares=tuple(
            NodeShare(node=NodeName(node), devices=tuple(DeviceId(each) for each in devices))
            for node, devices in shares
        )
    )


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_phrase_in_plain_words(reason: Reason) -> None:
    assert reason in PHRASES
    assert "_" not in phrase(reason)
    assert 3 < len(phrase(reason)) <= 70


@pytest.mark.parametrize("phase", JobPhase)
def test_every_phase_has_a_style_that_exists(phase: JobPhase) -> None:
    assert PHASE_STYLES[phase] in STYLES


def test_the_reconcilers_own_detail_follows_the_phrase() -> None:
    waiting = a_status("a/b", JobPhase.PENDING, Reason.GPUS_BUSY, message="6 wanted, 3 free")
    assert why_in_short(waiting) == "waits for free GPUs: 6 wanted, 3 free"


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ((("node-1", ("gpu-0", "gpu-1", "gpu-2", "gpu-3")),), "node-1 [0-3]"),
        ((("node-1", ("gpu-0", "gpu-2", "gpu-3", "gpu-7")),), "node-1 [0,2-3,7]"),
        ((("node-1", ("gpu-10", "gpu-2", "gpu-9")),), "node-1 [2,9-10]"),
        ((("laptop", ("cpu-0",)),), "laptop [0]"),
        ((("a", ("gpu-0",)), ("b", ("gpu-1",))), "a [0], b [1]"),
        ((("a", ("GPU-5f3a1c2d-aaaa", "GPU-5f3a1c2d-bbbb")),), "a (2 GPUs)"),
        ((("a", ("GPU-5f3a1c2d-aaaa",)),), "a (1 GPU)"),
        ((("a", ("gpu-0", "cpu-1")),), "a (2 GPUs)"),
    ],
)
def test_a_place_is_said_in_few_words(
    shares: tuple[tuple[str, tuple[str, ...]], ...], words: str
) -> None:
    assert place(an_allocation(*shares)) == words


def test_no_allocation_is_no_place() -> None:
    assert place(None) == ""


def test_cpu_slots_are_not_called_gpus() -> None:
    assert device_noun([DeviceId("cpu-0"), DeviceId("cpu-1")], 2) == "CPU slots"
    assert device_noun([], 0) == "GPUs"


def test_one_is_not_many() -> None:
    assert (count(1, "job"), count(0, "job"), count(5, "job")) == ("1 job", "0 jobs", "5 jobs")
