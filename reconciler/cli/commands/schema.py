"""``headway schema``: what an editor needs to complete and describe the keys of a spec."""

from pathlib import Path

import click

from reconciler.specs.schema import FOLDER, KINDS, schema_text, write_schemas


@click.command()
@click.argument("kind", type=click.Choice(list(KINDS)), default="job")
@click.option(
    "--write",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help=f"Write every schema to {FOLDER}/ under DIR, where the files' first lines look.",
)
def schema(kind: str, write: Path | None) -> None:
    """Print the JSON Schema (draft 7) of a KIND of document."""
    if write is None:
        click.echo(schema_text(kind), nl=False)
        return
    for path in write_schemas(write):
        click.echo(path.as_posix())
