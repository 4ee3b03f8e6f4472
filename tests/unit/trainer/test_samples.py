"""Samples are made once, mapped from disk, and never taken for those of other data."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("datasets")

from tests.run_requests import a_run
from trainer import models, samples, token_cache
from trainer.config import Request, RequestError, load_request
from trainer.recipes.table import recipe_for

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # the model is taken from where it already is; only samples get a new place
    monkeypatch.setattr(token_cache, "root", lambda: tmp_path / "samples")
    return tmp_path / "samples"


def chats(path: Path, count: int) -> None:
    rows = [
        {"prompt": f"What is {number}?", "completion": f"It is {number}."}
        for number in range(count)
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows))


def prepare(request: Request) -> samples.Prepared:
    location = models.resolve(request.train["model"])
    tokenizer = models.load_tokenizer(location, revision=None)
    return samples.prepare(recipe_for(request.train["task"]), request, tokenizer)


def a_request(root: Path, number: int = 1, **train: Any) -> Request:
    return load_request(a_run(root, number=number, dataset="d.jsonl", **train))


def test_they_are_made_once_for_the_same_data_and_settings(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chats(tmp_path / "d.jsonl", 30)
    first = prepare(a_request(tmp_path))
    monkeypatch.setattr(samples.Maker, "make", lambda *_: pytest.fail("they were there"))

    again = prepare(a_request(tmp_path, 2, learning_rate=1e-4, max_steps=9))

    assert again.digest == first.digest
    assert list(again.dataset) == list(first.dataset)
    assert [path.name for path in own_cache.iterdir() if path.is_dir()] == [first.digest]


@pytest.mark.parametrize("change", ["row", "max_length", "loss_scale", "order", "tokenizer"])
def test_whatever_changes_them_makes_new_ones(tmp_path: Path, change: str) -> None:
    chats(tmp_path / "d.jsonl", 5)
    before = prepare(a_request(tmp_path))
    settings: dict[str, Any] = {}
    match change:
        case "row":
            chats(tmp_path / "d.jsonl", 6)
        case "max_length":
            settings = {"max_length": 128}
        case "loss_scale":
            settings = {"loss_scale": "all"}
        case "order":
            lines = (tmp_path / "d.jsonl").read_text().splitlines()
            (tmp_path / "d.jsonl").write_text("\n".join(reversed(lines)))
        case "tokenizer":
            tokenizer = models.load_tokenizer(models.resolve("random:qwen3-tiny"), revision=None)
            tokenizer.chat_template = "{# other #}" + tokenizer.chat_template
            request = a_request(tmp_path, 2)
            other = samples.prepare(recipe_for("sft"), request, tokenizer)
            assert other.digest != before.digest
            return

    assert prepare(a_request(tmp_path, 2, **settings)).digest != before.digest


def test_a_large_file_is_tokenised_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chats(tmp_path / "d.jsonl", 25)
    whole = list(prepare(a_request(tmp_path)).dataset)
    monkeypatch.setattr(samples, "ROWS", 4)
    monkeypatch.setattr(token_cache, "root", lambda: tmp_path / "other")

    assert list(prepare(a_request(tmp_path, 2)).dataset) == whole
    packed = prepare(a_request(tmp_path, 3, packing=True, packing_length=64)).dataset
    assert sum(map(len, packed["input_ids"])) == sum(len(each["input_ids"]) for each in whole)


def test_no_sample_is_on_both_sides_of_a_split(tmp_path: Path) -> None:
    chats(tmp_path / "d.jsonl", 40)
    every = prepare(a_request(tmp_path))

    parts = prepare(a_request(tmp_path, 2, split_dataset_ratio=0.25))

    assert every.eval_dataset is None
    train, held_out = list(parts.dataset["input_ids"]), list(parts.eval_dataset["input_ids"])
    assert len(held_out) == 10
    assert sorted(train + held_out) == sorted(every.dataset["input_ids"])


def test_what_was_lost_is_told_on_every_attempt(tmp_path: Path) -> None:
    chats(tmp_path / "d.jsonl", 3)
    with (tmp_path / "d.jsonl").open("a") as file:
        file.write("\nnonsense\n" + json.dumps({"prompt": "x " * 900, "completion": "y"}))
    settings: dict[str, Any] = {"strict": False, "packing": True, "packing_length": 16}

    first = prepare(a_request(tmp_path, **settings))
    again = prepare(a_request(tmp_path, 2, **settings))

    assert first.warnings == again.warnings
    assert first.warnings[0].startswith("1 rows are unusable and were dropped: d.jsonl:4: is not")
    assert first.warnings[1] == (
        "1 samples are longer than max_length 256 and were dropped: d.jsonl:5"
    )
    assert first.warnings[2] == (
        "3 samples are longer than packing_length 16 and were cut into pieces"
    )


def test_a_refused_row_leaves_no_entry(tmp_path: Path, own_cache: Path) -> None:
    chats(tmp_path / "d.jsonl", 3)
    with (tmp_path / "d.jsonl").open("a") as file:
        file.write("\nnonsense")

    with pytest.raises(RequestError, match="1 of 4 rows can not be used for sft"):
        prepare(a_request(tmp_path))

    assert [path for path in own_cache.iterdir() if path.is_dir()] == []


def test_columns_of_other_types_in_other_parts_fit_together(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"

    count = samples.write(path, [[{"a": [1], "b": None}], [], [{"a": [], "b": "x"}]])

    assert count == 2
    assert list(samples.opened(path)) == [{"a": [1], "b": None}, {"a": [], "b": "x"}]


def test_entries_nobody_reads_any_more_go(tmp_path: Path, own_cache: Path) -> None:
    old = own_cache / "old"
    old.mkdir(parents=True)
    long_ago = time.time() - token_cache.UNUSED_AFTER_S - 60
    os.utime(old, (long_ago, long_ago))

    token_cache.entry("new", lambda folder: (folder / "x").touch())

    assert sorted(path.name for path in own_cache.iterdir() if path.is_dir()) == ["new"]


def test_of_several_processes_one_makes_the_entry(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from trainer import token_cache\n"
        "token_cache.root = lambda: Path(sys.argv[1])\n"
        "def make(folder):\n"
        "    with open(sys.argv[2], 'a') as log: log.write('made\\n')\n"
        "    time.sleep(0.2)\n"
        "print(token_cache.entry('same', make).is_dir())\n"
    )
    command = [sys.executable, "-c", program, tmp_path / "samples", tmp_path / "log"]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]

    said = [process.communicate()[0].strip() for process in started]

    assert said == ["True"] * 3
    assert (tmp_path / "log").read_text() == "made\n"
