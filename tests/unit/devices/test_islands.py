"""Islands are the connected parts of the NVLink graph."""

from reconciler.devices.islands import islands, normal_bus_id
from reconciler.domain.units import DeviceId

A, B, C, D = (DeviceId(f"GPU-{name}") for name in "abcd")
BUSES = {A: "0000:01:00.0", B: "0000:02:00.0", C: "0000:03:00.0", D: "0000:04:00.0"}


def test_links_to_one_switch_join_all_its_gpus() -> None:
    switch = "0000:c0:00.0"

    assert islands(BUSES, {one: [switch] for one in BUSES}) == dict.fromkeys(BUSES, "nvlink-0")


def test_a_chain_of_links_is_one_island() -> None:
    links = {A: [BUSES[B]], B: [BUSES[C]], D: []}

    assert islands(BUSES, links) == {A: "nvlink-0", B: "nvlink-0", C: "nvlink-0", D: ""}


def test_pairs_are_islands_named_by_their_smallest_device() -> None:
    links = {C: [BUSES[D]], A: [BUSES[B]]}
    expected = {A: "nvlink-0", B: "nvlink-0", C: "nvlink-1", D: "nvlink-1"}

    assert islands(BUSES, links) == expected
    assert islands(dict(reversed(BUSES.items())), links) == expected


def test_a_link_to_nothing_known_is_no_island() -> None:
    assert islands({A: BUSES[A]}, {A: ["0000:77:00.0"], B: [BUSES[A]]}) == {A: ""}


def test_a_bus_id_has_one_spelling() -> None:
    assert normal_bus_id(" 00000000:3B:00.0") == normal_bus_id("0000:3b:00.0") == "0:3b:00.0"
    assert normal_bus_id("00010000:3B:00.0") == "10000:3b:00.0"
