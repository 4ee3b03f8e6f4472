"""The devices of a machine without GPUs: CPU slots, which stand for shares of it.

A slot is accounting.  A job that holds some runs in at most two processes of one thread each
(``engine.requests``), and may use its share of the machine's memory.
"""

import re
from pathlib import Path

from reconciler.devices.readings import GIB, DeviceSurvey
from reconciler.domain.cluster import Device, DeviceKind
from reconciler.domain.units import DeviceId

SLOT_TYPE = "cpu"
SLOTS = 8

_MEM_TOTAL = re.compile(r"^MemTotal:\s+(\d+) kB$", re.MULTILINE)
_GROUP_LIMITS = ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes")


class CpuSlots:
    """A ``DeviceSource`` of ``count`` equal slots.  ``root`` is where /proc and /sys are."""

    def __init__(self, count: int = SLOTS, *, root: Path = Path("/")) -> None:
        if count < 1:
            raise ValueError(f"a machine has at least 1 CPU slot, got count={count}")
        self._count = count
        self._root = root

    def devices(self) -> tuple[Device, ...]:
        """Return the slots ``cpu-0`` and on, sorted by id; memory is an equal share of all."""
        share_gib = memory_gib(self._root) / self._count
        slots = (
            Device(
                id=DeviceId(f"cpu-{number}"),
                kind=DeviceKind.CPU_SLOT,
                type=SLOT_TYPE,
                memory_gib=int(share_gib * 100) / 100,
            )
            for number in range(self._count)
        )
        return tuple(sorted(slots, key=lambda slot: slot.id))

    def survey(self) -> DeviceSurvey:
        """Return the slots; they are always well."""
        return DeviceSurvey(devices=self.devices())


def memory_gib(root: Path = Path("/")) -> float:
    """Return the machine's memory, or the container's limit where that is smaller; 0: unknown."""
    try:
        found = _MEM_TOTAL.search((root / "proc/meminfo").read_text(encoding="ascii"))
    except (OSError, ValueError):
        found = None
    total = int(found[1]) * 1024 if found else 0
    for limit in _GROUP_LIMITS:
        try:
            words = (root / limit).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
        if words.isdigit() and 0 < int(words) < total:
            total = int(words)
    return total / GIB
