"""Runs git: the only place a git process is started, so every rule about it is written once.

A call sees none of the caller's settings or environment, runs no hook, asks nobody for a
password, checks every object it receives, ends within its timeout, and cannot fill the memory.
Only the standard library is imported, because the read verbs of the command line start here.
"""

import os
import re
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from reconciler.domain.units import CommitId
from reconciler.errors import GitError

LOCAL_TIMEOUT_S = 120.0
NETWORK_TIMEOUT_S = 300.0
MAX_OUTPUT_BYTES = 512 * 1024 * 1024
MAX_STDERR_BYTES = 1024 * 1024
CHUNK_BYTES = 1 << 16
STALE_LOCK_S = 2 * NETWORK_TIMEOUT_S

OBJECT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?", re.ASCII)
NO_OBJECT = "0" * 40
"""What ``update-ref`` takes for "this ref must not exist"."""

SAFE_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "transfer.fsckObjects=true",
    "fetch.fsckObjects=true",
    "protocol.ext.allow=never",
    "fetch.recurseSubmodules=false",
    "log.showSignature=false",
    "log.showRoot=true",
    "gc.auto=0",
    "maintenance.auto=false",
)
ENVIRONMENT = {
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_ALLOW_PROTOCOL": "file:https:ssh",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
}
PASSED_ON = (
    "PATH", "TMPDIR", "SSH_AUTH_SOCK", "GIT_SSH_COMMAND", "GIT_ASKPASS", "SSL_CERT_FILE",
    "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy",
)  # fmt: skip
"""How an operator gives credentials and a way out; nothing else of the environment gets in."""
SAFE_DIRECTORY = "HEADWAY_SAFE_DIRECTORY"
"""Names a repository of another user that may be read all the same (containers in CI)."""

