"""``headway logs``: what a job writes, from its run directory on the reconciler's machine.

``-f`` follows until the attempt ends, then says how it ended on stderr and exits 0 for a
success and 1 for anything else.
"""

import codecs
import sys
from contextlib import closing
from pathlib import Path
from time import sleep
from typing import BinaryIO

import click

from reconciler.cli.branch import open_branch
from reconciler.cli.options import View, complete_job, reads_fleet
from reconciler.cli.runs import Ending, ending, last_lines, open_plain, run_folder
from reconciler.cli.terminal import Terminal, clean_log
from reconciler.domain.attempt import AttemptPhase, Outcome
from reconciler.domain.status import JobStatus
from reconciler.errors import BackendError, NotFoundError
from reconciler.launchers import run_files

CHUNK_BYTES = 64 * 1024
LOOK_EVERY_S = 0.5
ASK_BRANCH_EVERY = 30
"""Looks between two questions to the status branch: an attempt that was lost writes no end."""


@click.command()
@click.argument("job", shell_complete=complete_job)
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Default: the last one.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the attempt ends.")
@click.option("--stderr", "wants_stderr", is_flag=True, help="What it wrote to stderr.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines.")
@click.option("--runs", metavar="DIR", help="Where run directories lie, if not where they were.")
@reads_fleet
def logs(
    view: View,
    job: str,
    attempt: int | None,
    follow: bool,
    wants_stderr: bool,
    tail: int | None,
    runs: str | None,
) -> int:
    """Print what JOB (TEAM/NAME) writes.

    Logs stay on the machine that runs the job. With -f the exit code is the job's outcome: 0
    for success, 1 for anything else.
    """
    status = view.status_of(job)
    number = _attempt_number(status, attempt)
    folder = run_folder(status, number, view.branch.cursor, runs)
    name = run_files.STDERR if wants_stderr else run_files.STDOUT
    with closing(Log(folder / name, view.terminal)) as log:
        found = log.print_new(tail)
        if follow:
            return _follow(view, status, number, folder, log)
    if not found:
        _explain_silence(view, status, number, folder, wants_stderr)
    return 0


class Log:
    """One log file, printed from where the last look ended."""

    def __init__(self, path: Path, terminal: Terminal) -> None:
        self.path = path
        self._is_terminal = terminal.width is not None
        self._file: BinaryIO | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def print_new(self, tail: int | None = None) -> bool:
        """Print what was added since the last look, the first time ``tail`` lines of it.

        Return whether there was anything.
        """
        if self._file is None:
            self._file = open_plain(self.path)
            if self._file is None:
                return False
            if tail is not None:
                self._file.seek(0 if tail else self._file.seek(0, 2))
                if tail:
                    self._file.seek(last_lines(self._file, tail))
        found = False
        while chunk := self._file.read(CHUNK_BYTES):
            found = True
            if self._is_terminal:
                click.echo(clean_log(self._decoder.decode(chunk)), nl=False, color=True)
            else:
                sys.stdout.buffer.write(chunk)
                sys.stdout.buffer.flush()
        return found


def _attempt_number(status: JobStatus, asked: int | None) -> int:
    if not status.attempts_made:
        raise NotFoundError(
            f"{status.job} has not run yet ({status.phase}); "
            f"`headway why {status.job}` says what it waits for"
        )
    if asked is not None and asked > status.attempts_made:
        raise NotFoundError(
            f"{status.job} has made {status.attempts_made} attempts of generation "
            f"{status.generation}; there is no attempt {asked}"
        )
    return asked or status.attempts_made


def _explain_silence(
    view: View, status: JobStatus, number: int, folder: Path, wants_stderr: bool
) -> None:
    if not folder.is_dir():
        raise NotFoundError(
            f"attempt {number} of {status.job} has no run directory {folder}: it is not launched "
            "yet, or its run directory was removed"
        )
    other = run_files.STDOUT if wants_stderr else run_files.STDERR
    file = open_plain(folder / other)
    size = file.seek(0, 2) if file else 0
    if file:
        file.close()
    if size:
        advice = "leave out --stderr" if wants_stderr else "add --stderr"
        view.note(f"nothing here, but {size} bytes in {other}: {advice}")
    else:
        view.note(f"attempt {number} of {status.job} has written nothing yet")


def _follow(view: View, status: JobStatus, number: int, folder: Path, log: Log) -> int:
    looks = 0
    runs_command = any(each.runs_command for each in status.attempts if each.number == number)
    while True:
        ended = ending(folder, runs_command=runs_command)
        log.print_new()
        if ended is None and looks % ASK_BRANCH_EVERY == ASK_BRANCH_EVERY - 1:
            ended = _ended_by_branch(view, status, number)
        if ended is not None:
            log.print_new()
            _say_ending(status, number, ended)
            return 0 if ended.is_success else 1
        looks += 1
        sleep(LOOK_EVERY_S)


def _ended_by_branch(view: View, status: JobStatus, number: int) -> Ending | None:
    """Return how the status branch says the attempt ended; None while it holds it for live."""
    try:
        branch = open_branch(view.repository, cluster=view.branch.ref.cluster)
    except (BackendError, NotFoundError):
        return None
    now = branch.statuses((status.job,)).get(status.job)
    if now is None or (now.submission, now.generation) != (status.submission, status.generation):
        return Ending(outcome="ended", reason="replaced by a new submission")
    for attempt in now.attempts:
        if attempt.number == number:
            if attempt.phase.is_live:
                return None
            reason = str(attempt.reason) if attempt.reason else ""
            return Ending(outcome=str(attempt.phase), reason=reason, step=attempt.step)
    return Ending(outcome="ended", reason="too long ago for the status branch to remember")


def _say_ending(status: JobStatus, number: int, ended: Ending) -> None:
    goes_on = ended.outcome in (Outcome.STOPPED, AttemptPhase.PREEMPTED)
    later = f"; `headway why {status.job}` says when it goes on" if goes_on else ""
    click.echo(f"headway: attempt {number} of {status.job} {ended.sentence()}{later}", err=True)
    for name, path in ended.artifacts:
        click.echo(f"headway: {name}: {path}", err=True)
