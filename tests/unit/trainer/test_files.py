"""Readers see whole files, strict JSON, and the first of two last words."""

import json
from multiprocessing import get_context
from pathlib import Path

import pytest

from trainer.files import (
    encode,
    publish,
    publish_over,
    put_aside,
    read_json,
    write_json,
    write_json_once,
)


def test_numbers_that_are_not_finite_become_null() -> None:
    line = encode({"loss": float("nan"), "all": [1.5, float("inf")], "in": {"x": -float("inf")}})

    assert json.loads(line) == {"loss": None, "all": [1.5, None], "in": {"x": None}}
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "heartbeat.json"
    write_json(path, {"step": 1})
    write_json(path, {"step": 2}, durable=True)

    assert read_json(path) == {"step": 2}
    assert list(tmp_path.iterdir()) == [path]


def test_a_result_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "result.json"

    assert write_json_once(path, {"outcome": "failed"})
    assert not write_json_once(path, {"outcome": "succeeded"})
    assert read_json(path) == {"outcome": "failed"}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", ["", "{", "[1]", "null"])
def test_what_is_no_object_reads_as_nothing(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)

    assert read_json(path) is None
    assert read_json(tmp_path / "missing.json") is None


def test_publishing_never_overwrites_a_folder(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "final").mkdir()
    (tmp_path / "final" / "weights").write_text("old")
    with pytest.raises(OSError, match="not empty"):
        publish(tmp_path / "new", tmp_path / "final")

    aside = put_aside(tmp_path / "final")
    publish(tmp_path / "new", tmp_path / "final")

    assert aside is not None
    assert (aside / "weights").read_text() == "old"
    assert list((tmp_path / "final").iterdir()) == []
    assert put_aside(tmp_path / "nothing") is None


def publish_many(root: Path, writer: int) -> None:
    for number in range(100):
        temporary = root / f".new-{writer}-{number}"
        temporary.mkdir()
        (temporary / "weights").write_text(f"{writer} {number}")
        publish_over(temporary, root / "final")


def test_several_who_publish_one_name_at_once_all_succeed(tmp_path: Path) -> None:
    children = [
        get_context("fork").Process(target=publish_many, args=(tmp_path, writer))
        for writer in range(3)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()

    assert [child.exitcode for child in children] == [0, 0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["final"]
    assert (tmp_path / "final" / "weights").read_text().endswith(" 99")


def test_what_can_not_be_published_leaves_the_old_one_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "final").mkdir()
    (tmp_path / "final" / "weights").write_text("old")
    with pytest.raises(FileNotFoundError):
        publish_over(tmp_path / "missing", tmp_path / "final")

    assert (tmp_path / "final" / "weights").read_text() == "old"
