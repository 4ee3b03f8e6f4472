"""CPU slots are equal shares of a machine."""

from pathlib import Path

import pytest

from reconciler.devices.cpu_slots import CpuSlots, memory_gib
from reconciler.domain.cluster import DeviceKind, NodeState


def machine(root: Path, kib: int) -> Path:
    (root / "proc").mkdir()
    (root / "proc/meminfo").write_text(f"MemFree: 1 kB\nMemTotal:       {kib} kB\nSwap: 2 kB\n")
    return root


def test_each_slot_has_an_equal_share_of_the_memory(tmp_path: Path) -> None:
    slots = CpuSlots(3, root=machine(tmp_path, 10 * 2**20)).devices()

    assert [slot.id for slot in slots] == ["cpu-0", "cpu-1", "cpu-2"]
    assert {(slot.kind, slot.type, slot.memory_gib) for slot in slots} == {
        (DeviceKind.CPU_SLOT, "cpu", 3.33)
    }


def test_slots_are_sorted_by_id(tmp_path: Path) -> None:
    ids = [slot.id for slot in CpuSlots(12, root=machine(tmp_path, 2**20)).devices()]

    assert ids == sorted(ids) and len(set(ids)) == 12


@pytest.mark.parametrize(
    ("limit", "expected"), [(str(2 * 2**30), 2.0), ("max", 10.0), (str(2**63), 10.0), ("", 10.0)]
)
@pytest.mark.parametrize(
    "where", ["sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"]
)
def test_a_containers_limit_counts_where_it_is_smaller(
    tmp_path: Path, where: str, limit: str, expected: float
) -> None:
    path = machine(tmp_path, 10 * 2**20) / where
    path.parent.mkdir(parents=True)
    path.write_text(limit + "\n")

    assert memory_gib(tmp_path) == expected


def test_a_machine_that_does_not_tell_its_memory_has_slots_of_none(tmp_path: Path) -> None:
    found = CpuSlots(2, root=tmp_path).survey()

    assert [device.memory_gib for device in found.devices] == [0.0, 0.0]
    assert found.state is NodeState.READY


def test_this_machine_has_memory() -> None:
    assert memory_gib() > 0.1


def test_a_machine_without_slots_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 CPU slot, got count=0"):
        CpuSlots(0)
