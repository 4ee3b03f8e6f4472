"""GPUs through NVML: every oddity costs one field or one GPU, never the poll."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.devices.nvml import NvmlSource
from reconciler.domain.cluster import DeviceKind, NodeState
from tests.unit.devices.fake_nvml import (
    GIB,
    GPU_IS_LOST,
    NOT_LOADED,
    NOT_SUPPORTED,
    Card,
    FakeNvml,
)

ODD_VALUES: tuple[Any, ...] = (
    NOT_SUPPORTED,
    GPU_IS_LOST,
    "[N/A]",
    "[Unknown Error]",
    "ERR!",
    b"[Not Supported]",
    None,
    float("nan"),
    2**32 - 1,
    2**64 - 1,
    -1,
    "",
    ValueError("not utf-8"),
)


@pytest.fixture
def hang() -> Iterator[threading.Event]:
    """Return something that answers only when the test is over."""
    event = threading.Event()
    yield event
    event.set()


def test_a_card_is_a_device_with_its_usable_memory() -> None:
    (device,) = NvmlSource(FakeNvml([Card("GPU-a")])).devices()

    assert (device.id, device.kind, device.type) == ("GPU-a", DeviceKind.GPU, "A100-80GB")
    assert device.memory_gib == 79.15


def test_an_old_library_that_does_not_tell_the_reserve_gives_the_total() -> None:
    library = FakeNvml([Card("GPU-a")])
    library.nvmlMemory_v2 = 0

    assert NvmlSource(library).devices()[0].memory_gib == 80.0


def test_devices_are_sorted_by_uuid_and_bytes_are_text() -> None:
    library = FakeNvml([Card(b"GPU-b", name=b"Tesla T4", total=16 * GIB), Card("GPU-a")])

    assert [(d.id, d.type) for d in NvmlSource(library).devices()] == [
        ("GPU-a", "A100-80GB"),
        ("GPU-b", "T4-16GB"),
    ]


def test_a_reading_has_units() -> None:
    (reading,) = NvmlSource(FakeNvml([Card("GPU-a")])).survey().readings

    assert (reading.temperature_c, reading.power_w, reading.power_limit_w) == (61, 250.5, 400)
    assert (reading.utilisation, reading.memory_used_gib) == (0.97, 8)
    assert reading.throttle_bits == 0


@pytest.mark.parametrize("odd", ODD_VALUES, ids=repr)
def test_a_field_that_cannot_be_read_is_absent_and_not_zero(odd: Any) -> None:
    card = Card(
        "GPU-a", temperature=odd, milliwatts=odd, limit=odd, utilisation=odd, throttle=odd, mig=odd
    )
    found = NvmlSource(FakeNvml([card, Card("GPU-b")])).survey()
    odd_one, good_one = found.readings

    assert odd_one.temperature_c is None and odd_one.power_w is None
    assert odd_one.power_limit_w is None and odd_one.utilisation is None
    assert odd_one.throttle_bits is None
    assert odd_one.memory_used_gib == 8
    assert good_one.power_w == 250.5
    assert (found.state, len(found.devices)) == (NodeState.READY, 2)


def test_memory_given_as_text_is_read() -> None:
    (device,) = NvmlSource(FakeNvml([Card("GPU-a", total="85,899,345,920", used=None)])).devices()

    assert device.memory_gib == 79.15


@pytest.mark.parametrize("odd", ["[N/A]", None, GPU_IS_LOST, 0])
def test_a_card_that_never_said_its_memory_is_not_offered(odd: Any) -> None:
    found = NvmlSource(FakeNvml([Card("GPU-a", total=odd), Card("GPU-b")])).survey()

    assert [device.id for device in found.devices] == ["GPU-b"]
    assert found.message == "GPU-a does not say its memory: not offered"
    assert found.state is NodeState.READY


def test_a_card_that_does_not_say_its_memory_this_time_keeps_what_it_said() -> None:
    card = Card("GPU-a")
    source = NvmlSource(FakeNvml([card]))
    before = source.devices()
    card.total = card.name = "[N/A]"

    assert source.survey().devices == before
    assert source.survey().message == ""


def test_a_vanished_gpu_stays_listed_and_makes_the_node_suspect() -> None:
    library = FakeNvml([Card("GPU-a"), Card("GPU-b")])
    source = NvmlSource(library)
    before = source.devices()
    gone = library.cards.pop()
    found = source.survey()

    assert found.devices == before
    assert (found.state, found.message) == (NodeState.CORDONED, "GPU-b does not answer")
    assert [reading.device for reading in found.readings] == ["GPU-a"]

    library.cards.append(gone)
    assert source.survey().state is NodeState.READY


def test_a_gpu_that_fell_off_the_bus_makes_the_node_suspect() -> None:
    library = FakeNvml([Card("GPU-a"), Card("GPU-b")])
    source = NvmlSource(library)
    source.devices()
    library.cards[0].uuid = GPU_IS_LOST

    assert source.survey().message == "GPU-a does not answer"


def test_a_gpu_that_never_said_its_uuid_makes_the_node_suspect() -> None:
    found = NvmlSource(FakeNvml([Card(GPU_IS_LOST), Card("GPU-b")])).survey()

    assert [device.id for device in found.devices] == ["GPU-b"]
    assert (found.state, found.message) == (
        NodeState.CORDONED,
        "1 GPU(s) do not say their UUID",
    )


def test_one_hung_gpu_does_not_hold_up_the_others(hang: threading.Event) -> None:
    library = FakeNvml([Card("GPU-a"), Card("GPU-b")])
    source = NvmlSource(library, timeout_s=1.0)
    source.devices()
    library.cards[0].name = hang
    begun = time.monotonic()
    found = source.survey()

    assert time.monotonic() - begun < 20
    assert (found.state, found.message) == (NodeState.CORDONED, "GPU-a does not answer")
    assert [reading.device for reading in found.readings] == ["GPU-b"]
    assert [device.id for device in found.devices] == ["GPU-a", "GPU-b"]


def test_a_hung_gpu_is_not_asked_again_until_it_answers(hang: threading.Event) -> None:
    library = FakeNvml([Card("GPU-a", name=hang)])
    source = NvmlSource(library, timeout_s=0.5)
    source.survey()
    source.survey()

    assert library.asked == ["GPU-a"]


def test_a_library_that_hangs_is_a_fault_within_the_limit(hang: threading.Event) -> None:
    library = FakeNvml([Card("GPU-a")])
    source = NvmlSource(library, timeout_s=0.5)
    source.devices()
    library.cards[0].uuid = hang
    found = source.survey()

    assert [device.id for device in found.devices] == ["GPU-a"]
    assert found.state is NodeState.CORDONED
    assert found.message == "NVML does not answer within 0.5 s"


def test_a_machine_without_the_driver_has_no_gpus_quietly() -> None:
    found = NvmlSource(FakeNvml([], init=NOT_LOADED)).survey()

    assert (found.devices, found.state, found.message) == ((), NodeState.READY, "")


def test_a_driver_that_stops_keeps_its_gpus_listed_and_is_initialised_anew() -> None:
    library = FakeNvml([Card("GPU-a")])
    source = NvmlSource(library)
    source.devices()
    library.count = NOT_LOADED
    found = source.survey()

    assert [device.id for device in found.devices] == ["GPU-a"]
    assert (found.state, found.message) == (NodeState.CORDONED, "NVML fails: Driver Not Loaded")

    library.count = None
    assert source.survey().state is NodeState.READY
    assert library.inits == 2


def test_mig_slices_are_not_offered_and_are_no_fault() -> None:
    found = NvmlSource(FakeNvml([Card("GPU-a", mig=(1, 1)), Card("GPU-b", mig=(0, 0))])).survey()

    assert [device.id for device in found.devices] == ["GPU-b"]
    assert found.state is NodeState.READY
    assert found.message == "GPU-a is cut into MIG slices, which are not offered"


def test_gpus_joined_by_nvlink_are_one_island() -> None:
    library = FakeNvml(
        [
            Card("GPU-a", bus_id="00000000:07:00.0", links=("0000:0F:00.0",)),
            Card("GPU-b", bus_id=b"00000000:0f:00.0", links=("0000:07:00.0",)),
            Card("GPU-c", bus_id="00000000:47:00.0"),
        ]
    )

    assert [d.island for d in NvmlSource(library).devices()] == ["nvlink-0", "nvlink-0", ""]


def test_the_real_library_is_asked_without_an_exception() -> None:
    found = NvmlSource().survey()

    assert all(device.memory_gib > 0 for device in found.devices)
    assert len(found.readings) >= len(found.devices) or found.state is NodeState.CORDONED
