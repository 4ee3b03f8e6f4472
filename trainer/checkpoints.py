"""Which checkpoints exist, whether one is whole, and how a new one comes to be.

Rules kept: a checkpoint is written under a temporary name, its ``manifest.json`` (sizes and sha256
of every file) last, flushed, and renamed to ``step-000120``; without a manifest that checks it
does not exist.  An old one is deleted only after a newer one has been read back and checked, so
that a whole one is left whatever happens.  No torch here.
"""

import hashlib
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.config import VERSION
from trainer.files import is_taken, publish, put_aside, read_json, sync_folder, write_json

MANIFEST = "manifest.json"
NAME = re.compile(r"step-(\d{6,})")
TEMPORARY = ".saving-"
ABANDONED_AFTER_S = 6 * 3600
"""Temporary folders of another attempt are removed when they are this old."""


class CheckpointError(Exception):
    """A checkpoint is not whole; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One folder whose manifest has been read (its files not yet: see ``verify``)."""

    folder: Path
    step: int
    samples_seen: int
    world_size: int
    global_batch: int
    finished_at: float
    files: dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The checkpoint to resume, if any, and why newer ones were passed over."""

    checkpoint: Checkpoint | None
    skipped: tuple[str, ...]


def folder_of(root: Path, step: int) -> Path:
    """Return the folder of the checkpoint after ``step`` optimizer steps."""
    return root / f"step-{step:06d}"


def read_manifest(folder: Path) -> Checkpoint:
    """Return what the manifest of ``folder`` says; raise CheckpointError where it says nothing."""
    manifest = read_json(folder / MANIFEST)
    if manifest is None:
        raise CheckpointError("it has no readable manifest.json: it was not finished")
    try:
        return Checkpoint(
            folder=folder,
            step=int(manifest["step"]),
            samples_seen=int(manifest["samples_seen"]),
            world_size=int(manifest["world_size"]),
            global_batch=int(manifest["global_batch"]),
            finished_at=float(manifest["finished_at"]),
            files=dict(manifest["files"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"its manifest.json is damaged: {error!r}") from error


def verify(folder: Path) -> Checkpoint:
    """Return the checkpoint if every file has the size and digest of the manifest.

    Raises CheckpointError with the first difference.
    """
    checkpoint = read_manifest(folder)
    for name, expected in sorted(checkpoint.files.items()):
        path = folder / name
        if not path.is_file():
            raise CheckpointError(f"{name} is missing")
        if (size := path.stat().st_size) != expected["size"]:
            raise CheckpointError(f"{name} has {size} bytes, not {expected['size']}")
        if sha256_of(path) != expected["sha256"]:
            raise CheckpointError(f"{name} does not have the digest in the manifest")
    return checkpoint


def sha256_of(path: Path) -> str:
    """Return the hexadecimal sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def candidates(root: Path) -> list[Path]:
    """Return the checkpoint folders below ``root``, finished or not, newest step first."""
    if not root.is_dir():
        return []
    found = [path for path in root.iterdir() if NAME.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=lambda path: (-step_of(path), path.name))


def step_of(folder: Path) -> int:
    """Return the step in a checkpoint folder's name."""
    return int(folder.name.removeprefix("step-"))


def choose(root: Path) -> Choice:
    """Return the newest whole checkpoint of ``root`` and what was skipped on the way to it."""
    skipped: list[str] = []
    for folder in candidates(root):
        try:
            return Choice(checkpoint=verify(folder), skipped=tuple(skipped))
        except (CheckpointError, OSError) as error:
            skipped.append(f"{folder.name} skipped: {error}")
    return Choice(checkpoint=None, skipped=tuple(skipped))


def temporary_path(root: Path, step: int, attempt: str) -> Path:
    """Return the folder to save into; two attempts never share one."""
    return root / f"{TEMPORARY}{attempt}-{step:06d}"


def finish(
    temporary: Path,
    *,
    root: Path,
    step: int,
    samples_seen: int,
    global_batch: int,
    world_size: int,
    attempt: str,
) -> Checkpoint:
    """Turn a folder of saved files into the checkpoint of ``step`` and return it, verified.

    A whole checkpoint that already has this step is kept: it is the same state.  Raises
    CheckpointError or OSError where the disk does not give back what was written.
    """
    folder = folder_of(root, step)
    files = {
        path.relative_to(temporary).as_posix(): {
            "size": path.stat().st_size,
            "sha256": sha256_of(path),
        }
        for path in sorted(temporary.rglob("*"))
        if path.is_file()
    }
    write_json(
        temporary / MANIFEST,
        {
            "version": VERSION,
            "step": step,
            "samples_seen": samples_seen,
            "global_batch": global_batch,
            "world_size": world_size,
            "attempt": attempt,
            "finished_at": time.time(),
            "files": files,
        },
    )
    while True:
        try:
            publish(temporary, folder)
        except OSError as error:
            if not is_taken(error):
                raise
        else:
            return verify(folder)
        try:
            existing = verify(folder)
        except (CheckpointError, OSError):
            if (aside := put_aside(folder)) is not None:
                shutil.rmtree(aside, ignore_errors=True)
        else:
            shutil.rmtree(temporary, ignore_errors=True)
            return existing


def prune(root: Path, *, keep: int, attempt: str) -> tuple[Path, ...]:
    """Delete all but the newest ``keep`` whole checkpoints, and what crashed saves left behind.

    Returns what was deleted.  The newest checkpoint must have been verified by the caller;
    unfinished folders newer than the oldest one kept are left for a person to look at.
    """
    whole = [folder for folder in candidates(root) if _is_finished(folder)]
    doomed = whole[keep:]
    if whole[:keep]:
        oldest_kept = step_of(whole[:keep][-1])
        doomed += [
            folder
            for folder in candidates(root)
            if folder not in whole and step_of(folder) < oldest_kept
        ]
    doomed += list(_abandoned(root, attempt))
    for folder in doomed:
        # without its manifest a half-deleted checkpoint can not be taken for a whole one
        (folder / MANIFEST).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
    if doomed:
        sync_folder(root)
    return tuple(doomed)


def _is_finished(folder: Path) -> bool:
    try:
        read_manifest(folder)
    except CheckpointError:
        return False
    return True


def _abandoned(root: Path, attempt: str) -> Iterator[Path]:
    for folder in [*root.glob(f"{TEMPORARY}*"), *root.glob(".old-*")]:
        own = folder.name.startswith(f"{TEMPORARY}{attempt}-")
        try:
            old = time.time() - folder.stat().st_mtime > ABANDONED_AFTER_S
        except FileNotFoundError:
            continue
        if own or old:
            yield folder
