"""What every read verb takes and gets: which repository, which clock, which colours.

``@reads_fleet`` adds the options and hands the command one :class:`View`.  The clock is read
once a command, so that one screen shows one instant; tests hand in their own through the
context's object.
"""

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial, wraps
from typing import Any, TypeVar

import click

from reconciler.cli.branch import StatusBranch, open_branch
from reconciler.cli.footer import footer_line
from reconciler.cli.output import instant
from reconciler.cli.repository import Repository
from reconciler.cli.terminal import Terminal, find_terminal
from reconciler.cli.times import duration, find_zone
from reconciler.domain.status import JobStatus
from reconciler.domain.units import Instant, JobId
from reconciler.errors import BackendError, NotFoundError, UsageError

Command = TypeVar("Command", bound=Callable[..., Any])
_ATTEMPT = re.compile(r"([a-z0-9-]+)\.([a-z0-9-]+)-g[0-9]+-a[0-9]+-[0-9a-f]{10}")
STALE_AFTER_S = 300
"""A reconciler unseen for this long is worth a warning: it proves itself far more often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a test replaces: where the time comes from."""

    clock: Callable[[], float] = time.time


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one read verb works with."""

    repository: Repository
    branch: StatusBranch
    now: Instant
    zone: tzinfo
    terminal: Terminal
    is_quiet: bool
    again: Callable[[], "View"]
    """Looks again: the newest state, at a newer instant."""

    def status_of(self, name: str) -> JobStatus:
        """Return the status of the job ``name`` says.  Raises ``NotFoundError`` with advice."""
        job = job_of(name)
        status = self.branch.statuses((job,)).get(job)
        if status is not None:
            return status
        if self.branch.reservations((job,)):
            raise UsageError(f"{job} is a reservation: see `headway describe {job}`")
        if job in self.branch.jobs:
            raise BackendError(
                f"the status of {job} cannot be read by this version; "
                "use the headway that wrote it, or a newer one",
                retryable=False,
            )
        raise NotFoundError(self._no_such_job(job))

    def _no_such_job(self, job: JobId) -> str:
        from difflib import get_close_matches

        known = self.branch.jobs
        near = get_close_matches(job, known, n=1)
        same_name = [each for each in known if each.partition("/")[2] == job.partition("/")[2]]
        advice = near or same_name[:1]
        said = f"no job {job} on {self.branch.ref.name}"
        if advice:
            return f"{said}; did you mean {advice[0]}?"
        return f"{said}; `headway get jobs` lists them (a new job appears with the next cycle)"

    def state_item(self) -> dict[str, Any]:
        """Return where and when the state was read, for JSON."""
        return {
            "cluster": self.branch.ref.cluster,
            "commit": self.branch.ref.commit,
            "committed_at": instant(self.branch.ref.committed_at),
            "seen_at": instant(self.branch.seen_at),
            "age_s": max(self.now - self.branch.seen_at, 0),
        }

    def footer(self, shown: int, statuses: Iterable[JobStatus], *, hidden: int = 0) -> str:
        """Return the line under a table; empty with ``-q``."""
        if self.is_quiet:
            return ""
        line = footer_line(self.branch, statuses, self.zone, self.now, shown=shown, hidden=hidden)
        return self.terminal.paint(line, "dim")

    def say(self, text: str, *, steers: bool = False) -> None:
        """Print text that may be painted; click is not to judge the stream a second time.

        ``steers``: the text moves the cursor, and ends where it says.
        """
        click.echo(text, nl=not steers, color=steers or self.terminal.color)

    def note(self, text: str) -> None:
        """Say something beside the output, on stderr, unless ``-q``."""
        if not self.is_quiet:
            _say(text)


def _say(text: str) -> None:
    click.echo(f"headway: {text}", err=True)


def _silence(_: str) -> None:
    """Say nothing: the person asked for quiet."""


def job_of(name: str) -> JobId:
    """Return the job that ``team/name``, ``job/team/name``, the path of its file or the id of one
    of its attempts says.  Raises ``UsageError``.
    """
    if attempt := _ATTEMPT.fullmatch(name):
        return JobId(f"{attempt[1]}/{attempt[2]}")
    parts = name.removesuffix(".yaml").split("/")
    if parts[0] in ("job", "jobs", "reservation") and len(parts) == 3:
        parts = parts[1:]
    if len(parts) != 2 or not all(parts):
        raise UsageError(f"{name}: name a job as TEAM/NAME, such as recsys/qwen3-dpo")
    return JobId("/".join(parts))


def complete_job(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the jobs that start with ``incomplete``, from the names on the status branch."""
    defaults = (ctx.parent.params if ctx.parent else {}) | ctx.params
    try:
        repository = Repository.find(defaults.get("repo"))
        jobs = open_branch(repository, cluster=defaults.get("cluster"), fetches=False).jobs
    except (BackendError, NotFoundError, UsageError):
        return []
    return [job for job in jobs if job.startswith(incomplete)]


