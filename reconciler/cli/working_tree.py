"""What would this folder be if it were committed now?  A tree of HEAD with the changed files.

Git says which files differ, by its own index of sizes and times, so an unchanged fleet of many
thousand files is not read.  A link is a link here too: its target is never opened.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from reconciler.domain.units import CommitId
from reconciler.errors import GitError, NotFoundError, UsageError
from reconciler.ports import Tree, TreeEntry
from reconciler.store.git.cat_file import DESIRED_ROOTS, GitTree, shown_path
from reconciler.store.git.command import git


class WorkingTree:
    """The spec files of a work tree; a :class:`reconciler.ports.Tree`."""

    def __init__(self, root: Path) -> None:
        """``root`` is the top folder of the work tree.  Raises ``GitError``."""
        head = git(root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", ok=(0, 1)).text
        self._base = GitTree(root, CommitId(head)) if head else None
        self._algorithm = git(root, "rev-parse", "--show-object-format").text or "sha1"
        self._root = root
        self._written: dict[str, bytes] = {}
        base = self._base.entries if self._base is not None else {}
        self.changed = _changed_paths(root, has_head=bool(head))
        """Paths that differ from HEAD, gone ones too, sorted."""
        entries = dict(base)
        for path in self.changed:
            entry = self._entry(path)
            if entry is None:
                entries.pop(path, None)
            else:
                entries[path] = entry
        self._entries = dict(sorted(entries.items()))

    @property
    def commit(self) -> CommitId:
        return self._base.commit if self._base is not None else CommitId("0" * 40)

    @property
    def entries(self) -> Mapping[str, TreeEntry]:
        return self._entries

    def read(self, oids: Iterable[str]) -> Mapping[str, bytes]:
        """Return blobs by id.  Raises ``GitError`` if any is missing."""
        wanted = set(oids)
        found = {oid: self._written[oid] for oid in wanted if oid in self._written}
        rest = wanted - found.keys()
        if rest:
            if self._base is None:
                raise GitError(f"no blob {min(rest)}", retryable=False)
            found |= self._base.read(sorted(rest))
        return found

    def put(self, path: str, data: bytes) -> None:
        """Count ``path`` as if it lay there with ``data``; nothing is written."""
        oid = hashlib.new(self._algorithm, b"blob %d\0" % len(data) + data).hexdigest()
        self._written[oid] = data
        entry = TreeEntry(mode="100644", oid=oid, size=len(data))
        self._entries = dict(sorted({**self._entries, path: entry}.items()))

    def _entry(self, path: str) -> TreeEntry | None:
        full = self._root / path
        try:
            mode = full.lstat().st_mode
            if stat.S_ISLNK(mode):
                data, shown = os.fsencode(full.readlink()), "120000"
            elif stat.S_ISREG(mode):
                data = full.read_bytes()
                shown = "100755" if mode & stat.S_IXUSR else "100644"
            else:
                return TreeEntry(mode="160000", oid="0" * 40, size=0)
        except FileNotFoundError:
            return None
        oid = hashlib.new(self._algorithm, b"blob %d\0" % len(data) + data).hexdigest()
        self._written[oid] = data
        return TreeEntry(mode=shown, oid=oid, size=len(data))


def _changed_paths(root: Path, *, has_head: bool) -> tuple[str, ...]:
    others = git(
        root, "ls-files", "-z", "--others", "--exclude-standard", "--full-name", "--",
        *DESIRED_ROOTS,
    ).stdout  # fmt: skip
    if has_head:
        ours = git(
            root, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv",
            "HEAD", "--", *DESIRED_ROOTS,
        ).stdout  # fmt: skip
    else:
        ours = git(root, "ls-files", "-z", "--full-name", "--", *DESIRED_ROOTS).stdout
    paths = {shown_path(raw) for raw in (others + ours).split(b"\0") if raw}
    return tuple(sorted(path.rstrip("/") for path in paths))


def top_folder(start: Path) -> Path | None:
    """Return the top folder of the work tree ``start`` is in; None in a bare repository.

    Raises ``NotFoundError`` outside any repository.
    """
    try:
        said = git(start, "rev-parse", "--is-inside-work-tree", ok=(0,)).text
    except GitError as error:
        if "not a git repository" in str(error):
            raise NotFoundError(
                f"{start.resolve()} is in no git repository; pass --repo PATH, or `git init`"
            ) from None
        raise
    if said != "true":
        return None
    return Path(git(start, "rev-parse", "--show-toplevel").text)


def tree_at(repo: Path, ref: str) -> Tree:
    """Return the tree of a commit by any name git knows.  Raises ``NotFoundError``."""
    found = git(
        repo, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}",
        ok=(0, 1, 128),
    )  # fmt: skip
    if found.returncode != 0:
        raise NotFoundError(f"no commit {ref} in {repo}")
    return GitTree(repo, CommitId(found.text))


def changed_since(repo: Path, tree: Tree, base: str) -> set[str]:
    """Return the paths of ``tree`` that differ from where it and ``base`` parted.

    Raises ``NotFoundError`` for a name git does not know, ``UsageError`` where the two have no
    common commit here: in a shallow clone nothing can be said about what changed.
    """
    start = tree_at(repo, base)
    found = git(repo, "merge-base", start.commit, tree.commit, ok=(0, 1))
    if found.returncode != 0:
        raise UsageError(
            f"{base} and {tree.commit[:10]} have no common commit here; in a shallow clone run "
            "`git fetch --unshallow` (with actions/checkout: `fetch-depth: 0`)"
        )
    before = tree_at(repo, found.text).entries
    after = tree.entries
    return {path for path in {*before, *after} if before.get(path) != after.get(path)}
