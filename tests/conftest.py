"""What every test gets: a git that reads nobody's settings, and no network."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

for name, examples in (("fast", 50), ("standard", 300), ("thorough", 10_000)):
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        print_blob=True,
        # A change is judged by what it changed: only the campaign, with its own seed, explores.
        derandomize=name != "thorough",
    )
settings.load_profile(os.environ.get("HEADWAY_HYPOTHESIS", "fast"))


@pytest.fixture(autouse=True)
def clean_surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep a developer's git settings and a hub's network out of every test."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    yield
