"""What does a run directory say about its attempt?

The request is written once; everything else is only read here, and never trusted: torn, huge,
malformed or linked files count as absent and are named in the message, they are never an error
of the poll.  ``OSError`` means the storage failed, which is not the attempt's fault: the caller
answers ``unknown``.
"""

import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reconciler.domain.attempt import Observation, ObservedState, Outcome
from reconciler.domain.units import AttemptId, Instant
from reconciler.errors import LauncherError
from reconciler.launchers import last_words, run_files
from reconciler.launchers.contract_check import first_problem

LOG_TAIL_BYTES = 16 * 1024
MANIFESTS_LOOKED_AT = 20
LARGEST_STEP = 2**53

_CHECKPOINT = re.compile(r"step-(\d{1,16})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who holds the claim: the wrapper, as one process of one boot of one machine."""

    attempt: str
    pid: int
    start_ticks: int
    boot_id: str
    started_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    step: int
    finished_at: Instant


Aliveness = Callable[[Owner | None], bool]
"""Whether the claim's holder lives; None: claimed, and its owner is not (yet) written."""


def write_request(path: Path, attempt: AttemptId, request: Mapping[str, Any]) -> None:
    """Write ``request.json`` unless the same one is there.

    Raises ``LauncherError`` (not to be retried) where the request breaks its contract, is of
    another attempt, or differs from the one written before under this attempt id.
    """
    problem = first_problem("request", request)
    if not problem and request["attempt"] != attempt:
        problem = f"attempt: it is of {request['attempt']}"
    if problem:
        raise LauncherError(f"{attempt}: request.json is not valid: {problem}", retryable=False)
    content = run_files.to_json(request)
    path.mkdir(parents=True, exist_ok=True)
    if run_files.create(path / run_files.REQUEST, content):
        return
    try:
        before = run_files.read_bytes(path / run_files.REQUEST, run_files.LARGE_FILE_BYTES)
    except run_files.UnreadableError as error:
        raise LauncherError(f"{attempt}: in {path}: {error}", retryable=False) from error
    if before != content:
        raise LauncherError(
            f"{attempt}: {path / run_files.REQUEST} was written before with other content; "
            "an attempt is asked for once, so this needs a person",
            retryable=False,
        )


def observe_run(
    attempt: AttemptId, path: Path, *, now: Instant, is_alive: Aliveness
) -> Observation:
    """Return what the run directory says at ``now``.  Raises ``OSError`` if storage fails."""
    base = Observation(attempt=attempt, state=ObservedState.ABSENT)
    if not _is_claimed(path):
        return base
    # The holder first, its last word second: one that leaves between the two has written it,
    # and a last word that a job forged does not end an attempt whose wrapper lives.
    owner = read_owner(path)
    if is_alive(owner):
        started_at = _instant(owner.started_at, now) if owner is not None else None
        running = replace(base, state=ObservedState.RUNNING, started_at=started_at)
        return _with_progress(running, path, now)
    return _with_result(_with_progress(_ended(base, path, owner, now), path, now), path)


def read_owner(path: Path) -> Owner | None:
    """Return who claimed the run directory; None where that is not, or badly, written."""
    try:
        document = run_files.read_object(path / run_files.OWNER)
        if document is None:
            return None
        return Owner(
            attempt=str(document["attempt"]),
            pid=int(document["pid"]),
            start_ticks=int(document["start_ticks"]),
            boot_id=str(document["boot_id"]),
            started_at=float(document["started_at"]),
        )
    except (run_files.UnreadableError, KeyError, TypeError, ValueError, OverflowError):
        return None


def newest_checkpoint(folder: Path, now: Instant) -> Checkpoint | None:
    """Return the newest checkpoint whose manifest is whole and whose files have its sizes.

    Digests are left to the trainer, which checks them before it resumes.
    """
    if folder.is_symlink() or not folder.is_dir():
        return None
    found = sorted(
        (int(match[1]), entry)
        for entry in folder.iterdir()
        if (match := _CHECKPOINT.fullmatch(entry.name)) and not entry.is_symlink()
    )
    for step, entry in reversed(found[-MANIFESTS_LOOKED_AT:]):
        try:
            manifest = run_files.read_object(entry / "manifest.json", run_files.LARGE_FILE_BYTES)
        except (run_files.UnreadableError, OSError):
            continue
        if manifest is None or first_problem("manifest", manifest):
            continue
        if manifest["step"] == step and _has_sizes(entry, manifest["files"]):
            return Checkpoint(step=step, finished_at=_instant(manifest["finished_at"], now) or now)
    return None


def _ended(base: Observation, path: Path, owner: Owner | None, now: Instant) -> Observation:
    exit_, torn = _read(path / run_files.EXIT, "exit")
    started_at = _instant(owner.started_at, now) if owner is not None else None
    if exit_ is None:
        message = torn or "it ended without a last word: killed, or the machine restarted"
        return replace(base, state=ObservedState.LOST, started_at=started_at, message=message)
    return replace(
        base,
        state=ObservedState.ENDED,
        started_at=_instant(exit_["started_at"], now) or started_at,
        ended_at=_instant(exit_["ended_at"], now),
        exit_status=int(exit_["exit_status"]),
        message="killed when its grace was over" if exit_["killed_after_grace"] else "",
    )


def _with_progress(seen: Observation, path: Path, now: Instant) -> Observation:
    """Add what the heartbeat says, and for a run that ended what its checkpoints say."""
    try:
        beat = run_files.read_object(path / run_files.HEARTBEAT) or {}
    except run_files.UnreadableError:
        beat = {}
    if beat.get("attempt") != seen.attempt:
        beat = {}
    last = beat.get("last_checkpoint")
    last = last if isinstance(last, dict) else {}
    checkpoint_step = _count(last.get("step"))
    checkpoint_at = _instant(last.get("finished_at"), now)
    if checkpoint_step is None or checkpoint_at is None or seen.state != ObservedState.RUNNING:
        durable = newest_checkpoint(path.parent / "checkpoints", now)
        checkpoint_step = durable.step if durable else None
        checkpoint_at = durable.finished_at if durable else None
    return replace(
        seen,
        step=_count(beat.get("step")),
        total_steps=_count(beat.get("total_steps")),
        checkpoint_step=checkpoint_step,
        checkpoint_at=checkpoint_at,
        heartbeat_at=_instant(beat.get("written_at"), now),
    )


def _with_result(seen: Observation, path: Path) -> Observation:
    """Add what the trainer said last; a bad result counts as none, and the message says so."""
    result, problem = _read(path / run_files.RESULT, "result")
    if result is not None and result["attempt"] != seen.attempt:
        problem = f"result.json is of another attempt, {result['attempt']!r}"
    if result is None or problem:
        words = problem or seen.message or _last_words(seen, path)
        return replace(seen, message=last_words.one_line(words))
    words = result["message"] if result["outcome"] != Outcome.SUCCEEDED else ""
    return replace(
        seen,
        outcome=Outcome(result["outcome"]),
        outcome_reason=str(result["reason"])[:64],
        step=_count(result["step"]),
        message=last_words.one_line(words or seen.message),
    )


def _last_words(seen: Observation, path: Path) -> str:
    """Say how it ended, from its own log: a signal by its name, an error by its last line."""
    status = seen.exit_status or 0
    if status == 0:
        return ""
    line = last_words.last_error(run_files.read_tail(path / run_files.STDERR, LOG_TAIL_BYTES))
    if status > 0:
        return line
    number = -status
    known = number in set(signal.Signals)
    killed = f"killed by {signal.Signals(number).name if known else f'signal {number}'}"
    return f"{killed}; it said last: {line}" if line else killed


def _read(path: Path, kind: str) -> tuple[dict[str, Any] | None, str]:
    """Return the document, or None with what is wrong with it (empty: there is no file)."""
    try:
        document = run_files.read_object(path)
    except run_files.UnreadableError as error:
        return None, str(error)
    if document is not None and (problem := first_problem(kind, document)):
        return None, f"{path.name} breaks its contract: {problem}"
    return document, ""


def _is_claimed(path: Path) -> bool:
    try:
        (path / run_files.CLAIM).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _has_sizes(folder: Path, files: Mapping[str, Mapping[str, int]]) -> bool:
    try:
        return all(
            (folder / name).lstat().st_size == about["size"] for name, about in files.items()
        )
    except (OSError, ValueError):
        return False


def _count(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_STEP:
        return value
    return None


def _instant(value: object, now: Instant) -> Instant | None:
    """Return the instant, never later than ``now``: a job's clock orders nothing here."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return Instant(int(min(value, now)))
    return None
