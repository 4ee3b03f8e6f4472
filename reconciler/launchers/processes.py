"""Which processes belong to an attempt, read from ``/proc``; and how to end them, and no others.

Stdlib only, because the wrapper imports it.  A process is known by its pid, its start time and
the machine's boot id, so a number used again is never taken for the old process.  Members of an
attempt carry ``HEADWAY_ATTEMPT_ID`` and ``HEADWAY_RUN_DIR`` in the environment they were started
with (workers of torch's elastic agent sit in process groups of their own, and daemons leave
their parents, so neither groups nor parents find them all); children of members count as well.
Nothing is ever looked up by name.
"""

import errno
import os
import signal
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ATTEMPT_VARIABLE = "HEADWAY_ATTEMPT_ID"
RUN_DIR_VARIABLE = "HEADWAY_RUN_DIR"

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """One process for ever: ``start_ticks`` is its start in clock ticks since the boot."""

    pid: int
    start_ticks: int
    parent: int = 0


@dataclass(frozen=True, slots=True)
class Membership:
    """What the members of one attempt carry in their environment."""

    attempt: str
    run_dir: str


def boot_id() -> str:
    """Return the id of this boot of this machine; empty where the kernel does not tell."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def look(pid: int) -> Process | None:
    """Return the process, or None where it is gone or only waits to be reaped."""
    try:
        text = (PROC / str(pid) / "stat").read_bytes().decode(errors="replace")
    except OSError:
        return None
    # The command name in parentheses may hold spaces and parentheses itself.
    fields = text[text.rfind(")") + 2 :].split()
    if len(fields) < 20 or fields[0] in "ZXx":
        return None
    return Process(pid=pid, start_ticks=int(fields[19]), parent=int(fields[1]))


def is_alive(pid: int, start_ticks: int, boot: str) -> bool:
    """Return whether exactly this process still runs on this boot of the machine."""
    if boot != boot_id():
        return False
    process = look(pid)
    return process is not None and process.start_ticks == start_ticks


def running() -> dict[int, Process]:
    """Return every process of the machine by pid."""
    found = {}
    for name in os.listdir(PROC):  # noqa: PTH208 - names only, and it runs often
        if name.isdigit() and (process := look(int(name))) is not None:
            found[process.pid] = process
    return found


def descendants(roots: Collection[int], processes: Mapping[int, Process]) -> set[int]:
    """Return the pids of the children of ``roots``, their children, and so on."""
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def members(wanted: Collection[Membership]) -> dict[Membership, tuple[Process, ...]]:
    """Return the processes of each attempt, sorted by pid, with one look at the machine.

    This process and its own parents are never among them.
    """
    processes = running()
    carriers: dict[Membership, set[int]] = {one: set() for one in wanted}
    for pid in processes:
        membership = _membership(pid)
        if membership in carriers:
            carriers[membership].add(pid)
    spared = _lineage(os.getpid(), processes)
    return {
        one: tuple(
            processes[pid]
            for pid in sorted((pids | descendants(pids, processes)) - spared)
            if pid in processes
        )
        for one, pids in carriers.items()
    }


def send(processes: Iterable[Process], number: signal.Signals) -> int:
    """Signal those that still are the same process; return how many were reached."""
    return sum(_send_one(process, number) for process in processes)


def _send_one(process: Process, number: signal.Signals) -> bool:
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM, errno.EINVAL):
            raise
        handle = -1
    try:
        # The handle is bound to one process, so checking after opening leaves no gap.
        now = look(process.pid)
        if now is None or now.start_ticks != process.start_ticks:
            return False
        if handle >= 0:
            signal.pidfd_send_signal(handle, number)
        else:
            os.kill(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        if handle >= 0:
            os.close(handle)
    return True


def _membership(pid: int) -> Membership | None:
    try:
        content = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    attempt = run_dir = ""
    for pair in content.split(b"\0"):
        name, _, value = pair.partition(b"=")
        if name == ATTEMPT_VARIABLE.encode():
            attempt = os.fsdecode(value)
        elif name == RUN_DIR_VARIABLE.encode():
            run_dir = os.fsdecode(value)
    return Membership(attempt, run_dir) if attempt and run_dir else None


def _lineage(pid: int, processes: Mapping[int, Process]) -> set[int]:
    found = {1}
    while pid > 1 and pid not in found:
        found.add(pid)
        process = processes.get(pid)
        pid = process.parent if process is not None else 1
    return found
