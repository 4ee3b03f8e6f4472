"""Which two states of the fleet does a change compare?  The base as it is, and the base with it.

What a branch changes is the difference to its merge base, laid over the newest base: that is
what main will hold after the merge, whatever was merged in between.  Edits of the work tree
that are not committed yet are laid over that.

A clone too shallow to know the merge base is an error, never "nothing changed": git would
answer with no ancestor, or with a wrong one, and the check would report all clear.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from reconciler.domain.units import CommitId
from reconciler.errors import GitError, NotFoundError
from reconciler.ports import Tree, TreeEntry
from reconciler.store.git.cat_file import DESIRED_ROOTS, GitTree, shown_path
from reconciler.store.git.command import full_id, git, resolve

Edits = Mapping[str, TreeEntry | None]
"""Paths as a change leaves them: None for a path that it deletes."""


class OverlayTree:
    """A tree with some paths changed; a :class:`reconciler.ports.Tree`.

    ``blobs`` reads the blobs of both: a work tree holds some that git does not have yet.
    """

    def __init__(self, under: Tree, edits: Edits, blobs: Tree) -> None:
        self._under = under
        self._blobs = blobs
        entries = {**under.entries, **edits}
        self._entries = {path: entry for path, entry in sorted(entries.items()) if entry}

    @property
    def commit(self) -> CommitId:
        """The commit underneath: a change that is not merged has no commit of main."""
        return self._under.commit

    @property
    def entries(self) -> Mapping[str, TreeEntry]:
        return self._entries

    def read(self, oids: Iterable[str]) -> Mapping[str, bytes]:
        """Return the blobs asked for, those of edits included."""
        return self._blobs.read(oids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a branch and the work tree change, over the newest base."""

    base: CommitId
    head: CommitId
    base_tree: Tree
    head_tree: Tree
    edited: tuple[str, ...] = ()
    """Paths under ``conf`` and ``jobs`` that the change touches, sorted."""
    contested: tuple[str, ...] = ()
    """Paths that the base changed too since the branch left it: a merge would conflict."""


def open_change(
    repo: Path,
    base: str,
    *,
    head: str = "HEAD",
    work_tree: Tree | None = None,
    changed: Iterable[str] = (),
) -> Change:
    """Return the change of ``head`` against the newest ``base``.

    ``work_tree`` is what is on disk over ``head``, ``changed`` the paths that differ there.
    Raises ``NotFoundError`` for a revision that is not here and ``GitError`` where the merge
    base cannot be known.
    """
    base_id, head_id = _known(repo, base), _known(repo, head)
    fork = merge_base(repo, base_id, head_id, names=(base, head))
    theirs = _committed_edits(repo, fork, base_id)
    edits = _committed_edits(repo, fork, head_id)
    if work_tree is not None:
        edits |= {path: work_tree.entries.get(path) for path in changed}
    base_tree = GitTree(repo, base_id)
    contested = [path for path in edits if path in theirs and theirs[path] != edits[path]]
    return Change(
        base=base_id,
        head=head_id,
        base_tree=base_tree,
        head_tree=OverlayTree(base_tree, edits, work_tree or base_tree),
        edited=tuple(sorted(edits)),
        contested=tuple(sorted(contested)),
    )


def merge_base(repo: Path, one: CommitId, other: CommitId, *, names: tuple[str, str]) -> CommitId:
    """Return the best common ancestor.  Raises ``GitError`` where this clone cannot know it."""
    done = git(repo, "merge-base", one, other, ok=(0, 1))
    is_shallow = git(repo, "rev-parse", "--is-shallow-repository").text == "true"
    if done.returncode == 0:
        found = full_id(done.text.splitlines()[0])
        if not is_shallow or not _is_cut(repo, (one, other), found):
            return found
    if is_shallow:
        raise GitError(
            f"this clone is too shallow to know where {names[1]} left {names[0]}; run\n"
            "  git fetch --unshallow\n"
            "(in GitHub Actions: actions/checkout with fetch-depth: 0)",
            retryable=False,
        )
    raise GitError(
        f"{names[0]} and {names[1]} have no common ancestor: they are not branches of one history",
        retryable=False,
    )


def _is_cut(repo: Path, tips: tuple[CommitId, CommitId], found: CommitId) -> bool:
    """Return whether the history between the tips and ``found`` ends at a shallow cut."""
    path = Path(git(repo, "rev-parse", "--path-format=absolute", "--git-path", "shallow").text)
    cuts = set(path.read_text(encoding="ascii").split())
    between = git(repo, "rev-list", *tips, "--not", found).text.split()
    return not cuts.isdisjoint(between)


def _known(repo: Path, revision: str) -> CommitId:
    commit = resolve(repo, revision)
    if commit is None:
        remote, slash, branch = revision.partition("/")
        advice = f"git fetch {remote} {branch}" if slash else "git fetch"
        raise NotFoundError(f"no commit {revision} in this clone; run `{advice}` or pass --base")
    return commit


def _committed_edits(repo: Path, old: CommitId, new: CommitId) -> dict[str, TreeEntry | None]:
    raw = git(
        repo, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev",
        full_id(old), full_id(new), "--", *DESIRED_ROOTS,
    ).stdout  # fmt: skip
    words = raw.split(b"\0")[:-1]
    edits: dict[str, TreeEntry | None] = {}
    kept = []
    for about, path in zip(words[::2], words[1::2], strict=True):
        _, mode, _, oid, letter = about.decode("ascii").split()
        if letter == "D":
            edits[shown_path(path)] = None
        else:
            kept.append((shown_path(path), mode, oid))
    sizes = _sizes(repo, [oid for _, _, oid in kept])
    for shown, mode, oid in kept:
        edits[shown] = TreeEntry(mode=mode, oid=oid, size=sizes.get(oid, 0))
    return edits


def _sizes(repo: Path, oids: list[str]) -> dict[str, int]:
    if not oids:
        return {}
    stdin = "".join(f"{oid}\n" for oid in oids).encode()
    lines = git(repo, "cat-file", "--batch-check", "--buffer", stdin=stdin).text.splitlines()
    answers = [line.split() for line in lines]
    return {words[0]: int(words[2]) for words in answers if len(words) == 3}
