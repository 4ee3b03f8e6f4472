"""How single files of a run directory are written whole and read with suspicion.

Stdlib only, because the wrapper imports it and must start fast.  Writing: a reader sees the old
file or the new one, never a part.  Reading: what is in a run directory was written by a job, so
it is untrusted: links are not followed, only plain files are opened, nothing blocks (a FIFO
would), and nothing longer than its cap is read.
"""

import errno
import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

REQUEST = "request.json"
CLAIM = "claim"
OWNER = "claim/owner.json"
EXIT = "exit.json"
EXIT_RESERVE = "claim/exit.reserve"
HEARTBEAT = "heartbeat.json"
EVENTS = "events.jsonl"
STOP = "stop"
RESULT = "result.json"
SPAWN = "spawn.json"
STDOUT = "stdout.log"
STDERR = "stderr.log"
WRAPPER_LOG = "wrapper.log"
WORK = "work"
"""The command's working folder: a file it calls ``stop`` or ``result.json`` means nothing there."""

VERSION = "headway.run/v1"
SMALL_FILE_BYTES = 256 * 1024
"""Cap for every JSON file of a run directory but the request and the manifests."""
LARGE_FILE_BYTES = 16 * 1024 * 1024
"""Cap for ``request.json`` and a checkpoint's manifest."""


class UnreadableError(Exception):
    """The file is there and cannot be used; the message says why, for people."""


def to_json(document: Any) -> bytes:
    """Return one canonical line: sorted keys, no NaN.  Raises ``ValueError`` on NaN."""
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return text.encode() + b"\n"


def read_bytes(path: Path, cap: int) -> bytes | None:
    """Return the whole file, or None where there is none.

    Raises ``UnreadableError`` for a link, a FIFO, a folder or a file longer than ``cap`` bytes,
    and lets other ``OSError`` (permissions, a broken disk) through.
    """
    try:
        handle = _open_plain(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with os.fdopen(handle, "rb") as file:
        content = file.read(cap + 1) if os.fstat(handle).st_size <= cap else None
    if content is None or len(content) > cap:
        raise UnreadableError(f"{path.name} is longer than {cap} bytes")
    return content


def read_tail(path: Path, size: int) -> bytes:
    """Return at most the last ``size`` bytes; empty where there is no plain file to read."""
    try:
        handle = _open_plain(path)
    except (OSError, UnreadableError):
        return b""
    with os.fdopen(handle, "rb") as file:
        file.seek(max(os.fstat(handle).st_size - size, 0))
        return file.read(size)


def read_object(path: Path, cap: int = SMALL_FILE_BYTES) -> dict[str, Any] | None:
    """Return the JSON object in the file, or None where there is no file.

    Raises ``UnreadableError`` where it is torn, not an object, holds NaN, or as ``read_bytes``.
    """
    content = read_bytes(path, cap)
    if content is None:
        return None
    try:
        document = json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"{path.name} is not JSON: {_one_line(error)}") from error
    if not isinstance(document, dict):
        raise UnreadableError(f"{path.name} holds no JSON object")
    return document


def replace(path: Path, content: bytes) -> None:
    """Write the file whole and durably, in place of what was there."""
    part = _write_part(path, content)
    try:
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def create(path: Path, content: bytes) -> bool:
    """Write the file whole and durably unless one is there; return whether it was written."""
    part = _write_part(path, content)
    try:
        os.link(part, path, follow_symlinks=False)
    except FileExistsError:
        return False
    finally:
        part.unlink(missing_ok=True)
    sync_folder(path.parent)
    return True


def sync_folder(path: Path) -> None:
    """Make names written to the folder durable, where the file system can."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)


def _open_plain(path: Path) -> int:
    """Open a plain file and nothing else; without O_NONBLOCK a FIFO would hold us up."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnreadableError(f"{path.name} is a link, which is not followed") from error
        if error.errno == errno.ENXIO:
            raise UnreadableError(f"{path.name} is not a plain file") from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise UnreadableError(f"{path.name} is not a plain file")
    return handle


def _write_part(path: Path, content: bytes) -> Path:
    part = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        part.unlink(missing_ok=True)
        raise
    return part


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:120]
