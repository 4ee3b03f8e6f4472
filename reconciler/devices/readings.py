"""What a device tells about itself at one poll, where every field may be missing.

Drivers answer ``[N/A]``, ``ERR!``, ``[Not Supported]`` or an all-ones sentinel for what they
cannot read.  Rule kept: such a value is absent (None), never 0 and never an exception.
"""

import math
import re
from dataclasses import dataclass

from reconciler.domain.cluster import Device, NodeState
from reconciler.domain.units import DeviceId

GIB = 2**30

_PLAIN = re.compile(r"[+-]?\d+(?:\.\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_NOT_AVAILABLE = frozenset((2**32 - 1, 2**64 - 1))
"""What NVML puts into unsigned fields it cannot fill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """One GPU at one poll.  None: it could not be read this time."""

    device: DeviceId
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    utilisation: float | None = None
    """Share of the last sample period in which a kernel ran, in [0, 1]."""
    memory_used_gib: float | None = None
    throttle_bits: int | None = None
    """NVML's clock event reasons as a bit mask; 0: not throttled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSurvey:
    """What one look at this machine's devices found.

    ``devices`` holds every device seen since the start, sorted by id, so that a GPU which stops
    answering does not vanish under the attempt that holds it.  ``state`` is ``cordoned`` while
    one of them is silent: nothing new is started on a node that is suspect.
    """

    devices: tuple[Device, ...]
    state: NodeState = NodeState.READY
    message: str = ""
    """One line for people; empty while all is well."""
    readings: tuple[GpuReading, ...] = ()
    """One for each device that answered, sorted by device."""


def number(value: object, unit: str = "") -> float | None:
    """Return the value as a finite number, or None where it says nothing.

    Text may carry thousands separators and end with ``unit`` (``81,920 MiB``).
    """
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        text = value.strip().removesuffix(unit).strip() if unit else value.strip()
        if _THOUSANDS.fullmatch(text):
            text = text.replace(",", "")
        return float(text) if _PLAIN.fullmatch(text) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if value in _NOT_AVAILABLE or not math.isfinite(value):
        return None
    return float(value)


def amount(value: object, unit: str = "") -> float | None:
    """Return ``number`` where it is not negative, else None: powers, sizes, temperatures."""
    found = number(value, unit)
    return found if found is not None and found >= 0 else None


def text(value: object) -> str:
    """Return what a driver gave as text: NVML gives bytes or text by its version."""
    if isinstance(value, bytes):
        value = value.split(b"\0")[0].decode(errors="replace")
    return value.strip() if isinstance(value, str) else ""
