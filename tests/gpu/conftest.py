"""What only a machine with GPUs can show: ``make test-gpu``.  Elsewhere every test is skipped.

Nothing here imports torch before a test runs, because these files are collected everywhere.
"""

from collections.abc import Callable

import pytest

Gpus = Callable[[int], list[str]]


@pytest.fixture
def gpus() -> Gpus:
    """Return a function that gives the UUIDs of this many GPUs, or skips the test."""

    def need(count: int) -> list[str]:
        torch = pytest.importorskip("torch")
        found = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if found < count:
            pytest.skip(f"needs {count} GPU(s) that torch sees; it sees {found} here")
        return [f"GPU-{torch.cuda.get_device_properties(each).uuid}" for each in range(count)]

    return need
