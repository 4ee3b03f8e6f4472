"""Numbers from drivers, which are sometimes words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.devices.readings import amount, number, text


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (61, "", 61.0),
        (0, "", 0.0),
        (-5.5, "", -5.5),
        ("81920 MiB", "MiB", 81_920.0),
        ("81,920 MiB", "MiB", 81_920.0),
        (b"1,234.5", "", 1_234.5),
        (" 42 ", "", 42.0),
        ("1,23", "", None),
        ("81920 MiB", "GiB", None),
        ("[N/A]", "", None),
        ("nan", "", None),
        ("1e3", "", None),
        (True, "", None),
        (2**32 - 1, "", None),
        (float("inf"), "", None),
        ([1], "", None),
    ],
)
def test_a_number_is_read_or_absent(value: object, unit: str, expected: float | None) -> None:
    assert number(value, unit) == expected


def test_an_amount_is_never_negative() -> None:
    assert amount(-1) is None
    assert amount("0") == 0.0


def test_text_is_bytes_or_text_up_to_its_end() -> None:
    assert text(b"Tesla T4\0\0rest") == text(" Tesla T4 ") == "Tesla T4"
    assert text(None) == text(7) == ""


@given(st.text() | st.binary() | st.floats() | st.integers() | st.none())
def test_no_value_is_an_error(value: object) -> None:
    found = number(value, "MiB")

    assert found is None or found == found
