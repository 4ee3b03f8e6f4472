"""``headway plan``: what a change would do to the schedule, before it is merged."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli.branch import StatusBranch, open_branch
from reconciler.cli.options import Session
from reconciler.cli.output import emit, instant, output_option
from reconciler.cli.repository import Repository
from reconciler.cli.tables import render
from reconciler.cli.terminal import Terminal, find_terminal
from reconciler.cli.times import find_zone
from reconciler.domain.units import Instant
from reconciler.errors import UsageError

if TYPE_CHECKING:
    from reconciler.preview.changes import Override, Preview

FOUND = 1
NOT_EMPTY = 2


@click.command()
@click.argument("words", nargs=-1, metavar="[FILE [KEY=VALUE]...]")
@click.option("--base", metavar="REF", help="What the change is merged into.  [default: main]")
@click.option("--repo", metavar="PATH", envvar="HEADWAY_REPO", help="The fleet's repository.")
@click.option("--cluster", metavar="ID", help="Which status branch, where there are several.")
@click.option("--no-fetch", is_flag=True, help="Read what is here; ask no remote.")
@click.option("--tz", metavar="ZONE", help="Show clock times in this zone.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto")
@click.option("--detailed-exitcode", is_flag=True, help="Exit with 2 where something changes.")
@click.option("--format-errors", "form", default="text", metavar="FORM",
              type=click.Choice(["text", "github", "json", "sarif"]),
              help="How mistakes are printed: text, github, json, sarif.")  # fmt: skip
@output_option("table", "json")
@click.pass_context
def plan(
    ctx: click.Context,
    words: tuple[str, ...],
    base: str | None,
    repo: str | None,
    cluster: str | None,
    no_fetch: bool,
    tz: str | None,
    color: str,
    detailed_exitcode: bool,
    form: str,
    output: str,
) -> None:
    """Show what this branch, and what is edited here, would do to the schedule.

    The change is laid over the newest main and planned beside it, over the fleet's state of now:
    start, end and place of each job that changes, who is displaced and who is asked to leave.
    FILE with KEY=VALUE tries Hydra overrides of one job without writing them.

    Exit codes: 0 planned, whatever it says; 1 the change is invalid; 2 with --detailed-exitcode,
    planned and not empty; 5 this clone cannot tell what changed.
    """
    from reconciler.cli.plan_words import Words, item
    from reconciler.cli.specs_options import print_problems, spec_source

    repository = Repository.find(repo)
    zone, terminal = find_zone(tz), find_terminal(color)
    now = Instant(int((ctx.find_object(Session) or Session()).clock()))
    branch = _branch(repository, cluster, fetches=not no_fetch)
    source = spec_source(repo, None)
    found = _preview(repository, source, branch, words, base, now)
    if found.problems:
        print_problems(
            found.problems, form, source, files=max(len(found.change.edited), 1), err=True
        )
    if found.is_refused:
        ctx.exit(FOUND)
    state = _state(branch, now)
    if output == "json":
        emit(item(found, state), output)
    else:
        _print(found, Words(found, zone), state, terminal)
    ctx.exit(NOT_EMPTY if detailed_exitcode and found else 0)


def _preview(
    repository: Repository,
    source: Any,
    branch: StatusBranch | None,
    words: Sequence[str],
    base: str | None,
    now: Instant,
) -> "Preview":
    from reconciler.cli.working_tree import WorkingTree
    from reconciler.preview.changes import preview
    from reconciler.preview.revisions import open_change

    work_tree = source.tree if isinstance(source.tree, WorkingTree) else None
    change = open_change(
        repository.git_dir,
        base or (f"{repository.remote}/main" if repository.remote else "main"),
        work_tree=work_tree,
        changed=source.changed(),
    )
    return preview(
        repository.git_dir,
        change,
        status_commit=branch.ref.commit if branch else None,
        now=now,
        override=_override(words, source),
        cache=source.cache(),
    )


def _override(words: Sequence[str], source: Any) -> "Override | None":
    from reconciler.preview.changes import Override
    from reconciler.specs.paths import job_at

    if not words:
        return None
    if "=" in words[0]:
        raise UsageError(f"say which file {words[0]} is for: headway plan jobs/TEAM/NAME.yaml ...")
    path = source.path_of(words[0])
    if job_at(path) is None:
        raise UsageError(f"{words[0]}: only documents under jobs/<team>/<name>.yaml are planned")
    strange = [word for word in words[1:] if "=" not in word]
    if strange:
        raise UsageError(f"{strange[0]}: an override is KEY=VALUE; only one FILE is taken")
    return Override(path=path, words=tuple(words[1:])) if words[1:] else None


def _branch(repository: Repository, cluster: str | None, *, fetches: bool) -> StatusBranch | None:
    """Return the status branch; None where no reconciler ever wrote one."""

    def say(text: str) -> None:
        click.echo(f"headway: {text}", err=True)

    if fetches:
        trouble = repository.fetch(also_main=True)
        if trouble:
            say(f"warning: {trouble}; planning with what is here")
    refs, _ = repository.status_refs()
    if not refs and cluster is None:
        return None
    return open_branch(repository, cluster=cluster, fetches=False, say=say)


def _state(branch: StatusBranch | None, now: Instant) -> dict[str, Any] | None:
    if branch is None:
        return None
    return {
        "cluster": branch.ref.cluster,
        "commit": branch.ref.commit,
        "seen_at": instant(branch.seen_at),
        "age_s": max(now - branch.seen_at, 0),
    }


def _print(found: "Preview", words: Any, state: dict[str, Any] | None, terminal: Terminal) -> None:
    from reconciler.cli.plan_words import HEADS, nothing, state_words

    lines = []
    if found:
        if found.jobs or found.reservations:
            lines.append(render(HEADS, words.rows(), terminal))
        lines += [*words.notes(), *words.effects()]
    else:
        lines.append(nothing(len(found.change.edited)))
    told = state_words(state["age_s"], state["cluster"]) if state else state_words(None, None)
    lines.append(words.summary(told))
    click.echo("\n".join(lines), color=terminal.color)
