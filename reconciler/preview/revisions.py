"""Which two states of the fleet does a change compare?  The base as it is, and the base with it.

What a branch changes is the difference to its merge base, laid over the newest base: that is
what main will hold after the merge, whatever was merged in between.  Edits of the work tree
that are not committed yet are laid over that.

A clone too shallow to know the merge base is an error, never "nothing changed": git would
answer with no ancestor, or with a wrong one, and the check would report all clear.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha1, sha256
from pathlib import Path

from reconciler.domain.units import CommitId
from reconciler.errors import GitError, NotFoundError
from reconciler.ports import Tree, TreeEntry
from reconciler.store.git.cat_file import DESIRED_ROOTS, GitTree, shown_path
from reconciler.store.git.command import full_id, git, resolve

PLAIN = "100644"
EXECUTABLE = "100755"
LINK = "120000"
LARGEST_EDIT_BYTES = 1 << 20
"""A file of the work tree above this is read no further: validation refuses it by its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One path as the change leaves it: ``entry`` None for a path that it deletes."""

    entry: TreeEntry | None
    content: bytes | None = None
    """Only for work tree edits, whose blob git does not have."""


class OverlayTree:
    """A tree with some paths changed; a :class:`reconciler.ports.Tree`."""

    def __init__(self, under: Tree, edits: Mapping[str, Edit]) -> None:
        self._under = under
        entries = dict(under.entries)
        self._contents: dict[str, bytes] = {}
        for path, edit in edits.items():
            if edit.entry is None:
                entries.pop(path, None)
                continue
            entries[path] = edit.entry
            if edit.content is not None:
                self._contents[edit.entry.oid] = edit.content
        self._entries = dict(sorted(entries.items()))

    @property
    def commit(self) -> CommitId:
        """The commit underneath: a change that is not merged has no commit of main."""
        return self._under.commit

    @property
    def entries(self) -> Mapping[str, TreeEntry]:
        return self._entries

    def read(self, oids: Iterable[str]) -> Mapping[str, bytes]:
        """Return the blobs asked for, those of edits included."""
        wanted = list(oids)
        found = {oid: self._contents[oid] for oid in wanted if oid in self._contents}
        missing = [oid for oid in wanted if oid not in found]
        return found | dict(self._under.read(missing)) if missing else found


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a branch and the work tree change, over the newest base."""

    base: CommitId
    head: CommitId
    base_tree: Tree
    head_tree: Tree
    edited: tuple[str, ...] = ()
    """Paths under ``conf`` and ``jobs`` that the change touches, sorted."""
    contested: tuple[str, ...] = field(default=())
    """Paths that the base changed too since the branch left it: a merge would conflict."""


def open_change(
    repo: Path, base: str, *, head: str = "HEAD", work_tree: Path | None = None
) -> Change:
    """Return the change of ``head`` (and of ``work_tree``) against the newest ``base``.

    Raises ``NotFoundError`` for a revision that is not here and ``GitError`` where the merge
    base cannot be known.
    """
    base_id, head_id = _known(repo, base), _known(repo, head)
    fork = merge_base(repo, base_id, head_id, names=(base, head))
    theirs = _committed_edits(repo, fork, base_id)
    edits = _committed_edits(repo, fork, head_id)
    if work_tree is not None:
        edits |= _work_tree_edits(work_tree)
    base_tree = GitTree(repo, base_id)
    contested = [path for path in edits if path in theirs and theirs[path] != edits[path]]
    return Change(
        base=base_id,
        head=head_id,
        base_tree=base_tree,
        head_tree=OverlayTree(base_tree, edits),
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


def _committed_edits(repo: Path, old: CommitId, new: CommitId) -> dict[str, Edit]:
    raw = git(
        repo, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev",
        full_id(old), full_id(new), "--", *DESIRED_ROOTS,
    ).stdout  # fmt: skip
    words = raw.split(b"\0")[:-1]
    edits: dict[str, Edit] = {}
    oids = []
    for about, path in zip(words[::2], words[1::2], strict=True):
        _, mode, _, oid, letter = about.decode("ascii").split()
        if letter == "D":
            edits[shown_path(path)] = Edit(entry=None)
        else:
            oids.append((shown_path(path), mode, oid))
    sizes = _sizes(repo, [oid for _, _, oid in oids])
    for shown, mode, oid in oids:
        edits[shown] = Edit(entry=TreeEntry(mode=mode, oid=oid, size=sizes.get(oid, 0)))
    return edits


def _sizes(repo: Path, oids: list[str]) -> dict[str, int]:
    if not oids:
        return {}
    stdin = "".join(f"{oid}\n" for oid in oids).encode()
    lines = git(repo, "cat-file", "--batch-check", "--buffer", stdin=stdin).text.splitlines()
    answers = [line.split() for line in lines]
    return {words[0]: int(words[2]) for words in answers if len(words) == 3}


def _work_tree_edits(work_tree: Path) -> dict[str, Edit]:
    """Return the paths that differ from HEAD on disk, untracked files included."""
    top = Path(git(work_tree, "rev-parse", "--show-toplevel").text)
    changed = git(
        top, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "HEAD", "--",
        *DESIRED_ROOTS,
    ).stdout  # fmt: skip
    untracked = git(
        top, "ls-files", "--others", "--exclude-standard", "-z", "--", *DESIRED_ROOTS
    ).stdout
    is_sha256 = git(top, "rev-parse", "--show-object-format").text == "sha256"
    paths = {*changed.split(b"\0"), *untracked.split(b"\0")} - {b""}
    return {shown_path(path): _edit_on_disk(top, path, is_sha256) for path in sorted(paths)}


def _edit_on_disk(top: Path, raw: bytes, is_sha256: bool) -> Edit:
    path = top / raw.decode("utf-8", "surrogateescape")
    if path.is_symlink():
        content, mode = bytes(path.readlink()), LINK
    elif not path.is_file():
        return Edit(entry=None)
    else:
        with path.open("rb") as file:
            content = file.read(LARGEST_EDIT_BYTES + 1)
        mode = PLAIN
    header = f"blob {len(content)}\0".encode()
    maker = sha256 if is_sha256 else sha1
    oid = maker(header + content).hexdigest()
    return Edit(entry=TreeEntry(mode=mode, oid=oid, size=len(content)), content=content)
