"""The machine's own GPUs stand in for conf's devices where conf says discover."""

import io

import pytest

from reconciler.devices.readings import DeviceSurvey
from reconciler.domain.cluster import Cluster, Device, DeviceKind, Node, NodeState
from reconciler.domain.policy import Policy
from reconciler.domain.units import DeviceId, Instant, NodeName
from reconciler.engine.logging import Log
from reconciler.engine.machine import Machine
from reconciler.errors import BackendError
from reconciler.specs.platform import LauncherSettings, Platform

GPU = Device(id=DeviceId("GPU-1"), kind=DeviceKind.GPU, type="H200", memory_gib=139.0)
NODE = NodeName("node-1")


class Gpus:
    """Answers each survey with the next of ``answers``, the last for ever."""

    def __init__(self, *answers: DeviceSurvey) -> None:
        self.answers = list(answers)
        self.asked = 0

    def survey(self) -> DeviceSurvey:
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def platform(*, discovers: bool, nodes: int = 1) -> Platform:
    made = tuple(Node(name=NodeName(f"node-{n + 1}"), rack="r", devices=()) for n in range(nodes))
    return Platform(
        cluster=Cluster(id="lab", nodes=made),
        discovers_devices=discovers,
        teams={},
        policy=Policy(),
        launcher=LauncherSettings(kind="local", runs_dir="runs"),
    )


def machine(*answers: DeviceSurvey) -> tuple[Machine, Gpus, io.StringIO]:
    gpus, written = Gpus(*answers), io.StringIO()
    return Machine(gpus, Log(lambda: Instant(0), written)), gpus, written


def test_gpus_replace_the_devices_of_the_only_node() -> None:
    made, _, _ = machine(DeviceSurvey(devices=(GPU,)))

    assert made.look(platform(discovers=True)).devices == {NODE: (GPU,)}


def test_a_machine_without_gpus_keeps_what_conf_declares() -> None:
    made, _, _ = machine(DeviceSurvey(devices=()))
    found = made.look(platform(discovers=True))

    assert (found.devices, found.node_states) == ({}, {})


def test_nothing_is_asked_where_conf_declares_the_devices_or_several_nodes() -> None:
    made, gpus, _ = machine(DeviceSurvey(devices=(GPU,)))
    made.look(platform(discovers=False))
    made.look(platform(discovers=True, nodes=2))

    assert gpus.asked == 0


def test_a_silent_gpu_cordons_the_node_and_is_said_once() -> None:
    sick = DeviceSurvey(devices=(GPU,), state=NodeState.CORDONED, message="GPU-1 is silent")
    made, _, written = machine(sick, sick, DeviceSurvey(devices=(GPU,)))
    states = [made.look(platform(discovers=True)).node_states for _ in range(3)]

    assert states == [{NODE: NodeState.CORDONED}, {NODE: NodeState.CORDONED}, {}]
    assert written.getvalue().count("GPU-1 is silent") == 1
    assert "all well again" in written.getvalue()


def test_gpus_that_vanish_altogether_do_not_turn_into_cpu_slots() -> None:
    made, _, _ = machine(DeviceSurvey(devices=(GPU,)), DeviceSurvey(devices=()))
    made.look(platform(discovers=True))

    with pytest.raises(BackendError, match="cannot be read"):
        made.look(platform(discovers=True))


def test_a_driver_that_does_not_answer_at_the_start_is_an_error() -> None:
    hung = DeviceSurvey(devices=(), state=NodeState.CORDONED, message="the driver hangs")
    made, _, _ = machine(hung)

    with pytest.raises(BackendError, match="the driver hangs"):
        made.look(platform(discovers=True))
