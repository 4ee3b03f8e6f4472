"""What happened on a branch?  Ancestry, first-parent changes, authors and trailers.

Everything here is derived from commits alone, so a replay on a desk finds the same.  A shallow
clone answers such questions wrongly in silence; it is refused before the question is asked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from reconciler.domain.units import CommitId, Instant
from reconciler.errors import GitError
from reconciler.store.git.cat_file import shown_path
from reconciler.store.git.command import full_id, git


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a commit did to one path, compared with its first parent; None: not there."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """One first-parent commit and what it changed."""

    commit: CommitId
    committed_at: Instant
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trailed:
    """One commit, its people (e-mails in lower case) and the values of one trailer."""

    commit: CommitId
    parents: tuple[CommitId, ...]
    author_email: str
    committer_name: str
    values: tuple[str, ...]


def refuse_shallow(repo: Path) -> None:
    """Raise ``GitError`` when history is cut off: ancestors and merge bases would be wrong."""
    if git(repo, "rev-parse", "--is-shallow-repository").text == "true":
        raise GitError(
            "this clone is shallow, so what changed cannot be told. Get its whole history:\n"
            "  git fetch --unshallow origin\n"
            "  (in a workflow: actions/checkout with `fetch-depth: 0`)",
            retryable=False,
        )


def is_known(repo: Path, commit: CommitId) -> bool:
    """Return True when the repository has this commit."""
    done = git(repo, "cat-file", "-e", f"{full_id(commit)}^{{commit}}", ok=None)
    return done.returncode == 0


def is_ancestor(repo: Path, older: CommitId, newer: CommitId) -> bool:
    """Return True when ``newer`` descends from ``older`` or is it.

    A commit that a complete repository does not have is no ancestor of one that it has.  Raises
    ``GitError`` for a shallow repository and where ``newer`` is not there.
    """
    if older == newer:
        return True
    refuse_shallow(repo)
    done = git(
        repo, "merge-base", "--is-ancestor", full_id(older), full_id(newer), ok=(0, 1, 128)
    )  # fmt: skip
    if done.returncode == 128:
        if is_known(repo, newer) and not is_known(repo, older):
            return False
        raise GitError(f"git merge-base: cannot compare {older} with {newer}", retryable=False)
    return done.returncode == 0


def merge_base(repo: Path, one: CommitId, other: CommitId) -> CommitId:
    """Return the newest common ancestor.  Raises ``GitError`` where there is none."""
    refuse_shallow(repo)
    done = git(repo, "merge-base", full_id(one), full_id(other), ok=(0, 1))
    if done.returncode == 1:
        raise GitError(f"{one} and {other} share no history", retryable=False)
    return full_id(done.text.splitlines()[0])


def first_parents_reach(repo: Path, older: CommitId, newer: CommitId) -> bool:
    """Return True when ``older`` is on the first-parent line of ``newer``."""
    if older == newer:
        return True
    listed = git(
        repo, "rev-list", "--first-parent", "--parents", f"{full_id(older)}..{full_id(newer)}"
    ).text.splitlines()
    return bool(listed) and listed[-1].split()[1:2] == [older]


def landed(
    repo: Path,
    tip: CommitId,
    *,
    since: CommitId | None = None,
    paths: Sequence[str] = ("jobs",),
    limit: int | None = None,
) -> Iterator[Landed]:
    """Yield the first-parent commits of ``since..tip`` that touch ``paths``, newest first.

    One pass, one process: 10,000 paths added in one commit or in 10,000 cost the same order.
    """
    words = [] if limit is None else [f"--max-count={limit}"]
    listed = git(
        repo, "log", "--first-parent", "--diff-merges=first-parent", "--raw", "-r", "-z",
        "--no-renames", "--no-abbrev", "--format=%H %ct", *words, "--end-of-options",
        _range(since, tip), "--", *paths,
    ).stdout  # fmt: skip
    head: list[str] = []
    changes: list[Change] = []
    fields = iter(listed.split(b"\0"))
    for found in fields:  # a head, then pairs of ":modes oids" and path, all ended by NUL
        text = found.strip(b"\n").decode("ascii")
        if text.startswith(":"):
            changes.append(_change(text, next(fields)))
        elif text:
            if head:
                yield _landed(head, changes)
            head, changes = text.split(), []
    if head:
        yield _landed(head, changes)


def trailed(
    repo: Path, tip: CommitId, *, trailer: str, since: CommitId | None, limit: int | None = None
) -> tuple[Trailed, ...]:
    """Return the commits of ``since..tip``, newest first, with the values of one trailer."""
    form = f"%H%x00%P%x00%ae%x00%cn%x00%(trailers:key={trailer},valueonly,separator=%x1f)"
    words = [] if limit is None else [f"--max-count={limit}"]
    listed = git(
        repo, "log", "-z", f"--format={form}", *words, "--end-of-options", _range(since, tip), "--"
    ).stdout.decode("utf-8", "replace")  # fmt: skip
    fields = listed.split("\0")
    found = []
    for at in range(0, len(fields) - 4, 5):
        commit, parents, author, committer, values = fields[at : at + 5]
        found.append(
            Trailed(
                commit=full_id(commit),
                parents=tuple(full_id(each) for each in parents.split()),
                author_email=author.strip().lower(),
                committer_name=committer,
                values=tuple(value.strip() for value in values.split("\x1f") if value.strip()),
            )
        )
    return tuple(found)


def author_of(repo: Path, path: str, commit: CommitId) -> str:
    """Return ``Name <e-mail>`` of the newest commit up to ``commit`` that changed ``path``.

    Merges are looked through: the author is the person who wrote it.  Empty when nobody did.
    """
    shown = git(
        repo, "log", "-1", "--format=%an <%ae>", "--end-of-options", full_id(commit), "--", path
    ).text
    return "".join(char for char in shown if char.isprintable())


def brought_by(repo: Path, path: str, commit: CommitId) -> tuple[CommitId, str]:
    """Return the newest commit up to ``commit`` that changed ``path``, and its author.

    Raises ``GitError`` where the path never was there.
    """
    shown = git(
        repo, "log", "-1", "--format=%H %an <%ae>", "--end-of-options", full_id(commit), "--", path
    ).text
    found, _, author = shown.partition(" ")
    return full_id(found), "".join(char for char in author if char.isprintable())


def committed_at(repo: Path, commit: CommitId) -> Instant:
    """Return a commit's committer time."""
    shown = git(repo, "show", "--no-patch", "--format=%ct", "--end-of-options", full_id(commit))
    return Instant(int(shown.text))


def _range(since: CommitId | None, tip: CommitId) -> str:
    return full_id(tip) if since is None else f"{full_id(since)}..{full_id(tip)}"


def _landed(head: list[str], changes: list[Change]) -> Landed:
    commit, seconds = head
    return Landed(
        commit=full_id(commit), committed_at=Instant(int(seconds)), changes=tuple(changes)
    )


def _change(modes: str, path: bytes) -> Change:
    """Read ``:mode mode oid oid S`` and the path that follows it."""
    old_mode, new_mode, before, after, _ = modes.lstrip(":").split()
    return Change(
        path=shown_path(path), before=_blob(old_mode, before), after=_blob(new_mode, after)
    )


def _blob(mode: str, oid: str) -> str | None:
    """Return a file's blob, whatever its mode: a changed mode is no deletion."""
    return None if mode in ("000000", "160000") else oid
