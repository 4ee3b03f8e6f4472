"""What stands for devices on this machine: its GPUs, or CPU slots where it has none."""

from typing import Protocol

from reconciler.devices.cpu_slots import SLOTS, CpuSlots
from reconciler.devices.nvml import NvmlSource
from reconciler.devices.readings import DeviceSurvey
from reconciler.domain.cluster import Device, NodeState
from reconciler.errors import BackendError


class SurveyedSource(Protocol):
    """A ``ports.DeviceSource`` that also says how its devices are."""

    def devices(self) -> tuple[Device, ...]:
        """Return the devices, sorted by id."""
        ...

    def survey(self) -> DeviceSurvey:
        """Return the devices with the state they leave the node in, and their readings."""
        ...


def discover(*, cpu_slots: int = SLOTS, nvml: NvmlSource | None = None) -> SurveyedSource:
    """Return the source to ask from now on; the choice is made once.

    Raises ``BackendError`` where the driver is there and does not answer: a machine whose GPUs
    hang must not turn into one with CPU slots.
    """
    gpus = nvml if nvml is not None else NvmlSource()
    first = gpus.survey()
    if first.devices:
        return gpus
    if first.state is not NodeState.READY:
        raise BackendError(f"the GPUs of this machine cannot be read: {first.message}")
    return CpuSlots(cpu_slots)
