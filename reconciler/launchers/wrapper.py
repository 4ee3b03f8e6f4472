"""Runs one attempt's command to its end: ``python -m reconciler.launchers.wrapper DIR -- argv``.

The wrapper is what lives on when the reconciler dies.  It claims the run directory with an
atomic ``mkdir`` (whoever comes second leaves at once and touches nothing), starts the command in
a process group of its own, hands on a request to stop, kills what outlives the grace, ends and
reaps everything the command left behind, and writes ``exit.json`` as its last word.  Where there
is no ``exit.json``, the wrapper was killed: that is what makes an attempt lost.

Stdlib only, so that it starts in a few hundredths of a second.
"""

import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.launchers import processes, run_files

DUPLICATE = 79
"""Exit code of a wrapper that found the run directory claimed."""
USAGE = 64
LEADER_ONLY = "--tell-leader-only"

TICK_S = 0.2
"""How often the stop file is looked for."""
LEFTOVER_GRACE_S = 2.0
"""Between SIGTERM and SIGKILL for what outlives the command."""
EXIT_RETRY_S = 1.0
DEFAULT_GRACE_S = 600.0
"""For a run directory whose request does not say."""

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_WATCHED = (*_STOP_SIGNALS, signal.SIGCHLD)
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(slots=True)
class Run:
    """One command under way.  Times called ``_clock`` are monotonic, others Unix seconds."""

    folder: Path
    membership: processes.Membership
    request_grace_s: float
    tells_leader_only: bool = False
    """SIGTERM goes to the command's first process, which hands it on, and not to its group."""
    started_at: float = field(default_factory=time.time)
    pid: int = 0
    status: int | None = None
    """The command's wait status, read by ``os.waitstatus_to_exitcode``."""
    kill_clock: float | None = None
    """When the grace ends; None: nobody asked to stop."""
    killed_after_grace: bool = False

    def ask_to_stop(self, grace_s: float) -> None:
        """Send SIGTERM once; of several requests the earliest end of grace holds."""
        kill_clock = time.monotonic() + grace_s
        if self.kill_clock is None:
            self.kill_clock = kill_clock
            if self.status is None:
                tell = os.kill if self.tells_leader_only else os.killpg
                with suppress(ProcessLookupError):
                    tell(self.pid, signal.SIGTERM)
        self.kill_clock = min(self.kill_clock, kill_clock)

    def reap(self) -> None:
        """Collect every child that ended; the kernel gives us those whose parents are gone."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.pid:
                self.status = os.waitstatus_to_exitcode(status)

    def belonging(self) -> tuple[processes.Process, ...]:
        """Return everything of this attempt that still runs, but for this process."""
        running = processes.running()
        below = processes.descendants({os.getpid()}, running)
        carrying = processes.members((self.membership,))[self.membership]
        return tuple({**{p.pid: p for p in carrying}, **{i: running[i] for i in below}}.values())


def main(argv: Sequence[str]) -> int:
    """Run the command; return 0 once ``exit.json`` is written, 79 for a duplicate."""
    options, command = _split(argv)
    if not options or not command or options[1:] not in ([], [LEADER_ONLY]):
        sys.stderr.write(
            f"usage: python -m reconciler.launchers.wrapper RUN_DIR [{LEADER_ONLY}] -- COMMAND...\n"
        )
        return USAGE
    folder = Path(options[0]).resolve()
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    if os.getpgrp() != os.getpid():
        os.setsid()
    try:
        (folder / run_files.CLAIM).mkdir()
    except FileExistsError:
        sys.stderr.write(f"{folder} is claimed already: nothing to do\n")
        return DUPLICATE
    run = _claimed(folder)
    run.tells_leader_only = LEADER_ONLY in options
    _adopt_orphans()
    try:
        _run_command(run, command)
    except BaseException:
        # A wrapper that cannot go on must not leave the devices in use behind its back.
        processes.send(run.belonging(), signal.SIGKILL)
        raise
    _write_exit(run)
    return 0


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what stands before and after the first ``--``."""
    at = list(argv).index("--") if "--" in argv else len(argv)
    return list(argv[:at]), list(argv[at + 1 :])


