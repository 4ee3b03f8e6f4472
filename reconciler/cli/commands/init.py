"""``headway init``: another fleet repository, ready for its first commit."""

from collections.abc import Iterator
from pathlib import Path

import click

from reconciler.cli.working_tree import top_folder
from reconciler.errors import NotFoundError, UsageError
from reconciler.specs.paths import job_at
from reconciler.specs.schema import write_schemas
from reconciler.store.git.command import git

SKELETON = Path(__file__).parents[1] / "skeleton"

_CODEOWNERS = """\
# The last matching line wins.  The platform owns what decides; a team owns its jobs.
*               @your-org/platform
/jobs/{team}/   @your-org/{team}
"""
_README = """\
# A fleet run by headway

`conf/` is the platform's: machines, teams, policy, and the groups jobs are composed from.
`jobs/<team>/<name>.yaml` is what people ask for.  A merged pull request is the request; the
reconciler writes what became of it to the branch `status/<cluster>`.

    headway validate                  # before every commit
    headway plan --base origin/main   # what would change
    headway queue                     # who runs, who waits, until when
    headway reconcile --loop          # on the machine that has the GPUs
"""
_IGNORED = "/runs/\n/.headway-state/\n"
_EDITOR = """\
{
  "yaml.schemas": {
    ".headway/schema/job.json": "jobs/*/*.yaml"
  }
}
"""


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--team", metavar="NAME", default="team-a", show_default=True, help="First team.")
def init(folder: Path, team: str) -> None:
    """Make a fleet repository in DIR: conf/, a first job, workflow, editor schemas.

    Files that are there already stay as they are.
    """
    if job_at(f"jobs/{team}/first.yaml") is None:
        raise UsageError(
            f"--team {team}: a team is lower-case letters, digits and `-`, no `-` at either end"
        )
    folder.mkdir(parents=True, exist_ok=True)
    kept = 0
    for name, text in _files(team):
        path = folder / name
        if path.exists() or path.is_symlink():
            click.echo(f"kept    {name}")
            kept += 1
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        click.echo(f"wrote   {name}")
    for path in write_schemas(folder):
        click.echo(f"wrote   {path.relative_to(folder).as_posix()}")
    if not _is_repository(folder):
        git(folder, "init", "--quiet", "--initial-branch", "main")
        click.echo("wrote   .git (branch main)")
    click.echo(
        f"\nNext: edit conf/teams/{team}.yaml and conf/cluster/laptop.yaml, then\n"
        "  headway validate && git add --all && git commit -m 'Set up the fleet'"
    )


def _files(team: str) -> Iterator[tuple[str, str]]:
    """Yield (path in the new repository, text), sorted by path."""
    found = {
        f"conf/teams/{team}.yaml": (SKELETON / "team.yaml").read_text(encoding="utf-8"),
        f"jobs/{team}/first.yaml": (SKELETON / "job.yaml").read_text(encoding="utf-8"),
        ".github/CODEOWNERS": _CODEOWNERS.format(team=team),
        ".github/workflows/headway.yaml": (SKELETON / "github" / "headway.yaml").read_text(
            encoding="utf-8"
        ),
        ".gitignore": _IGNORED,
        ".pre-commit-config.yaml": (SKELETON / "pre-commit-config.yaml").read_text(
            encoding="utf-8"
        ),
        ".vscode/settings.json": _EDITOR,
        "README.md": _README,
    }
    for path in (SKELETON / "conf").rglob("*.yaml"):
        found[path.relative_to(SKELETON).as_posix()] = path.read_text(encoding="utf-8")
    yield from sorted(found.items())


def _is_repository(folder: Path) -> bool:
    try:
        top_folder(folder)
    except NotFoundError:
        return False
    return True