def reads_fleet(command: Command) -> Command:
    """Add the options of a read verb and pass the command a ``view`` of the status branch."""
    return _reads(command, also_main=False)


def reads_history(command: Command) -> Command:
    """Do as :func:`reads_fleet`, and bring the people's branches up to date too."""
    return _reads(command, also_main=True)


def _reads(command: Command, *, also_main: bool) -> Command:
    @wraps(command)
    @click.pass_context
    def wrapped(ctx: click.Context, /, **given: Any) -> Any:
        session = ctx.find_object(Session) or Session()
        asked = Asked(
            is_quiet=bool(given.pop("quiet")),
            zone=find_zone(given.pop("tz")),
            terminal=find_terminal(given.pop("color")),
            repository=Repository.find(given.pop("repo")),
            cluster=given.pop("cluster"),
            fetches=not given.pop("no_fetch"),
            also_main=also_main,
        )
        view = asked.open(session)
        if given.pop("verbose"):
            _say(f"reading {view.branch.ref.name} in {view.repository.git_dir}")
        return command(view=view, **given)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the options of a read verb say; opening it again is looking again."""

    is_quiet: bool
    zone: tzinfo
    terminal: Terminal
    repository: Repository
    cluster: str | None
    fetches: bool
    also_main: bool

    def open(self, session: Session) -> View:
        """Return the newest state.  Raises ``NotFoundError``, ``UsageError`` or ``GitError``."""
        now = Instant(int(session.clock()))
        branch = open_branch(
            self.repository,
            cluster=self.cluster,
            fetches=self.fetches,
            also_main=self.also_main,
            say=_silence if self.is_quiet else _say,
        )
        view = View(
            repository=self.repository,
            branch=branch,
            now=now,
            zone=self.zone,
            terminal=self.terminal,
            is_quiet=self.is_quiet,
            again=partial(self.open, session),
        )
        if now - branch.seen_at > STALE_AFTER_S:
            view.note(
                f"warning: no sign of a reconciler for {duration(now - branch.seen_at)}; "
                "what follows may be out of date"
            )
        return view


_OPTIONS = (
    click.option(
        "--repo",
        metavar="PATH",
        envvar="HEADWAY_REPO",
        help="Clone or bare repository.  [HEADWAY_REPO, or here]",
    ),
    click.option("--cluster", metavar="ID", help="Which status branch, where there are several."),
    click.option("--no-fetch", is_flag=True, help="Read what is here; ask no remote."),
    click.option("--tz", metavar="ZONE", help="Show clock times in this zone."),
    click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        help="Colour the words.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="No footers, no warnings."),
    click.option("-v", "--verbose", is_flag=True, help="Say what is read, and whence."),
)

team_option = click.option("--team", metavar="TEAM", help="Only this team's jobs.")
