"""How busy are this machine's disks and networks, and how warm is it?

Counters only grow; a rate needs two looks.  Every field is optional: what a kernel or a
container does not show is absent, not 0.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SECTOR_BYTES = 512
"""The unit of /proc/diskstats, whatever the disk's own sectors are."""

_NOT_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd")
"""Stacked and virtual devices: their traffic is counted on the disks below them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCounters:
    """Bytes since the machine started, and temperatures now."""

    disk_read_bytes: int | None = None
    disk_written_bytes: int | None = None
    network_received_bytes: int | None = None
    network_sent_bytes: int | None = None
    temperatures_c: tuple[tuple[str, float], ...] = ()
    """(zone, degrees), sorted by zone."""


def host_counters(root: Path = Path("/")) -> HostCounters:
    """Return the counters of the machine whose /proc and /sys are below ``root``."""
    disks = disk_bytes(_read(root / "proc/diskstats"), _block_devices(root))
    network = network_bytes(_read(root / "proc/net/dev"))
    return HostCounters(
        disk_read_bytes=disks[0] if disks else None,
        disk_written_bytes=disks[1] if disks else None,
        network_received_bytes=network[0] if network else None,
        network_sent_bytes=network[1] if network else None,
        temperatures_c=_temperatures(root / "sys/class/thermal"),
    )


def rate_per_s(before: int | None, after: int | None, elapsed_s: float) -> float | None:
    """Return the growth a second; None where one is missing or the counter began anew."""
    if before is None or after is None or after < before or elapsed_s <= 0:
        return None
    return (after - before) / elapsed_s


def disk_bytes(diskstats: str, disks: Iterable[str]) -> tuple[int, int] | None:
    """Return (read, written) bytes summed over whole ``disks``; None where none is listed."""
    wanted = set(disks)
    sums = []
    for line in diskstats.splitlines():
        fields = line.split()
        if (
            len(fields) >= 10
            and fields[2] in wanted
            and fields[5].isdigit()
            and fields[9].isdigit()
        ):
            sums.append((int(fields[5]) * SECTOR_BYTES, int(fields[9]) * SECTOR_BYTES))
    return (sum(s[0] for s in sums), sum(s[1] for s in sums)) if sums else None


def network_bytes(net_dev: str) -> tuple[int, int] | None:
    """Return (received, sent) bytes over every interface but loopback; None without any."""
    sums = []
    for line in net_dev.splitlines():
        name, colon, rest = line.partition(":")
        fields = rest.split()
        if not colon or name.strip() == "lo" or len(fields) < 9:
            continue
        if fields[0].isdigit() and fields[8].isdigit():
            sums.append((int(fields[0]), int(fields[8])))
    return (sum(s[0] for s in sums), sum(s[1] for s in sums)) if sums else None


def _block_devices(root: Path) -> tuple[str, ...]:
    """Return the whole disks: /sys/block lists no partitions."""
    try:
        names = sorted(entry.name for entry in (root / "sys/block").iterdir())
    except OSError:
        return ()
    return tuple(name for name in names if not name.startswith(_NOT_DISKS))


def _temperatures(folder: Path) -> tuple[tuple[str, float], ...]:
    found = []
    try:
        zones = sorted(folder.glob("thermal_zone*"))
    except OSError:
        return ()
    for zone in zones:
        millidegrees = _read(zone / "temp").strip()
        if millidegrees.lstrip("-").isdigit():
            found.append((_read(zone / "type").strip() or zone.name, int(millidegrees) / 1000))
    return tuple(sorted(found))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