def _claimed(folder: Path) -> Run:
    """Say who holds the claim, and keep room on the disk for the last word."""
    request = {}
    with suppress(OSError, run_files.UnreadableError):
        request = (
            run_files.read_object(folder / run_files.REQUEST, run_files.LARGE_FILE_BYTES) or {}
        )
    attempt = os.environ.get(processes.ATTEMPT_VARIABLE) or str(request.get("attempt", ""))
    membership = processes.Membership(attempt, str(folder))
    os.environ[processes.ATTEMPT_VARIABLE] = membership.attempt
    os.environ[processes.RUN_DIR_VARIABLE] = membership.run_dir
    run = Run(
        folder=folder,
        membership=membership,
        request_grace_s=_grace(request, DEFAULT_GRACE_S),
    )
    own = processes.look(os.getpid())
    owner = {
        "version": run_files.VERSION,
        "attempt": attempt,
        "pid": os.getpid(),
        "start_ticks": own.start_ticks if own is not None else 0,
        "boot_id": processes.boot_id(),
        "host": socket.gethostname(),
        "started_at": run.started_at,
    }
    run_files.replace(folder / run_files.OWNER, run_files.to_json(owner))
    run_files.replace(folder / run_files.EXIT_RESERVE, b" " * 4096)
    return run


def _run_command(run: Run, command: list[str]) -> None:
    """Start the command, see it through, and end what it left behind."""
    if (run.folder / run_files.STOP).exists():
        run.status = -signal.SIGTERM
        return
    _start(run, command)
    while run.status is None:
        _wait_a_tick(run)
        if run.kill_clock is not None and time.monotonic() >= run.kill_clock:
            run.reap()
            if run.status is None:
                run.killed_after_grace = True
                processes.send(run.belonging(), signal.SIGKILL)
    _end_leftovers(run)


def _start(run: Run, command: list[str]) -> None:
    (run.folder / run_files.WORK).mkdir(exist_ok=True)
    os.chdir(run.folder / run_files.WORK)
    log = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        run.pid = os.posix_spawnp(
            command[0],
            command,
            os.environ,
            file_actions=(
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, run.folder / run_files.STDOUT, log, 0o644),
                (os.POSIX_SPAWN_OPEN, 2, run.folder / run_files.STDERR, log, 0o644),
            ),
            setpgroup=0,
            setsigmask=(),
            setsigdef=(*_WATCHED, signal.SIGPIPE, signal.SIGXFSZ),
        )
    except OSError as error:
        run.status = 127 if isinstance(error, FileNotFoundError) else 126
        message = f"cannot start {command[0]!r}: {error.strerror}\n"
        with suppress(OSError), (run.folder / run_files.STDERR).open("a", encoding="utf-8") as log_:
            log_.write(message)


def _wait_a_tick(run: Run) -> None:
    """Wait for a signal, an ended child or a tick, and take note of requests to stop."""
    received = signal.sigtimedwait(_WATCHED, TICK_S)
    if received is not None and received.si_signo in _STOP_SIGNALS:
        run.ask_to_stop(run.request_grace_s)
    path = run.folder / run_files.STOP
    if path.exists():
        request = {}
        with suppress(OSError, run_files.UnreadableError):
            request = run_files.read_object(path) or {}
        run.ask_to_stop(_grace(request, run.request_grace_s))
    run.reap()


def _end_leftovers(run: Run) -> None:
    """Return only when nothing of the attempt runs: its devices are really free then.

    A process that not even SIGKILL ends (it hangs in a driver) still holds its device, so
    there is no time limit here.
    """
    begun = time.monotonic()
    sent: set[processes.Process] = set()
    while left := run.belonging():
        patience_over = time.monotonic() - begun > LEFTOVER_GRACE_S
        if patience_over or run.killed_after_grace:
            processes.send(left, signal.SIGKILL)
        else:
            processes.send([one for one in left if one not in sent], signal.SIGTERM)
            sent.update(left)
        signal.sigtimedwait(_WATCHED, TICK_S if not patience_over else 5 * TICK_S)
        run.reap()
    run.reap()


def _write_exit(run: Run) -> None:
    """Write the last word into room kept since the start; wait for a disk that refuses it."""
    word = {
        "version": run_files.VERSION,
        "attempt": run.membership.attempt,
        "exit_status": run.status,
        "started_at": run.started_at,
        "ended_at": time.time(),
        "killed_after_grace": run.killed_after_grace,
    }
    content = run_files.to_json(word)
    reserve, path = run.folder / run_files.EXIT_RESERVE, run.folder / run_files.EXIT
    while True:
        try:
            try:
                with reserve.open("r+b") as file:
                    file.write(content)
                    file.truncate()
                    file.flush()
                    os.fsync(file.fileno())
                reserve.replace(path)
                run_files.sync_folder(run.folder)
            except FileNotFoundError:
                run_files.replace(path, content)
        except OSError as error:
            sys.stderr.write(f"cannot write {path}: {error.strerror}; trying again\n")
            time.sleep(EXIT_RETRY_S)
        else:
            return


def _grace(document: dict[str, object], otherwise: float) -> float:
    grace_s = document.get("grace_s")
    if isinstance(grace_s, int | float) and not isinstance(grace_s, bool) and grace_s >= 0:
        return float(grace_s)
    return otherwise


def _adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, where Linux allows it."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
