"""What tests of this folder share."""

from collections.abc import Iterator

import pytest

from tests.e2e.asker import Asker


@pytest.fixture(scope="session")
def asker() -> Iterator[Asker]:
    """A process that has trained nothing, started when a test first asks it something."""
    with Asker() as each:
        yield each
