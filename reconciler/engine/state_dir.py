"""What does one reconciler keep on its own disk?  Nothing that cannot be read again.

``--state DIR`` holds the git mirror, the composition cache, the outbox of notifications, crash
snapshots, and a lock: two reconcilers on one folder would fight over the mirror, so the second
is refused.  Losing the folder loses nothing that was decided; all of that is on the branches.
"""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reconciler.domain.units import CommitId, Instant, rfc3339
from reconciler.errors import DeposedError

CRASHES_KEPT = 20


class StateDir:
    """One folder; made where it does not exist, readable by its owner alone."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)

    @property
    def mirror(self) -> Path:
        """Where the bare mirror of the fleet's repository lies."""
        return self.path / "mirror.git"

    @property
    def outbox(self) -> Path:
        return self.path / "outbox"

    @property
    def cache(self) -> Path:
        return self.path / "cache"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's lock.  Raises ``DeposedError`` where another process has it."""
        handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                other = os.read(handle, 32).decode(errors="replace").strip() or "unknown"
                raise DeposedError(
                    f"another reconciler (pid {other}) runs on {self.path}; stop it first, or "
                    "give this one another --state folder"
                ) from None
            os.truncate(handle, 0)
            os.write(handle, f"{os.getpid()}\n".encode())
            yield
        finally:
            os.close(handle)

    def handed_on(self) -> CommitId | None:
        """Return the status commit up to which notifications are in the outbox."""
        path = self.path / "handed_on"
        return CommitId(path.read_text(encoding="ascii").strip()) if path.exists() else None

    def hand_on(self, commit: CommitId) -> None:
        """Remember that notifications up to ``commit`` are in the outbox."""
        _replace(self.path / "handed_on", commit)

    def save_crash(self, document: Any, now: Instant) -> Path:
        """Write a snapshot that broke an invariant and return its path; the newest 20 stay."""
        folder = self.path / "crashes"
        folder.mkdir(exist_ok=True, mode=0o700)
        path = folder / f"{rfc3339(now).replace(':', '')}-{secrets.token_hex(2)}.json"
        _replace(path, json.dumps(document, sort_keys=True, indent=1))
        for old in sorted(folder.glob("*.json"))[:-CRASHES_KEPT]:
            old.unlink()
        return path


def _replace(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.part")
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
