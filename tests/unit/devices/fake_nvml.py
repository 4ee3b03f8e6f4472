"""A fake of the ``pynvml`` module: cards whose every answer can be missing, odd, or a hang."""

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

GIB = 2**30


class NVMLError(Exception):
    """As in pynvml: carries the library's code."""

    def __init__(self, value: int, words: str = "Not Supported") -> None:
        super().__init__(words)
        self.value = value


NOT_SUPPORTED = NVMLError(3, "Not Supported")
GPU_IS_LOST = NVMLError(15, "GPU is lost")
NOT_LOADED = NVMLError(9, "Driver Not Loaded")
MISMATCH = NVMLError(18, "Driver/library version mismatch")


@dataclass
class Card:
    """What one card answers; an exception as a value is raised, a lock is waited for."""

    uuid: Any
    name: Any = "NVIDIA A100-SXM4-80GB"
    total: Any = 80 * GIB
    reserved: Any = int(0.85 * GIB)
    used: Any = 8 * GIB
    temperature: Any = 61
    milliwatts: Any = 250_500
    limit: Any = 400_000
    utilisation: Any = 97
    throttle: Any = 0
    mig: Any = NOT_SUPPORTED
    bus_id: Any = "00000000:07:00.0"
    links: tuple[str, ...] = ()
    """Bus ids at the far ends."""


@dataclass
class FakeNvml:
    cards: list[Card]
    init: Exception | None = None
    count: Exception | None = None
    inits: int = 0
    asked: list[str] = field(default_factory=list)
    NVMLError: type[Exception] = NVMLError
    NVML_TEMPERATURE_GPU: int = 0
    nvmlMemory_v2: int = 2  # noqa: N815 - the library's spelling

    def nvmlInit(self) -> None:  # noqa: N802
        self.inits += 1
        if self.init is not None:
            raise self.init

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        if self.count is not None:
            raise self.count
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Card:  # noqa: N802
        return self.cards[index]

    def nvmlDeviceGetUUID(self, card: Card) -> Any:  # noqa: N802
        return said(card.uuid)

    def nvmlDeviceGetName(self, card: Card) -> Any:  # noqa: N802
        self.asked.append(str(card.uuid))
        return said(card.name)

    def nvmlDeviceGetMemoryInfo(self, card: Card, version: int | None = None) -> Any:  # noqa: N802
        found = SimpleNamespace(total=said(card.total), used=card.used)
        if version is not None:
            found.reserved = card.reserved
        return found

    def nvmlDeviceGetTemperature(self, card: Card, sensor: int) -> Any:  # noqa: N802
        return said(card.temperature)

    def nvmlDeviceGetPowerUsage(self, card: Card) -> Any:  # noqa: N802
        return said(card.milliwatts)

    def nvmlDeviceGetEnforcedPowerLimit(self, card: Card) -> Any:  # noqa: N802
        return said(card.limit)

    def nvmlDeviceGetUtilizationRates(self, card: Card) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=said(card.utilisation))

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, card: Card) -> Any:  # noqa: N802
        return said(card.throttle)

    def nvmlDeviceGetMigMode(self, card: Card) -> Any:  # noqa: N802
        return said(card.mig)

    def nvmlDeviceGetPciInfo(self, card: Card) -> Any:  # noqa: N802
        return SimpleNamespace(busId=said(card.bus_id))

    def nvmlDeviceGetNvLinkState(self, card: Card, link: int) -> int:  # noqa: N802
        if link >= max(len(card.links), 1):
            raise NOT_SUPPORTED
        return int(bool(card.links))

    def nvmlDeviceGetNvLinkRemotePciInfo(self, card: Card, link: int) -> Any:  # noqa: N802
        return SimpleNamespace(busId=card.links[link])


def said(value: Any) -> Any:
    if isinstance(value, Exception):
        raise value
    if isinstance(value, threading.Event):
        value.wait(60)
        raise GPU_IS_LOST
    return value
