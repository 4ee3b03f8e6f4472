"""Files of a run directory are seen whole or not at all."""

import os
import threading
from pathlib import Path

import pytest

from reconciler.launchers import run_files


def test_of_many_creators_one_writes_and_all_see_its_content(tmp_path: Path) -> None:
    path, wrote = tmp_path / "request.json", []
    together = threading.Barrier(8)

    def create(number: int) -> None:
        together.wait()
        if run_files.create(path, b"%d" % number * 1000):
            wrote.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(wrote) == 1
    assert path.read_bytes() == b"%d" % wrote[0] * 1000
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file_and_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "stop"
    path.write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        run_files.replace(path, b"new")

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_replaced_link_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "stop"
    target.write_bytes(b"old")
    link.symlink_to(target)
    run_files.replace(link, b"new")

    assert (target.read_bytes(), link.read_bytes()) == (b"old", b"new")
    assert not link.is_symlink()


def test_the_tail_of_a_log_is_its_end(tmp_path: Path) -> None:
    log = tmp_path / "stderr.log"
    log.write_bytes(b"x" * 100 + b"end")

    assert run_files.read_tail(log, 5) == b"xxend"
    assert run_files.read_tail(log, 500) == b"x" * 100 + b"end"
    assert run_files.read_tail(tmp_path / "none", 5) == b""


def test_a_log_that_is_a_link_or_a_pipe_has_no_tail(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")

    assert run_files.read_tail(tmp_path / "link", 100) == b""
    assert run_files.read_tail(tmp_path / "pipe", 100) == b""


def test_json_is_canonical_and_never_nan() -> None:
    assert run_files.to_json({"b": 1, "a": "é"}) == '{"a": "é", "b": 1}\n'.encode()
    with pytest.raises(ValueError, match="Out of range"):
        run_files.to_json({"a": float("nan")})
