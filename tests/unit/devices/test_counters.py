"""Host counters: summed over real disks and interfaces, absent where a kernel shows none."""

from pathlib import Path

from reconciler.devices.counters import (
    HostCounters,
    disk_bytes,
    host_counters,
    network_bytes,
    rate_per_s,
)

DISKSTATS = """\
   8       0 sda 10 0 100 5 20 0 200 5 0 5 5
   8       1 sda1 10 0 100 5 20 0 200 5 0 5 5
 259       0 nvme0n1 10 0 1000 5 20 0 3000 5 0 5 5
   7       0 loop0 10 0 9999 5 20 0 9999 5 0 5 5
 253       0 dm-0 10 0 1100 5 20 0 3200 5 0 5 5
   8      16 sdb torn
"""
NET_DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs
    lo: 999 1 0 0 0 0 0 0 999 1 0 0 0 0 0 0
  eth0:1000 1 0 0 0 0 0 0 200 1 0 0 0 0 0 0
   ib0: 5000 1 0 0 0 0 0 0 700 1 0 0 0 0 0 0
  bad: x
"""


def machine(root: Path) -> Path:
    for name in ("sda", "sdb", "nvme0n1", "loop0", "dm-0"):
        (root / "sys/block" / name).mkdir(parents=True)
    (root / "proc/net").mkdir(parents=True)
    (root / "proc/diskstats").write_text(DISKSTATS)
    (root / "proc/net/dev").write_text(NET_DEV)
    for number, (kind, degrees) in enumerate((("x86_pkg_temp", "56500"), ("acpitz", "[N/A]"))):
        zone = root / f"sys/class/thermal/thermal_zone{number}"
        zone.mkdir(parents=True)
        (zone / "type").write_text(kind + "\n")
        (zone / "temp").write_text(degrees + "\n")
    return root


def test_whole_disks_and_real_interfaces_are_summed(tmp_path: Path) -> None:
    found = host_counters(machine(tmp_path))

    assert (found.disk_read_bytes, found.disk_written_bytes) == (1100 * 512, 3200 * 512)
    assert (found.network_received_bytes, found.network_sent_bytes) == (6000, 900)


def test_a_temperature_that_cannot_be_read_is_absent(tmp_path: Path) -> None:
    assert host_counters(machine(tmp_path)).temperatures_c == (("x86_pkg_temp", 56.5),)


def test_a_machine_that_shows_nothing_has_no_counters(tmp_path: Path) -> None:
    assert host_counters(tmp_path) == HostCounters()
    assert disk_bytes(DISKSTATS, []) is None
    assert network_bytes("lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0") is None


def test_a_rate_needs_two_looks_and_a_counter_that_grew() -> None:
    assert rate_per_s(100, 400, 2.0) == 150
    assert rate_per_s(None, 400, 2.0) is None
    assert rate_per_s(400, 100, 2.0) is None
    assert rate_per_s(100, 400, 0.0) is None
