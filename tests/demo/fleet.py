"""The scratch fleet of the demo: a bare repository, clones of two teams, a reconciler.

The repository is made from this project's own ``conf/`` and ``jobs/``.  Jobs of teams that name
a ``sample_cluster`` are GPU-sized samples and stay out; so do the jobs of the story, which the
teams commit while the demo runs.
"""

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
BRANCH = "main"


@dataclass(frozen=True, slots=True)
class Person:
    """Who commits: a member of a team, as ``conf/teams`` knows them."""

    name: str
    email: str


PLATFORM = Person("Pia Platform", "pia@example.com")


def run(*argv: str | Path, cwd: Path | None = None) -> str:
    """Run a command and return its stdout.  Raises ``RuntimeError`` with its stderr."""
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, argv))}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def environment() -> dict[str, str]:
    """Return the environment of every child: this interpreter's tools, nobody's git settings."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return os.environ | {
        "PATH": path,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


class Fleet:
    """One scratch fleet under ``folder``."""

    def __init__(self, folder: Path, story_jobs: frozenset[str]) -> None:
        self.folder = folder
        self.origin = folder / "fleet.git"
        self.runs = folder / "runs"
        self.log = folder / "reconciler.log"
        self.cluster = "laptop"
        self._story_jobs = story_jobs
        self._reconciler: subprocess.Popen[bytes] | None = None

    @property
    def status_branch(self) -> str:
        """The branch only the reconciler writes."""
        return f"status/{self.cluster}"

    def log_tail(self) -> list[str]:
        """Return the last lines of the reconciler's log."""
        return self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:]

    def create(self) -> None:
        """Make the bare repository with its first commit.  Replaces an older scratch fleet."""
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)
        run("git", "init", "--quiet", "--bare", "--initial-branch", BRANCH, self.origin)
        seed = self.folder / "clones" / "platform"
        run("git", "init", "--quiet", "--initial-branch", BRANCH, seed)
        run("git", "remote", "add", "origin", self.origin, cwd=seed)
        shutil.copytree(ROOT / "conf", seed / "conf")
        self._keep_to_this_machine(seed)
        self.commit("platform", PLATFORM, "Set up the fleet's configuration")

    def clone(self, team: str) -> None:
        """Make a team's clone."""
        run("git", "clone", "--quiet", self.origin, self.folder / "clones" / team)

    def job_text(self, job: str) -> str:
        """Return the document of one of this project's sample jobs."""
        return (ROOT / "jobs" / f"{job}.yaml").read_text(encoding="utf-8")

    def write(self, team: str, job: str, text: str) -> None:
        """Write a document into a team's clone."""
        path = self.folder / "clones" / team / "jobs" / f"{job}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def commit(self, team: str, author: Person, subject: str) -> str:
        """Commit everything in a team's clone, push it, and return the commit id."""
        clone = self.folder / "clones" / team
        run("git", "config", "user.name", author.name, cwd=clone)
        run("git", "config", "user.email", author.email, cwd=clone)
        run("git", "add", "--all", cwd=clone)
        run("git", "commit", "--quiet", "--message", subject, cwd=clone)
        if team != "platform":
            run("git", "pull", "--quiet", "--rebase", "origin", BRANCH, cwd=clone)
        run("git", "push", "--quiet", "origin", f"HEAD:{BRANCH}", cwd=clone)
        return run("git", "rev-parse", "HEAD", cwd=clone).strip()

    def start_reconciler(self) -> None:
        """Start ``headway reconcile --loop`` on the scratch fleet, its log beside it."""
        with self.log.open("ab") as log:
            self._reconciler = subprocess.Popen(
                [
                    *("headway", "reconcile", "--loop", "--repo", str(self.origin)),
                    *("--state", str(self.folder / "state"), "--runs", str(self.runs)),
                ],
                stdout=log,
                stderr=log,
                env=environment(),
                start_new_session=True,
            )

    def reconciler_ended(self) -> int | None:
        """Return the reconciler's exit code if it is no longer there."""
        return None if self._reconciler is None else self._reconciler.poll()

    def stop_reconciler(self) -> None:
        """Ask the reconciler to leave and wait for it."""
        if self._reconciler is None or self._reconciler.poll() is not None:
            return
        self._reconciler.send_signal(signal.SIGTERM)
        try:
            self._reconciler.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._reconciler.kill()
            self._reconciler.wait()

    def headway(self, *words: str) -> str:
        """Run a ``headway`` command against the scratch fleet and return what it prints."""
        return run("headway", *words, "--repo", self.origin)

    def _keep_to_this_machine(self, seed: Path) -> None:
        """Copy the sample jobs that this machine can run, the story's own left out."""
        away = {
            path.stem
            for path in (seed / "conf" / "teams").glob("*.yaml")
            if yaml.safe_load(path.read_text(encoding="utf-8")).get("sample_cluster")
        }
        for path in sorted((ROOT / "jobs").glob("*/*.yaml")):
            job = f"{path.parent.name}/{path.stem}"
            if path.parent.name in away or job in self._story_jobs:
                continue
            target = seed / "jobs" / f"{job}.yaml"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
