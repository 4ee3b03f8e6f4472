"""Which GPUs does this machine have, and how are they?  Asked of NVIDIA's own library.

Rules kept: a machine without the driver has no GPUs, quietly.  Every field is optional.  A GPU
that vanishes or hangs does not stop the others; it stays listed, and makes the node suspect
until it answers again.  No poll takes longer than its time limit.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from reconciler.devices.gpu_types import gpu_type
from reconciler.devices.islands import islands
from reconciler.devices.readings import GIB, DeviceSurvey, GpuReading, amount, text
from reconciler.devices.timed_calls import Answer, TimedCalls
from reconciler.domain.cluster import Device, DeviceKind, NodeState
from reconciler.domain.units import DeviceId

TIMEOUT_S = 5.0
MOST_LINKS = 18
"""NVLinks a GPU can have (H100, H200, B200)."""

_ENUMERATE = "enumerate"
_NO_DRIVER = (9, 12)
"""NVML_ERROR_DRIVER_NOT_LOADED and NVML_ERROR_LIBRARY_NOT_FOUND."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Card:
    """What one GPU answered."""

    device: Device | None
    """None: too little is known to offer it (no memory size, or cut into MIG slices)."""
    reading: GpuReading
    bus_id: str = ""
    links: frozenset[str] = frozenset()
    note: str = ""
    """Why it is not offered, for people; no fault of the machine."""


