"""Real git repositories for tests: a bare remote, clones of people, and trees nobody should push.

``Remote`` writes commits straight into the bare repository (no work tree, a few milliseconds
each); ``Clone`` is a person with a work tree who pushes.  Times are given or count up from a fixed
instant, so equal histories have equal commit ids.
"""

import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from reconciler.domain.reason import Reason
from reconciler.domain.status import JobPhase, JobStatus
from reconciler.domain.units import CommitId, Instant, JobId, Seconds
from reconciler.specs.serialize import status_to_json
from reconciler.store.git.repository import open_mirror
from reconciler.store.lease import Lease
from reconciler.store.status_store import StatusStore
from reconciler.store.status_tree import status_path

START = Instant(1_790_000_000)
ADA = "Ada <ada@example.org>"
GRACE = "Grace <grace@example.org>"


def run_git(repo: Path, *args: str, stdin: bytes = b"", **environment: str) -> str:
    """Run git as a person would, with nobody's settings; return stdout without the newline."""
    done = subprocess.run(
        ["git", "-C", str(repo), *args],
        input=stdin,
        capture_output=True,
        check=False,
        timeout=120,
        env={
            "PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C",
            "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", **environment,
        },
    )  # fmt: skip
    if done.returncode != 0:
        raise AssertionError(f"git {' '.join(args)}: {done.stderr.decode(errors='replace')}")
    return done.stdout.decode("utf-8", "replace").removesuffix("\n")


class Remote:
    """The fleet's repository on a server: bare, and written without a work tree."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = START
        path.mkdir(parents=True, exist_ok=True)
        run_git(path, "init", "--quiet", "--bare", "--initial-branch=main", ".")

    @property
    def url(self) -> str:
        return f"file://{self.path}"

    def tip(self, branch: str = "main") -> CommitId | None:
        """Return where a branch is; None when there is none."""
        listed = run_git(
            self.path, "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}"
        )
        return CommitId(listed) if listed else None

    def commit(
        self,
        files: Mapping[str, str | bytes | None],
        message: str = "Change the fleet",
        *,
        branch: str = "main",
        author: str = ADA,
        at: int | None = None,
        parents: Sequence[CommitId] | None = None,
    ) -> CommitId:
        """Commit ``files`` (None deletes) on ``branch`` and return the id.

        ``parents`` replaces the branch's tip as first parent and may add others; a merge takes
        the first parent's files with ``files`` on top.
        """
        self.clock = Instant(self.clock + 60)
        when = self.clock if at is None else at
        if parents is None:
            tip = self.tip(branch)
            parents = () if tip is None else (tip,)
        stream = [
            f"commit refs/headway-tests/staging\nmark :1\nauthor {author} {when} +0000\n"
            f"committer {author} {when} +0000\n".encode(),
            _data(message.encode()),
        ]
        for number, parent in enumerate(parents):
            stream.append(f"{'merge' if number else 'from'} {parent}\n".encode())
        if not parents:
            stream.append(b"deleteall\n")
            run_git(self.path, "update-ref", "-d", "refs/headway-tests/staging")
        for path, content in files.items():
            if content is None:
                stream.append(f"D {path}\n".encode())
            else:
                text = content.encode() if isinstance(content, str) else content
                stream.append(f"M 100644 inline {path}\n".encode() + _data(text))
        stream.append(b"get-mark :1\ndone\n")
        made = run_git(
            self.path, "fast-import", "--quiet", "--force", "--done", stdin=b"".join(stream)
        )
        run_git(self.path, "update-ref", f"refs/heads/{branch}", made)
        return CommitId(made)

    def plant(self, entries: Iterable[tuple[str, str, bytes]], *, branch: str = "main") -> CommitId:
        """Commit a tree of raw entries ``(mode, path, content)``, checked by nobody.

        Modes as git spells them: ``120000`` (content is the target), ``160000`` (content is
        ignored), ``100755``; a path may hold any bytes but NUL.
        """
        root = _Folder()
        for mode, path, content in entries:
            root.put(path.encode("utf-8", "surrogateescape").split(b"/"), mode, content)
        tree = root.write(self.path)
        self.clock = Instant(self.clock + 60)
        tip = self.tip(branch)
        made = run_git(
            self.path, "commit-tree", tree, "-m", "Plant a tree", *(("-p", tip) if tip else ()),
            GIT_AUTHOR_NAME="Mallory", GIT_AUTHOR_EMAIL="mallory@example.org",
            GIT_COMMITTER_NAME="Mallory", GIT_COMMITTER_EMAIL="mallory@example.org",
            GIT_AUTHOR_DATE=f"{self.clock} +0000", GIT_COMMITTER_DATE=f"{self.clock} +0000",
        )  # fmt: skip
        run_git(self.path, "update-ref", f"refs/heads/{branch}", made)
        return CommitId(made)

    def reset(self, commit: CommitId | None, *, branch: str = "main") -> None:
        """Move a branch anywhere, as a force-push does; None deletes it."""
        if commit is None:
            run_git(self.path, "update-ref", "-d", f"refs/heads/{branch}")
        else:
            run_git(self.path, "update-ref", f"refs/heads/{branch}", commit)

    def hook(self, name: str, script: str) -> None:
        """Install a server-side hook."""
        path = self.path / "hooks" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    def clone(self, name: str, email: str | None = None) -> "Clone":
        """Return a person's clone beside the repository."""
        return Clone(self, name, email or f"{name.lower()}@example.org")


