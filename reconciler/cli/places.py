"""Which devices, in the fewest words: ``node-1 [0-3]``, or ``node-1 (4 GPUs)`` for UUIDs."""

import re
from collections.abc import Iterable, Sequence

from reconciler.domain.cluster import Allocation, NodeShare
from reconciler.domain.units import DeviceId

_NUMBERED = re.compile(r"([A-Za-z_]+)-?([0-9]{1,4})")


def place(allocation: Allocation | None) -> str:
    """Return the nodes and devices of an allocation, empty where there is none."""
    if allocation is None:
        return ""
    return ", ".join(_share(share) for share in allocation.shares)


def _share(share: NodeShare) -> str:
    numbers = _numbers(share.devices)
    if numbers is not None:
        return f"{share.node} [{_ranges(numbers)}]"
    many = len(share.devices)
    return f"{share.node} ({many} {device_noun(share.devices, many)})"


def _numbers(devices: Sequence[DeviceId]) -> list[int] | None:
    found = [_NUMBERED.fullmatch(device) for device in devices]
    if not found or any(match is None for match in found):
        return None
    if len({match[1] for match in found if match}) != 1:
        return None
    return sorted(int(match[2]) for match in found if match)


def _ranges(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in runs)


def device_noun(devices: Iterable[DeviceId], many: int) -> str:
    """Return ``GPU``, ``GPUs``, ``CPU slot`` or ``CPU slots``, as the device ids say."""
    kinds = {bool(re.fullmatch(r"cpu-[0-9]+", device)) for device in devices}
    noun = "CPU slot" if kinds == {True} else "GPU"
    return noun if many == 1 else f"{noun}s"
