"""``headway bisect-eta``: the commit that moved a job's predicted start, and why it did."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli.commands.eta_report import signed
from reconciler.cli.options import View, complete_job, job_of, reads_history
from reconciler.cli.output import emit, instant, output_option
from reconciler.cli.phrases import count
from reconciler.cli.predictions import Version, versions
from reconciler.cli.terminal import clean
from reconciler.cli.times import parse_since, time_of_day
from reconciler.domain.units import CommitId, JobId
from reconciler.errors import NotFoundError
from reconciler.store.git.command import git

if TYPE_CHECKING:
    from reconciler.engine.bisect_eta import Move

JOBS_SHOWN = 5
CAUSES = {
    "main": "what people committed",
    "statuses": "what became of jobs",
    "machines": "the state of nodes",
    "time": "the time that passed",
}


@click.command("bisect-eta")
@click.argument("job", shell_complete=complete_job)
@click.option("--since", metavar="WHEN", help="How long ago (2d), a date, or RFC 3339.")
@output_option("text", "json", "yaml", default="text")
@reads_history
def bisect_eta(view: View, job: str, since: str | None, output: str) -> None:
    """Find the commit that moved the predicted start of JOB (TEAM/NAME) the most.

    The published forecasts say when it moved; every decision in between is planned again from
    commits alone, and each part of what changed is tried on its own.
    """
    name = job_of(job)
    from_when = parse_since(since, view.zone, view.now) if since else None
    older, newer = _span(view, name, versions(view.repository.git_dir, view.branch.ref.commit,
                                              from_when))  # fmt: skip
    from reconciler.engine.bisect_eta import find_move

    move = find_move(view.repository.git_dir, name, older, newer)
    if output != "text":
        emit({"kind": "EtaMove", "state": view.state_item(), "job": name,
              "move": None if move is None else item(move)}, output)  # fmt: skip
    elif move is None:
        view.say(f"The predicted start of {clean(name)} did not move by ten minutes or more.")
    else:
        view.say("\n".join(_lines(view, name, move)))


def _span(view: View, job: JobId, published: Sequence[Version]) -> tuple[CommitId, CommitId]:
    """Return the two commits of the status branch between which its start moved the most.

    Where the forecast was not published twice for it, that is the whole branch.
    """
    known = [version for version in published if job in version.forecast.jobs]
    moves = [
        (abs(after.forecast.jobs[job].start_p50 - before.forecast.jobs[job].start_p50), -at)
        for at, (before, after) in enumerate(pairwise(known))
    ]
    if moves and max(moves)[0]:
        at = -max(moves)[1]
        return known[at].commit, known[at + 1].commit
    tip = view.branch.ref.commit
    if job not in view.branch.jobs:
        raise NotFoundError(f"no job {job} on {view.branch.ref.name}; `headway queue` lists them")
    first = git(view.repository.git_dir, "rev-list", "--first-parent", "--max-parents=0", tip).text
    return CommitId(first.splitlines()[-1]), tip


def _lines(view: View, job: JobId, move: "Move") -> list[str]:
    def clock(at: int) -> str:
        return time_of_day(at, view.zone, view.now)  # type: ignore[arg-type]

    later = "later" if move.moved_s > 0 else "sooner"
    because = " and ".join(CAUSES[cause.value] for cause in move.causes)
    lines = [
        f"The predicted start of {clean(job)} moved {signed(move.moved_s)} ({later}):"
        f" ~{clock(move.start_before)} -> ~{clock(move.start_after)}.",
        f"  with decision {move.after[:10]} (the one before: {move.before[:10]})",
        f"  cause: {because}"
        if because
        else "  cause: none of its parts alone; several together moved it",
    ]
    if move.main is not None:
        lines.append("  main:")
        lines += [f"    {line}" for line in _between(view, *move.main)]
    if move.changed_jobs:
        named = ", ".join(clean(each) for each in move.changed_jobs[:JOBS_SHOWN])
        more = len(move.changed_jobs) - JOBS_SHOWN
        lines.append(f"  jobs: {named}{f' and {more} more' if more > 0 else ''}")
    lines += [f"  node {each}" for each in move.changed_nodes]
    return lines


def _between(view: View, before: CommitId, after: CommitId) -> list[str]:
    listed = git(
        view.repository.git_dir, "log", "--first-parent", "--format=%h %an: %s",
        "--end-of-options", f"{before}..{after}",
    ).text  # fmt: skip
    shown = [clean(line) for line in listed.splitlines()]
    return shown or [f"{count(0, 'commit')} between {before[:10]} and {after[:10]}"]


def item(move: "Move") -> dict[str, Any]:
    """Return one move as JSON."""
    return {
        "before": move.before,
        "after": move.after,
        "start_before": instant(move.start_before),
        "start_after": instant(move.start_after),
        "moved_s": move.moved_s,
        "causes": [cause.value for cause in move.causes],
        "main": None if move.main is None else list(move.main),
        "changed_jobs": list(move.changed_jobs),
        "changed_nodes": list(move.changed_nodes),
    }
