"""``headway validate``: every mistake in the specs, with line, column and what to do."""

import time
from collections.abc import Collection, Sequence

import click

from reconciler.cli.options import Session
from reconciler.cli.specs_options import (
    SpecSource,
    check_cluster,
    print_problems,
    reads_specs,
    spec_source,
)
from reconciler.cli.working_tree import changed_since
from reconciler.domain.problem import SpecProblem
from reconciler.domain.units import Instant
from reconciler.specs.entries import SpecReading, has_errors
from reconciler.specs.reading import read_specs
from reconciler.specs.submission import submission_problems


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--base",
    metavar="REF",
    help="Report what changed since REF (the pull request's base): other files' mistakes are "
    "counted, not charged.",
)
@reads_specs
@click.pass_context
def validate(
    ctx: click.Context,
    paths: tuple[str, ...],
    base: str | None,
    repo: str | None,
    at: str | None,
    cluster: str | None,
    form: str,
) -> None:
    """Check specs: text, composition, shape, and whether they could ever run here.

    Without PATH everything under conf/ and jobs/ is checked, as it lies here.  A P0 deadline is
    judged where the job is new or changed, as it is once when submitted.
    """
    source = spec_source(repo, at)
    check_cluster(cluster, source.tree.entries)
    wanted = [source.path_of(path) for path in paths]
    now = Instant(int((ctx.find_object(Session) or Session(clock=time.time)).clock()))
    reading = read_specs(source.tree, cache=source.cache(), cluster=cluster)
    changed = set(source.changed())
    if base is not None:
        changed |= changed_since(source.repo, source.tree, base)
    everything = [*reading.problems, *_submissions(reading, source, changed, now)]
    shown, files = _chosen(everything, source, wanted, changed if base is not None else None)
    if not files and not shown and wanted:
        click.echo(f"nothing to check in {', '.join(paths)}", err=True)
    print_problems(sorted(shown), form, source, files=files, changed=changed)
    if form in ("text", "github") and len(shown) < len(everything):
        rest = len(everything) - len(shown)
        click.echo(f"{rest} more in files that were not asked about", err=True)
    ctx.exit(1 if has_errors(shown) else 0)


def _chosen(
    problems: Sequence[SpecProblem],
    source: SpecSource,
    wanted: Sequence[str],
    changed: Collection[str] | None,
) -> tuple[list[SpecProblem], int]:
    """Return the problems asked about and how many files that was.

    A change of ``conf/`` can break any job, so with one every file counts.
    """
    touches_conf = changed is not None and any(path.startswith("conf/") for path in changed)

    def is_asked(file: str) -> bool:
        if "/" not in file:
            return True
        if changed is not None and not touches_conf and file not in changed:
            return file.startswith("conf/")
        return not wanted or any(
            path in ("", ".", file) or file.startswith(f"{path}/") for path in wanted
        )

    files = [path for path in source.tree.entries if path.endswith(".yaml") and is_asked(path)]
    return [problem for problem in problems if is_asked(problem.file)], len(files)


def _submissions(
    reading: SpecReading, source: SpecSource, changed: Collection[str], now: Instant
) -> list[SpecProblem]:
    """Return what is judged once, when a job is submitted, for the files that changed."""
    found: list[SpecProblem] = []
    for entry in reading.entries.values():
        if entry.spec is not None and entry.path in changed:
            data = source.tree.read((entry.blob,))[entry.blob]
            found += submission_problems(entry.spec, entry.path, now, data)
    return found