class NvmlSource:
    """A ``DeviceSource`` over NVML.  ``library`` is the ``pynvml`` module, or a fake of it."""

    def __init__(self, library: Any = None, *, timeout_s: float = TIMEOUT_S) -> None:
        self._library = library if library is not None else importlib.import_module("pynvml")
        self._timeout_s = timeout_s
        self._calls = TimedCalls()
        self._is_ready = False
        self._known: dict[DeviceId, _Card] = {}

    def devices(self) -> tuple[Device, ...]:
        """Return the GPUs, sorted by UUID; empty where there is no NVIDIA driver."""
        return self.survey().devices

    def survey(self) -> DeviceSurvey:
        """Look once at every GPU, within the time limit."""
        found = self._calls.ask({_ENUMERATE: self._handles}, self._timeout_s)[_ENUMERATE]
        if found.value is None:
            # After a driver upgrade the library wants to be initialised anew.
            self._is_ready = False
            return self._joined({}, self._why_silent(found))
        handles, nameless = found.value
        calls = {uuid: self._reader(uuid, handle) for uuid, handle in handles.items()}
        answers = self._calls.ask(calls, self._timeout_s)
        cards = {DeviceId(uuid): a.value for uuid, a in answers.items() if a.value is not None}
        silent = sorted(({DeviceId(uuid) for uuid in answers} | set(self._known)) - set(cards))
        faults = [f"{uuid} does not answer" for uuid in silent]
        if nameless and not silent:
            faults.append(f"{nameless} GPU(s) do not say their UUID")
        return self._joined(cards, faults)

    def _joined(self, cards: dict[DeviceId, _Card], faults: list[str]) -> DeviceSurvey:
        """Join what answered with what is known from before."""
        for uuid, card in cards.items():
            if card.device is not None:
                self._known[uuid] = card
        places = islands(
            {uuid: card.bus_id for uuid, card in self._known.items()},
            {uuid: card.links for uuid, card in self._known.items()},
        )
        devices = tuple(
            replace(card.device, island=places[uuid])
            for uuid, card in sorted(self._known.items())
            if card.device is not None
        )
        notes = [card.note for _, card in sorted(cards.items()) if card.note]
        return DeviceSurvey(
            devices=devices,
            state=NodeState.CORDONED if faults else NodeState.READY,
            message="; ".join(faults + notes),
            readings=tuple(card.reading for _, card in sorted(cards.items())),
        )

    def _why_silent(self, found: Answer[Any]) -> list[str]:
        """Return the fault of a library that lists nothing; none where there is no driver."""
        if found.hangs:
            return [f"NVML does not answer within {self._timeout_s:g} s"]
        if not self._known and getattr(found.error, "value", None) in _NO_DRIVER:
            return []
        return [f"NVML fails: {_words(found.error)}"]

    def _handles(self) -> tuple[dict[str, Any], int]:
        """Return the handle of every GPU that says its UUID, and how many do not."""
        if not self._is_ready:
            self._library.nvmlInit()
            self._is_ready = True
        handles = {}
        count = self._library.nvmlDeviceGetCount()
        for index in range(count):
            handle = self._try("nvmlDeviceGetHandleByIndex", index)
            if handle is not None and (uuid := text(self._try("nvmlDeviceGetUUID", handle))):
                handles[uuid] = handle
        return handles, count - len(handles)

    def _reader(self, uuid: str, handle: Any) -> Callable[[], _Card]:
        return lambda: self._read(DeviceId(uuid), handle)

    def _read(self, uuid: DeviceId, handle: Any) -> _Card:
        total_gib, used_gib, reserved_gib = self._memory(handle)
        name = text(self._try("nvmlDeviceGetName", handle))
        reading = self._reading(uuid, handle, used_gib)
        mig = self._try("nvmlDeviceGetMigMode", handle)
        if isinstance(mig, list | tuple) and mig and mig[0] == 1:
            note = f"{uuid} is cut into MIG slices, which are not offered"
            return _Card(device=None, reading=reading, note=note)
        if not total_gib or not name:
            what = "memory" if name else "name"
            note = "" if uuid in self._known else f"{uuid} does not say its {what}: not offered"
            return _Card(device=None, reading=reading, note=note)
        device = Device(
            id=uuid,
            kind=DeviceKind.GPU,
            type=gpu_type(name, total_gib),
            memory_gib=round(total_gib - reserved_gib, 2),
        )
        bus_id = text(getattr(self._try("nvmlDeviceGetPciInfo", handle), "busId", ""))
        return _Card(device=device, reading=reading, bus_id=bus_id, links=self._links(handle))

    def _memory(self, handle: Any) -> tuple[float, float | None, float]:
        """Return total, used and reserved GiB.  Usable is total less what the driver keeps."""
        version = getattr(self._library, "nvmlMemory_v2", None)
        found = self._try("nvmlDeviceGetMemoryInfo", handle, version) if version else None
        found = found or self._try("nvmlDeviceGetMemoryInfo", handle)
        total = amount(getattr(found, "total", None), "B") or 0.0
        used = amount(getattr(found, "used", None), "B")
        reserved = amount(getattr(found, "reserved", None), "B") or 0.0
        return total / GIB, None if used is None else used / GIB, reserved / GIB

    def _reading(self, uuid: DeviceId, handle: Any, used_gib: float | None) -> GpuReading:
        sensor = getattr(self._library, "NVML_TEMPERATURE_GPU", 0)
        milliwatts = amount(self._try("nvmlDeviceGetPowerUsage", handle))
        limit = amount(self._try("nvmlDeviceGetEnforcedPowerLimit", handle))
        rates = self._try("nvmlDeviceGetUtilizationRates", handle)
        percent = amount(getattr(rates, "gpu", None), "%")
        bits = amount(self._try("nvmlDeviceGetCurrentClocksThrottleReasons", handle))
        return GpuReading(
            device=uuid,
            temperature_c=amount(self._try("nvmlDeviceGetTemperature", handle, sensor)),
            power_w=None if milliwatts is None else milliwatts / 1000,
            power_limit_w=None if limit is None else limit / 1000,
            utilisation=None if percent is None or percent > 100 else percent / 100,
            memory_used_gib=used_gib,
            throttle_bits=None if bits is None else int(bits),
        )

    def _links(self, handle: Any) -> frozenset[str]:
        """Return the bus ids at the far ends of the active NVLinks."""
        ends = set()
        for link in range(MOST_LINKS):
            if self._try("nvmlDeviceGetNvLinkState", handle, link) == 1:
                remote = self._try("nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
                ends.add(text(getattr(remote, "busId", "")))
        return frozenset(end for end in ends if end)

    def _try(self, function: str, *arguments: Any) -> Any:
        """Return what the library answers; None where it cannot, or is too old to be asked."""
        try:
            return getattr(self._library, function)(*arguments)
        except (self._library.NVMLError, AttributeError, TypeError, ValueError, OSError):
            return None


def _words(error: Exception | None) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