_CREDENTIALS = re.compile(r"([a-z][a-z0-9+.-]*://)[^/@\s]+@", re.IGNORECASE)
_FOREIGN = re.compile(r"dubious ownership in repository at '([^']+)'")
_LOCK = re.compile(r"Unable to create '([^']+\.lock)': File exists")
_SAYS_NOTHING = re.compile(
    r"hint:|fatal: Could not read from remote repository|Please make sure you have the correct|"
    r"and the repository exists|error: failed to push some refs|remote:\s*$"
)
_QUERY = re.compile(r"(https?://[^\s?]+)\?\S+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """What a git command answered.  ``stderr`` is safe to show: no secrets, no control codes."""

    returncode: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        """Return stdout as text without the trailing newline."""
        return self.stdout.decode("utf-8", "replace").rstrip("\n")


def git(
    repo: Path,
    *args: str,
    stdin: bytes = b"",
    ok: tuple[int, ...] | None = (0,),
    timeout_s: float = LOCAL_TIMEOUT_S,
    max_bytes: int = MAX_OUTPUT_BYTES,
    retryable: bool = False,
) -> Completed:
    """Run ``git <args>`` in ``repo`` and return its answer.

    Raises ``GitError`` when the status is not in ``ok`` (None: any will do), when it takes longer
    than ``timeout_s`` or prints more than ``max_bytes``.  ``retryable`` says whether waiting can
    help when it fails (a timeout always is); callers that talk to a remote know better.
    """
    command = args[0] if args else "git"
    try:
        process = subprocess.Popen(
            [*prefix(repo), *args],
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            start_new_session=True,
        )
    except OSError as error:
        raise GitError(f"git {command}: cannot start git: {error.strerror}", retryable=False) from (
            error
        )
    with process:
        try:
            stdout, stderr = _exchange(process, stdin, time.monotonic() + timeout_s, max_bytes)
        except _LimitError as error:
            _kill(process)
            raise GitError(f"git {command}: {error}", retryable=error.retryable) from None
        except BaseException:
            _kill(process)
            raise
    done = Completed(
        returncode=process.returncode, stdout=stdout, stderr=_shown(stderr.decode(errors="replace"))
    )
    is_locked = done.returncode != 0 and _meets_a_lock(done.stderr)
    if ok is not None and done.returncode not in ok:
        raise GitError(failure(repo, command, done), retryable=retryable or is_locked)
    return done


def prefix(repo: Path) -> list[str]:
    """Return the words every git command starts with: where, and the safe settings."""
    words = ["git", "-C", str(repo), "--no-pager", "--no-replace-objects"]
    for setting in SAFE_SETTINGS:
        words += ["-c", setting]
    if trusted := os.environ.get(SAFE_DIRECTORY):
        words += ["-c", f"safe.directory={trusted}"]
    return words


def environment() -> dict[str, str]:
    """Return the whole environment of a git process."""
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {"PATH": os.defpath, **ENVIRONMENT, **passed}


def full_id(text: str) -> CommitId:
    """Return ``text`` as a commit id.  Raises ``GitError`` unless it is a full object id."""
    if not OBJECT_ID.fullmatch(text):
        raise GitError(
            f"{text[:80]!r} is not a full object id (40 or 64 hex digits)", retryable=False
        )
    return CommitId(text)


def find_repository(start: Path) -> Path:
    """Return the git directory that ``start`` lies in.  Raises ``GitError`` outside of one."""
    return Path(git(start, "rev-parse", "--absolute-git-dir").text)


def resolve(repo: Path, revision: str) -> CommitId | None:
    """Return the commit a branch, tag or id names; None when there is none of that name."""
    if revision.startswith("-") or any(ord(char) < 33 for char in revision):
        raise GitError(f"{revision[:80]!r} is not the name of a commit", retryable=False)
    done = git(
        repo, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}",
        ok=(0, 1),
    )  # fmt: skip
    return full_id(done.text) if done.returncode == 0 else None


def without_secrets(text: str) -> str:
    """Return ``text`` with credentials and query strings of URLs struck out."""
    return _QUERY.sub(r"\1?***", _CREDENTIALS.sub(r"\1***@", text))


class _LimitError(Exception):
    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


def _exchange(
    process: "subprocess.Popen[bytes]", stdin: bytes, deadline: float, max_bytes: int
) -> tuple[bytes, bytes]:
    """Feed and read all three pipes at once; raise ``_LimitError`` at the first bound reached."""
    assert process.stdout is not None
    assert process.stderr is not None
    chunks: dict[int, list[bytes]] = {process.stdout.fileno(): [], process.stderr.fileno(): []}
    room = {process.stdout.fileno(): max_bytes, process.stderr.fileno(): MAX_STDERR_BYTES}
    unsent = memoryview(stdin)
    with selectors.DefaultSelector() as pipes:
        for pipe in (process.stdout, process.stderr):
            pipes.register(pipe, selectors.EVENT_READ)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            pipes.register(process.stdin, selectors.EVENT_WRITE)
        while pipes.get_map():
            left = deadline - time.monotonic()
            ready = pipes.select(left) if left > 0 else []
            if not ready:
                raise _LimitError("no answer within its time limit", retryable=True)
            for key, _ in ready:
                if key.fileobj is process.stdin:
                    unsent = _feed(process.stdin, unsent)
                    if not unsent:
                        pipes.unregister(process.stdin)
                        process.stdin.close()
                    continue
                data = os.read(key.fd, CHUNK_BYTES)
                if not data:
                    pipes.unregister(key.fileobj)
                    continue
                room[key.fd] -= len(data)
                if room[key.fd] < 0:
                    raise _LimitError("its answer is larger than allowed", retryable=False)
                chunks[key.fd].append(data)
    try:
        process.wait(max(deadline - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        raise _LimitError("no answer within its time limit", retryable=True) from None
    stdout, stderr = (b"".join(parts) for parts in chunks.values())
    return stdout, stderr


def _feed(pipe: object, unsent: memoryview) -> memoryview:
    try:
        return unsent[os.write(pipe.fileno(), unsent[:CHUNK_BYTES]) :]  # type: ignore[attr-defined]
    except BlockingIOError:
        return unsent
    except BrokenPipeError:  # it ended early; its status and stderr say why
        return unsent[:0]


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End git and what it started: ssh, index-pack, a remote helper."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()


def _meets_a_lock(stderr: str) -> bool:
    """Return True when another git holds a lock; one left by a killed git is removed.

    No command of ours runs longer than its timeout, so a lock older than that has no owner.
    """
    found = _LOCK.search(stderr)
    if found is None:
        return False
    path = Path(found[1])
    try:
        if time.time() - path.stat().st_mtime > STALE_LOCK_S:
            path.unlink()
    except OSError:
        pass  # its owner was faster
    return True


def _shown(stderr: str) -> str:
    text = "".join(char if char.isprintable() or char == "\n" else " " for char in stderr)
    return without_secrets(text)


def failure(repo: Path, command: str, done: Completed) -> str:
    """Return one line for people that says what git said, without its advice and its echoes."""
    if foreign := _FOREIGN.search(done.stderr):
        there = Path(foreign[1])
        way_out = "Run as its owner"
        if repo.is_relative_to(there) or there.is_relative_to(repo):
            way_out += f", or allow it by name: {SAFE_DIRECTORY}={there}"
        return f"git {command}: the repository {there} belongs to another user. {way_out}"
    lines = [line.strip() for line in done.stderr.splitlines()]
    lines = [line for line in lines if line and not _SAYS_NOTHING.match(line)]
    worst = [line for line in lines if line.startswith(("fatal:", "error:"))]
    said = (worst or lines or [f"ended with status {done.returncode}"])[-1]
    return f"git {command}: {said[:400]}"
