"""Which repository a read verb looks at, and which status branches it has.

A clone or a bare repository will do.  A clone is brought up to date first, the status branches
alone; when that cannot be done what is here is shown, with its age.  No GitPython: this is on
the path of every read verb.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from reconciler.domain.units import CommitId, Instant
from reconciler.errors import GitError, NotFoundError
from reconciler.store.git.command import git, without_secrets

FETCH_TIMEOUT_S = 20.0
"""A person is waiting: rather show what is here, and say how old it is."""
STATUS = "refs/heads/status/"
LEASE = "refs/headway/lease/"
FETCHED_LEASE = "refs/headway/fetched/lease/"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRef:
    """One status branch as it was found."""

    name: str
    """The full ref."""
    cluster: str
    commit: CommitId
    committed_at: Instant
    is_fetched: bool
    """True for the copy of a remote's branch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    git_dir: Path
    remote: str | None
    """What to fetch from: ``origin``, or the only remote; None for a bare repository."""

    @staticmethod
    def find(path: str | None = None) -> "Repository":
        """Return the repository at ``path``, else at ``HEADWAY_REPO``, else here.

        Raises ``NotFoundError`` where there is none.
        """
        named = path or os.environ.get("HEADWAY_REPO") or "."
        start = Path(named)
        advice = "pass --repo PATH (a clone or a bare repository) or set HEADWAY_REPO"
        if "://" in named:
            shown = without_secrets(named)
            raise NotFoundError(f"{shown} is a URL; clone it, then {advice}")
        if not start.is_dir():
            raise NotFoundError(f"{start}: no such folder; {advice}")
        try:
            said = git(start, "rev-parse", "--absolute-git-dir", "--is-bare-repository").text
        except GitError as error:
            if "not a git repository" in str(error):
                raise NotFoundError(
                    f"{start.resolve()} is in no git repository; {advice}"
                ) from None
            raise
        git_dir, is_bare = said.splitlines()
        remotes = [] if is_bare == "true" else git(Path(git_dir), "remote").text.split()
        remote = "origin" if "origin" in remotes else remotes[0] if len(remotes) == 1 else None
        return Repository(git_dir=Path(git_dir), remote=remote)

    def fetch(self, *, also_main: bool = False) -> str | None:
        """Bring the status branches (all branches, for ``also_main``) up to date.

        Return what went wrong, None when nothing did.
        """
        if self.remote is None:
            return None
        heads = "" if also_main else "status/"
        try:
            git(
                self.git_dir, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", self.remote,
                f"+refs/heads/{heads}*:refs/remotes/{self.remote}/{heads}*",
                f"+{LEASE}*:{FETCHED_LEASE}*",
                timeout_s=FETCH_TIMEOUT_S, retryable=True,
            )  # fmt: skip
        except GitError as error:
            return (
                f"{self.remote} could not be asked ({error}); where it needs your own settings, "
                f"`git fetch {self.remote}`, then --no-fetch"
            )
        return None

    def status_refs(self) -> tuple[tuple[StatusRef, ...], dict[str, Instant]]:
        """Return every status branch, and by cluster when its reconciler was last seen alive."""
        listed = git(
            self.git_dir, "for-each-ref",
            "--format=%(refname) %(objectname) %(committerdate:unix)",
            STATUS, "refs/remotes/*/status/*", LEASE, FETCHED_LEASE,
        ).text  # fmt: skip
        refs: list[StatusRef] = []
        seen: dict[str, Instant] = {}
        for line in listed.splitlines():
            name, commit, *date = line.split(" ")
            if len(date) != 1 or not date[0].isdigit():
                continue
            at = Instant(int(date[0]))
            cluster = name.rpartition("/")[2]
            if name.startswith((LEASE, FETCHED_LEASE)):
                seen[cluster] = max(at, seen.get(cluster, at))
                continue
            ref = StatusRef(
                name=name,
                cluster=cluster,
                commit=CommitId(commit),
                committed_at=at,
                is_fetched=name.startswith("refs/remotes/"),
            )
            if not ref.is_fetched or name.split("/")[2] == self.remote:
                refs.append(ref)
        return tuple(refs), seen


def git_version() -> str:
    """Return git's version.  Raises ``GitError`` where git cannot be started."""
    return git(Path("/"), "--version").text.removeprefix("git version ")
