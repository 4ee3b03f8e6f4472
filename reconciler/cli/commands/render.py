"""``headway render``: a document as it will run, after composition and overrides."""

import click

from reconciler.cli.specs_options import (
    check_cluster,
    print_problems,
    reads_specs,
    spec_source,
)
from reconciler.errors import UsageError
from reconciler.specs.entries import has_errors
from reconciler.specs.paths import job_at
from reconciler.specs.reading import read_specs
from reconciler.specs.rendering import document_json, document_yaml


@click.command()
@click.argument("file", metavar="FILE")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="What to print.",
)
@reads_specs
@click.pass_context
def render(
    ctx: click.Context,
    file: str,
    overrides: tuple[str, ...],
    output: str,
    repo: str | None,
    at: str | None,
    cluster: str | None,
    form: str,
) -> None:
    """Show FILE as it will run: its groups composed, KEY=VALUE laid over it.

    Overrides are Hydra's: `resources.gpus=8 tuner=lora train.learning_rate=1e-4`.
    """
    source = spec_source(repo, at)
    check_cluster(cluster, source.tree.entries)
    path = source.path_of(file)
    job = job_at(path)
    if job is None:
        raise UsageError(f"{file}: only documents under jobs/<team>/<name>.yaml are rendered")
    reading = read_specs(
        source.tree, cache=source.cache(), paths=(path,), overrides=overrides, cluster=cluster
    )
    entry = reading.entries.get(job)
    problems = [*(entry.problems if entry is not None else ())]
    problems += [problem for problem in reading.problems if problem.file.startswith("conf/")]
    problems = sorted(set(problems))
    if problems:
        print_problems(problems, form, source, files=1, err=True)
    if entry is None or entry.document is None or has_errors(problems):
        ctx.exit(1)
    text = document_yaml(entry.document) if output == "yaml" else document_json(entry.document)
    click.echo(text, nl=False)
