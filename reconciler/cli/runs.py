"""Where the run directory of an attempt lies, and what it says, for whoever is on that machine.

The status branch names the root of the run directories on the reconciler's machine.  On any
other machine there is nothing to read: the answer is None, or a message that says where to look.
What a job wrote is read with suspicion: no links, plain files only, sizes bounded.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from reconciler.domain.attempt import Attempt, Outcome
from reconciler.domain.launch import run_path
from reconciler.domain.reason import Reason
from reconciler.domain.status import JobStatus
from reconciler.errors import NotFoundError
from reconciler.launchers import run_files
from reconciler.specs.serialize import Cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How an attempt ended, as its run directory says."""

    outcome: str
    """One of :class:`Outcome`."""
    reason: str = ""
    step: int | None = None
    exit_status: int | None = None
    artifacts: tuple[tuple[str, str], ...] = ()

    @property
    def is_success(self) -> bool:
        return self.outcome == Outcome.SUCCEEDED

    def sentence(self) -> str:
        """Return ``succeeded at step 300``, ``failed (exit status 1)`` and the like."""
        told = self.outcome if self.step is None else f"{self.outcome} at step {self.step}"
        details = [self.reason.replace("_", " ")] if self.reason else []
        if self.exit_status and not self.is_success:
            signal = self.exit_status < 0
            name = f"signal {-self.exit_status}" if signal else f"exit status {self.exit_status}"
            details.append(name)
        return f"{told} ({', '.join(details)})" if details else told


def run_folder(status: JobStatus, number: int, cursor: Cursor | None, root: str | None) -> Path:
    """Return the run directory of attempt ``number``, under ``root`` or what the branch says.

    Raises ``NotFoundError`` where there is no root, or none on this machine.
    """
    runs = root or (cursor.runs if cursor else "")
    if not runs:
        raise NotFoundError(
            "the status branch does not say where runs lie; name the folder with --runs DIR"
        )
    if not Path(runs).is_dir():
        raise NotFoundError(
            f"the logs of {status.job} lie in {runs} on the machine of the reconciler, and that "
            "folder is not here; run this there, or name a mounted copy with --runs DIR"
        )
    return Path(runs) / run_path(status.job, status.submission, status.generation, number)


def local_folder(status: JobStatus, attempt: Attempt, cursor: Cursor | None) -> Path | None:
    """Return the attempt's run directory where it lies on this machine, else None."""
    try:
        folder = run_folder(status, attempt.number, cursor, None)
    except NotFoundError:
        return None
    return folder if folder.is_dir() else None


def heartbeat(folder: Path) -> dict[str, Any] | None:
    """Return the trainer's last heartbeat; None where there is none that can be read."""
    return _object(folder / run_files.HEARTBEAT)


def ending(folder: Path, *, runs_command: bool) -> Ending | None:
    """Return how the attempt ended; None while it runs or where no last word was written.

    A command is judged by its exit status; a training without a result record has failed.
    """
    exit_ = _object(folder / run_files.EXIT)
    if exit_ is None:
        return None
    status = exit_.get("exit_status")
    result = _object(folder / run_files.RESULT)
    if result is None or result.get("outcome") not in set(Outcome):
        succeeded = runs_command and status == 0
        return Ending(
            outcome=str(Outcome.SUCCEEDED if succeeded else Outcome.FAILED),
            reason="" if runs_command or status != 0 else str(Reason.NO_COMPLETION_RECORD),
            exit_status=status,
        )
    step, artifacts = result.get("step"), result.get("artifacts")
    pairs = sorted(artifacts.items()) if isinstance(artifacts, dict) else []
    return Ending(
        outcome=str(result["outcome"]),
        reason=str(result.get("reason", "")),
        step=step if isinstance(step, int) else None,
        exit_status=status,
        artifacts=tuple((str(name), str(path)) for name, path in pairs),
    )


def open_plain(path: Path) -> BinaryIO | None:
    """Return the open file, or None where it is missing, a link, or no plain file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    file = os.fdopen(handle, "rb")
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return file
    file.close()
    return None


def last_lines(file: BinaryIO, count: int) -> int:
    """Return where the last ``count`` lines of the file begin, reading from its end."""
    end = at = file.seek(0, os.SEEK_END)
    seen = 0
    while at > 0:
        size = min(64 * 1024, at)
        at -= size
        file.seek(at)
        chunk = file.read(size)
        for offset in range(len(chunk) - 1, -1, -1):
            if chunk[offset] == 0x0A and at + offset + 1 < end:
                seen += 1
                if seen == count:
                    return at + offset + 1
    return 0


def _object(path: Path) -> dict[str, Any] | None:
    try:
        return run_files.read_object(path)
    except (run_files.UnreadableError, OSError):
        return None
