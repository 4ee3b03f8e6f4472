"""What does one commit hold?  Reads trees and blobs in bulk, never through a work tree.

A work tree follows symlinks and applies ``.gitattributes``; blobs do neither, and are faster.
A read that fails or comes short raises: it never looks like a smaller tree.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from reconciler.domain.units import CommitId
from reconciler.errors import GitError
from reconciler.ports import TreeEntry
from reconciler.store.git.command import MAX_OUTPUT_BYTES, OBJECT_ID, full_id, git

DESIRED_ROOTS = ("conf", "jobs")
STATUS_ROOTS = ("status", ".headway")


class GitTree:
    """The files of one commit under ``roots``; a :class:`reconciler.ports.Tree`."""

    def __init__(self, repo: Path, commit: CommitId, roots: Sequence[str] = DESIRED_ROOTS) -> None:
        self._repo = repo
        self._commit = full_id(commit)
        self._roots = tuple(roots)
        self._entries: dict[str, TreeEntry] | None = None

    @property
    def commit(self) -> CommitId:
        return self._commit

    @property
    def entries(self) -> Mapping[str, TreeEntry]:
        """Every path under the roots, sorted; read once, on first use.

        A path that is not printable UTF-8 is spelt with backslash escapes, so it can be shown
        and is not a valid name of anything.  Raises ``GitError`` when the tree cannot be read.
        """
        if self._entries is None:
            self._entries = list_tree(self._repo, self._commit, self._roots)
        return self._entries

    def read(self, oids: Iterable[str]) -> Mapping[str, bytes]:
        """Return the blobs asked for, by object id.  Raises ``GitError`` if any is missing."""
        return read_blobs(self._repo, oids)


def list_tree(repo: Path, commit: CommitId, roots: Sequence[str]) -> dict[str, TreeEntry]:
    """Return every file of ``commit`` under ``roots``, sorted by path; submodules have size 0."""
    listed = git(
        repo, "ls-tree", "-r", "-l", "-z", "--full-tree", "--end-of-options", full_id(commit),
        *roots,
    ).stdout  # fmt: skip
    entries: dict[str, TreeEntry] = {}
    for record in listed.split(b"\0")[:-1]:
        meta, _, raw = record.partition(b"\t")
        mode, _, oid, size = meta.decode("ascii").split()
        path = shown_path(raw)
        if path in entries:
            raise GitError(f"commit {commit}: its tree lists {path!r} twice", retryable=False)
        if size != "-" and not size.isdecimal():
            raise GitError(f"commit {commit}: {path} ({oid}) is missing", retryable=False)
        entries[path] = TreeEntry(mode=mode, oid=oid, size=0 if size == "-" else int(size))
    return dict(sorted(entries.items()))


def changed_entries(
    repo: Path, before: CommitId, after: CommitId, roots: Sequence[str]
) -> dict[str, TreeEntry | None]:
    """Return what differs at ``after`` under ``roots``, by path; None: the file is gone.

    Sizes are not looked up and are 0.
    """
    listed = git(
        repo, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--end-of-options",
        full_id(before), full_id(after), "--", *roots,
    ).stdout.split(b"\0")  # fmt: skip
    changed: dict[str, TreeEntry | None] = {}
    for modes, raw in zip(listed[0:-1:2], listed[1::2], strict=True):
        _, mode, _, oid, _ = modes.decode("ascii").split()
        entry = None if mode == "000000" else TreeEntry(mode=mode, oid=oid, size=0)
        changed[shown_path(raw)] = entry
    return changed


def read_blobs(
    repo: Path, oids: Iterable[str], *, max_bytes: int = MAX_OUTPUT_BYTES
) -> dict[str, bytes]:
    """Return the content of each blob, read by one process.

    Raises ``GitError`` when one is missing or not a blob, or when they are larger than
    ``max_bytes`` together.
    """
    wanted = list(dict.fromkeys(oids))
    if not wanted:
        return {}
    for oid in wanted:
        if not OBJECT_ID.fullmatch(oid):
            raise GitError(f"{oid[:80]!r} is not a full object id", retryable=False)
    stream = git(
        repo, "cat-file", "--batch", "--buffer",
        stdin="".join(f"{oid}\n" for oid in wanted).encode(), max_bytes=max_bytes,
    ).stdout  # fmt: skip
    blobs: dict[str, bytes] = {}
    at = 0
    for oid in wanted:
        end = stream.find(b"\n", at)
        head = stream[at:end].decode("ascii", "replace").split() if end >= 0 else []
        if len(head) != 3 or head[0] != oid or head[1] != "blob":
            raise GitError(f"blob {oid} cannot be read: {' '.join(head) or 'no answer'}",
                           retryable=False)  # fmt: skip
        start, size = end + 1, int(head[2])
        blob = stream[start : start + size]
        if len(blob) != size:
            raise GitError(f"blob {oid} came short", retryable=False)
        blobs[oid] = blob
        at = start + size + 1
    return blobs


def read_files(repo: Path, commit: CommitId, roots: Sequence[str]) -> dict[str, bytes]:
    """Return the content of every plain file of ``commit`` under ``roots``, sorted by path."""
    entries = {
        path: entry
        for path, entry in list_tree(repo, commit, roots).items()
        if entry.mode == "100644"
    }
    blobs = read_blobs(repo, (entry.oid for entry in entries.values()))
    return {path: blobs[entry.oid] for path, entry in entries.items()}


def shown_path(raw: bytes) -> str:
    """Return a path of a tree as text; unprintable bytes become escapes, uniquely."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if text and text.isprintable() and "\\" not in text:
        return text
    escaped = raw.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in escaped)
