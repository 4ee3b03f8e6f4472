"""Where does a reconciler keep its copy of the fleet's repository?  The only user of GitPython.

A bare mirror with no work tree: nothing is ever checked out, so no attribute, filter, symlink or
hook of the repository has a say.  GitPython gives the repository, its refs, remotes and commits;
whatever reads in bulk or writes goes through ``store.git.command`` with its safe settings.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import git as gitpython
from git.exc import GitError as GitPythonError

from reconciler.domain.units import CommitId, Instant
from reconciler.errors import GitError
from reconciler.store.git.command import environment, full_id, git, without_secrets

REMOTE = "origin"
EXPIRE = "2.hours.ago"
"""Unreachable objects younger than this are kept: another thread may be about to push them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInfo:
    """One commit, as people see it."""

    commit: CommitId
    parents: tuple[CommitId, ...]
    author: str
    """``Name <e-mail>``."""
    committed_at: Instant
    message: str


def open_mirror(path: Path, url: str) -> Path:
    """Return the bare mirror at ``path``, made when it is not there, with ``url`` as its remote.

    Raises ``GitError`` where ``path`` holds something else, or where ``url`` uses a protocol
    that runs commands.  A changed ``url`` replaces the old one.
    """
    refuse_url(url)
    if path.exists() and any(path.iterdir()) and not (path / "HEAD").exists():
        raise GitError(f"{path} holds something that is no git repository", retryable=False)
    if not (path / "HEAD").exists():
        path.mkdir(parents=True, exist_ok=True)
        git(path, "init", "--quiet", "--bare", "--initial-branch=main", ".")
    with _opened(path) as repo:
        if not repo.bare:
            raise GitError(f"{path} has a work tree; the mirror must be bare", retryable=False)
        if REMOTE not in [remote.name for remote in repo.remotes]:
            remote = repo.create_remote(REMOTE, url)
            with remote.config_writer as settings:
                settings.remove_option("fetch")  # every fetch names what it takes
        elif repo.remote(REMOTE).url != url:
            repo.remote(REMOTE).set_url(url)
    return path


def refs(path: Path, prefix: str = "refs/") -> dict[str, CommitId]:
    """Return the refs of a repository under ``prefix``, sorted by name."""
    with _opened(path) as repo:
        found = {
            ref.path: full_id(ref.object.hexsha)
            for ref in gitpython.Reference.iter_items(repo, common_path=prefix.rstrip("/"))
        }
    return dict(sorted(found.items()))


def commit_info(path: Path, commit: CommitId) -> CommitInfo:
    """Return one commit.  Raises ``GitError`` where the repository does not have it."""
    with _opened(path) as repo:
        try:
            found = repo.commit(full_id(commit))
            message = found.message
            return CommitInfo(
                commit=full_id(found.hexsha),
                parents=tuple(full_id(parent.hexsha) for parent in found.parents),
                author=f"{found.author.name} <{found.author.email}>",
                committed_at=Instant(found.committed_date),
                message=message if isinstance(message, str) else message.decode(errors="replace"),
            )
        except (ValueError, gitpython.BadName, gitpython.BadObject) as error:
            raise GitError(f"commit {commit} is not in {path}", retryable=False) from error


def maintain(path: Path) -> None:
    """Pack what lies loose and write the commit graph: once a day keeps the mirror small.

    Single updates leave about 23 KiB a commit until then, packed 0.7 KiB.  With the graph's
    changed paths, the log of one status file costs 0.03 s over 10,000 commits.  Takes seconds
    to minutes; call it between two cycles.  Raises ``GitError``, and nothing is lost then.
    """
    git(path, "gc", "--quiet", f"--prune={EXPIRE}", timeout_s=3600.0)
    git(path, "commit-graph", "write", "--reachable", "--changed-paths", timeout_s=3600.0)


def refuse_url(url: str) -> None:
    """Raise ``GitError`` for a remote that git would reach by running a command."""
    shown = without_secrets(url)[:200]
    if not url or url.startswith("-") or "\n" in url or "::" in url.split("/")[0]:
        raise GitError(f"{shown!r} is no remote that may be used", retryable=False)
    protocol, separator, _ = url.partition("://")
    if separator and protocol not in ("file", "https", "ssh"):
        raise GitError(f"{shown!r}: only file, https and ssh remotes are used", retryable=False)


@contextmanager
def _opened(path: Path) -> Iterator[gitpython.Repo]:
    """Open for one question and close again: GitPython keeps child processes alive otherwise."""
    try:
        with gitpython.Repo(path) as repo:
            repo.git.update_environment(**environment())
            yield repo
    except (GitPythonError, OSError) as error:
        raise GitError(f"{path}: {without_secrets(str(error))[:400]}", retryable=False) from error
