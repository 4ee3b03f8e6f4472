"""What the verbs that read specs share: which tree, which cluster, and how mistakes are shown."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from reconciler.cli.working_tree import WorkingTree, top_folder, tree_at
from reconciler.domain.problem import SpecProblem
from reconciler.errors import NotFoundError, UsageError
from reconciler.ports import Tree
from reconciler.specs.cache import SpecCache, user_folder
from reconciler.specs.problems import FORMATS, as_github, as_json, as_sarif, as_text

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecSource:
    """The tree a command reads, and where its files stand on disk."""

    tree: Tree
    repo: Path
    root: Path | None
    """Top folder of the work tree; None: the tree is a commit's."""

    def cache(self) -> SpecCache:
        """Return the cache of this user, which the read verbs use too."""
        return SpecCache(user_folder())

    def changed(self) -> tuple[str, ...]:
        """Return the paths that differ from HEAD; none where a commit is read."""
        return self.tree.changed if isinstance(self.tree, WorkingTree) else ()

    def source(self, file: str) -> str | None:
        """Return the text of a file of the tree, None where there is none."""
        entry = self.tree.entries.get(file)
        if entry is None or entry.mode not in ("100644", "100755") or entry.size > 1 << 16:
            return None
        return self.tree.read((entry.oid,))[entry.oid].decode("utf-8", "replace")

    def path_of(self, given: str) -> str:
        """Return the path inside the repository that a person means by ``given``.

        Raises ``NotFoundError`` where there is no such file or folder.
        """
        asked = Path(given)
        if self.root is not None:
            where = (Path.cwd() / asked).parent.resolve() / asked.name
            if where.is_relative_to(self.root.resolve()):
                inside = where.relative_to(self.root.resolve()).as_posix()
                if self._has(inside):
                    return inside
        inside = asked.as_posix().removeprefix("./").rstrip("/")
        for candidate in (inside, f"jobs/{inside}.yaml", f"jobs/{inside}"):
            if self._has(candidate):
                return candidate
        raise NotFoundError(f"{given}: no such file among the specs")

    def _has(self, path: str) -> bool:
        if path in ("", "."):
            return True
        return any(each == path or each.startswith(f"{path}/") for each in self.tree.entries)


def spec_source(repo: str | None, at: str | None) -> SpecSource:
    """Return what ``--repo`` and ``--at`` name.  Raises ``NotFoundError``."""
    start = Path(repo or ".")
    if not start.is_dir():
        raise NotFoundError(f"{start}: no such folder; pass --repo PATH")
    root = top_folder(start)
    if at is None and root is not None:
        return SpecSource(tree=WorkingTree(root), repo=root, root=root)
    return SpecSource(tree=tree_at(start, at or "HEAD"), repo=start, root=root)


def print_problems(
    problems: Sequence[SpecProblem],
    form: str,
    source: SpecSource,
    *,
    files: int,
    changed: Collection[str] = (),
    err: bool = False,
) -> None:
    """Print problems in one of the formats; GitHub's annotations, those of ``changed`` files
    first, come before the usual text."""
    if form == "json":
        click.echo(as_json(problems, files), err=err)
    elif form == "sarif":
        from reconciler.cli.commands.version import installed_version

        click.echo(as_sarif(problems, installed_version()), err=err)
    else:
        if form == "github" and problems:
            click.echo(as_github(problems, changed), err=err)
        click.echo(as_text(problems, source.source, files), err=err)


def reads_specs(command: Command) -> Command:
    """Add ``--repo``, ``--at``, ``--cluster`` and ``--format-errors``."""
    for option in (
        click.option(
            "--format-errors",
            "form",
            type=click.Choice(FORMATS),
            default="text",
            show_default=True,
            help="How mistakes are printed.",
        ),
        click.option(
            "--cluster", metavar="NAME", help="Judge against another file of conf/cluster/."
        ),
        click.option("--at", metavar="REF", help="Read a commit, not the files here."),
        click.option(
            "--repo", metavar="PATH", envvar="HEADWAY_REPO", help="The fleet's repository."
        ),
    ):
        command = option(command)
    return command


def check_cluster(name: str | None, conf: Iterable[str]) -> None:
    """Raise ``UsageError`` where ``--cluster`` names no file of ``conf/cluster/``."""
    known = sorted(
        path.removeprefix("conf/cluster/").removesuffix(".yaml")
        for path in conf
        if path.startswith("conf/cluster/")
    )
    if name is not None and name not in known:
        raise UsageError(f"--cluster {name}: conf/cluster/ has {', '.join(known) or 'no files'}")
