"""Which devices does this machine bring, and can its node be used?

Where conf says ``discover``, the machine's own GPUs stand in for the devices of the cluster's
node.  A machine without GPUs keeps the devices that conf declares: CPU slots on a laptop.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from reconciler.devices.readings import DeviceSurvey
from reconciler.domain.cluster import Device, NodeState
from reconciler.domain.units import NodeName
from reconciler.engine.logging import Log
from reconciler.errors import BackendError
from reconciler.specs.platform import Platform


class GpuSource(Protocol):
    """Looks at the machine's GPUs (``reconciler.devices.nvml``)."""

    def survey(self) -> DeviceSurvey:
        """Return the devices, the state they leave the node in, and why."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one look found that conf does not say."""

    devices: Mapping[NodeName, tuple[Device, ...]] = field(default_factory=dict)
    node_states: Mapping[NodeName, NodeState] = field(default_factory=dict)


class Machine:
    """Asks for the GPUs only where conf wants them discovered."""

    def __init__(self, gpus: GpuSource, log: Log) -> None:
        self._gpus = gpus
        self._log = log
        self._said = ""
        self._had_gpus = False

    def look(self, platform: Platform) -> Found:
        """Return the devices and states to use over those of conf.

        Raises ``BackendError`` where the driver is there and does not answer: a machine whose
        GPUs hang must not turn into one with CPU slots.
        """
        nodes = platform.cluster.nodes
        if not platform.discovers_devices or len(nodes) != 1:
            return Found()
        survey = self._gpus.survey()
        self._say(survey.message)
        if not survey.devices:
            if survey.state is not NodeState.READY or self._had_gpus:
                raise BackendError(f"the GPUs of this machine cannot be read: {survey.message}")
            return Found()
        self._had_gpus = True
        states = {} if survey.state is NodeState.READY else {nodes[0].name: survey.state}
        return Found(devices={nodes[0].name: survey.devices}, node_states=states)

    def _say(self, message: str) -> None:
        if message != self._said:
            self._said = message
            self._log.event("devices", what=message or "all well again")
