"""``headway version``: which headway this is."""

import click

from reconciler.cli.output import emit, output_option

DISTRIBUTION = "headway"


def installed_version() -> str:
    """Return the version of the installed distribution; ``0+unknown`` in a bare source tree."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0+unknown"


@click.command()
@output_option("json", "yaml", default="text")
def version(output: str) -> None:
    """Print the version of headway, of Python and of git."""
    import platform

    from reconciler.cli.repository import git_version

    facts = {
        "headway": installed_version(),
        "python": platform.python_version(),
        "git": git_version(),
    }
    if output == "text":
        for name, value in facts.items():
            click.echo(f"{name} {value}")
    else:
        emit({"kind": "Version", **facts}, output)