class Clone:
    """A person with a work tree."""

    def __init__(self, remote: Remote, name: str, email: str) -> None:
        self.remote = remote
        self.path = remote.path.parent / f"clone-{name.lower()}"
        run_git(remote.path.parent, "clone", "--quiet", remote.url, str(self.path))
        run_git(self.path, "config", "user.name", name)
        run_git(self.path, "config", "user.email", email)

    def write(self, path: str, text: str) -> None:
        target = self.path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def remove(self, path: str) -> None:
        (self.path / path).unlink()

    def commit(self, message: str = "Change the fleet", *, at: int | None = None) -> CommitId:
        """Commit everything in the work tree; the clock is the remote's."""
        self.remote.clock = Instant(self.remote.clock + 60)
        when = f"{self.remote.clock if at is None else at} +0000"
        run_git(self.path, "add", "--all")
        run_git(
            self.path, "commit", "--quiet", "--message", message,
            GIT_AUTHOR_DATE=when, GIT_COMMITTER_DATE=when,
        )  # fmt: skip
        return CommitId(run_git(self.path, "rev-parse", "HEAD"))

    def push(self, *, branch: str = "main", force: bool = False) -> None:
        run_git(
            self.path, "push", "--quiet", *(("--force",) if force else ()), "origin",
            f"HEAD:refs/heads/{branch}",
        )  # fmt: skip

    def pull(self) -> None:
        run_git(self.path, "pull", "--quiet", "--rebase", "origin", "main")


class Reconciler:
    """One reconciler's mirror, store and lease; its clock is a number the test moves."""

    def __init__(
        self,
        remote: Remote,
        name: str = "r1",
        *,
        cluster: str = "laptop",
        lease_s: int = 30,
        holder: str | None = None,
    ) -> None:
        self.mirror = open_mirror(remote.path.parent / f"mirror-{name}.git", remote.url)
        self.store = StatusStore(self.mirror, "origin", cluster)
        self.lease = Lease(self.store, holder=holder or name, lease_s=Seconds(lease_s))
        self.now = START
        self.monotonic_s = 0.0

    def acquire(self) -> int:
        return self.lease.acquire(self.now, self.monotonic_s)

    def record(self, *statuses: JobStatus, at: Instant | None = None) -> CommitId:
        """Commit statuses on the tip last seen."""
        parent = self.store.seen()
        assert parent is not None
        files = {status_path(each.job): status_to_json(each) for each in statuses}
        message = f"status: test\n\nHeadway-Epoch: {self.lease.epoch}\n"
        return self.store.commit(parent, files, message, at=at or self.now)


def a_status(
    job: str = "team/job", phase: JobPhase = JobPhase.PENDING, **more: object
) -> JobStatus:
    """Return a small status of one job."""
    return JobStatus(job=JobId(job), phase=phase, reason=Reason.GPUS_BUSY, **more)  # type: ignore[arg-type]


def many_jobs(count: int, *, teams: int = 40, lines: int = 20) -> dict[str, str]:
    """Return paths and texts of ``count`` plain job files, spread over ``teams``."""
    padding = "".join(
        f"# line {line} of a file that is as long as real ones\n" for line in range(lines)
    )
    return {
        f"jobs/team-{number % teams:02d}/job-{number:05d}.yaml": (
            f"api_version: headway/v1\nkind: Job\nresources: {{gpus: {1 + number % 8}}}\n{padding}"
        )
        for number in range(count)
    }


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Remote]:
    """An empty bare repository."""
    yield Remote(tmp_path / "remote.git")


class _Folder:
    def __init__(self) -> None:
        self.entries: list[tuple[str, bytes, bytes]] = []
        self.folders: dict[bytes, _Folder] = {}

    def put(self, parts: Sequence[bytes], mode: str, content: bytes) -> None:
        if len(parts) > 1:
            self.folders.setdefault(parts[0], _Folder()).put(parts[1:], mode, content)
        else:
            self.entries.append((mode, parts[0], content))

    def write(self, repo: Path) -> str:
        lines = []
        for mode, name, content in self.entries:
            kind = "commit" if mode == "160000" else "blob"
            oid = "1" * 40
            if kind == "blob":
                oid = run_git(repo, "hash-object", "-w", "--stdin", stdin=content or b"\n")
            lines.append(f"{mode} {kind} {oid}\t".encode() + name)
        for name, folder in self.folders.items():
            lines.append(f"040000 tree {folder.write(repo)}\t".encode() + name)
        return run_git(repo, "mktree", "-z", "--missing", stdin=b"\0".join(lines) + b"\0")


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)
