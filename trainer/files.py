"""Writing files so that a reader, or a crash, never sees half of one.

Rule kept: every file another process reads is written under a temporary name, flushed to disk
and renamed; a folder is published the same way.
"""

import errno
import json
import math
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def finite(value: Any) -> Any:
    """Return ``value`` as strict JSON can hold it: a number that is not finite becomes null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def encode(value: Mapping[str, Any]) -> bytes:
    """Return ``value`` as one line of strict JSON."""
    return (json.dumps(finite(value), allow_nan=False, ensure_ascii=False) + "\n").encode()


def write_json(path: Path, value: Mapping[str, Any], *, durable: bool = False) -> None:
    """Replace ``path`` atomically; ``durable`` also waits for the disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        file.write(encode(value))
        if durable:
            file.flush()
            os.fsync(file.fileno())
    temporary.replace(path)
    if durable:
        sync_folder(path.parent)


def write_json_once(path: Path, value: Mapping[str, Any]) -> bool:
    """Write ``path`` durably unless it exists; return whether this call wrote it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        file.write(encode(value))
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(temporary, path)  # unlike a rename, fails where another process was first
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    sync_folder(path.parent)
    return True


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in ``path``; None where there is no file or no JSON object in it."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def sync_folder(folder: Path) -> None:
    """Wait until the names in ``folder`` are on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Wait until every file below ``folder``, and its name, is on disk."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            sync_folder(path)
    sync_folder(folder)


def publish(temporary: Path, folder: Path) -> None:
    """Give a finished folder its name, durably; raises OSError where the name is taken."""
    sync_tree(temporary)
    temporary.rename(folder)
    sync_folder(folder.parent)


def publish_over(temporary: Path, folder: Path) -> None:
    """Give a finished folder its name, whatever has it now; of two at once the later one stays.

    Raises OSError where the name can not be given; what had it keeps it then.
    """
    while True:  # each failure means that another process published in between
        aside = put_aside(folder)
        try:
            publish(temporary, folder)
        except OSError as error:
            if not is_taken(error):
                if aside is not None and not folder.exists():
                    aside.rename(folder)
                raise
        else:
            return
        finally:
            if aside is not None:
                shutil.rmtree(aside, ignore_errors=True)


def is_taken(error: OSError) -> bool:
    """Return whether a rename failed because a folder already has the name."""
    return error.errno in (errno.ENOTEMPTY, errno.EEXIST)


def put_aside(folder: Path) -> Path | None:
    """Take the name away from ``folder`` if it exists; return where it is now, to be deleted."""
    aside = folder.with_name(f".old-{folder.name}-{secrets.token_hex(8)}")
    try:
        folder.rename(aside)
    except FileNotFoundError:
        return None
    return aside
