"""A model folder in the cache is whole, whichever rank of whichever node asked for it first."""

from pathlib import Path

import pytest

from trainer import random_models
from trainer.config import RequestError
from trainer.models import resolve

pytestmark = pytest.mark.slow


def test_a_rank_other_than_the_first_prepares_a_whole_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path))
    for name, value in (("RANK", "1"), ("LOCAL_RANK", "1"), ("WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(random_models, "build", lambda name, to: pytest.fail("built by a rank"))

    folder = Path(resolve("random:qwen3-tiny"))

    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {
        path.name for path in folder.iterdir()
    }


def test_a_failed_preparation_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    cache.write_text("a file where a folder should be", encoding="utf-8")
    monkeypatch.setenv("HEADWAY_CACHE", str(cache))
    monkeypatch.setenv("RANK", "1")

    with pytest.raises(RequestError, match=r"random:qwen3-tiny could not be prepared: .+"):
        resolve("random:qwen3-tiny")
