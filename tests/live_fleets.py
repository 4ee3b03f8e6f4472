"""A small fleet for tests of the live loop: a bare remote, a conf, tiny commands as jobs.

The cluster is one node with CPU slots; teams may run commands.  A job of :meth:`Fleet.job` runs a
script of a few lines that adds its attempt id to a ledger, so a test can count what really ran.
"""

import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from reconciler.domain.status import JobPhase, JobStatus
from reconciler.domain.units import CommitId, JobId
from reconciler.engine import service
from reconciler.engine.logging import Log
from reconciler.engine.service import Options
from reconciler.store.status_tree import StatusTree, read_status_tree
from tests.git_worlds import Remote, run_git

ROOT = Path(__file__).parents[1]
PATIENCE_S = 60.0

HEADWAY = """\
api_version: headway/v1
cluster:
  id: {cluster}
  node_types:
    laptop: {{kind: cpu_slot, type: cpu, count: {slots}, memory: 1GiB}}
  nodes:
    node-1: {{is: laptop, rack: r1}}
policy:
  order: {order}
  cycle: {cycle}
  lease: {lease}
  default_duration: 1h
  lost_after: 5s
  preemption: {{restart: 1s}}
  retry: {{max_tries: 2, backoff: 1s}}
  deletion: {{grace: 1s}}
launcher: {{kind: local, runs_dir: runs}}
"""
TEAM = """\
members:
  - {{name: Ada, role: admin, emails: [ada@example.org]}}
  - {{name: Grace, role: member, emails: [grace@example.org]}}
may_use_p0: true
may_run_command: true
"""
JOB = """\
api_version: headway/v1
kind: Job
priority: {priority}
resources: {{gpus: {gpus}}}
time: {{estimate: {estimate}}}
run:
  command: [{python}, {script}, {ledger}, "{seconds}"]
  checkpoint_on_term: {preemptible}
preemption: {{allowed: {preemptible}, grace: 5s}}
{more}"""

SCRIPT = '''\
"""Adds the attempt to the ledger, works for a while, leaves at once on SIGTERM."""

import os
import signal
import sys
import time

ledger, seconds = sys.argv[1], float(sys.argv[2])
enough = [ledger + ".finish", ledger + ".finish." + os.environ["HEADWAY_JOB"].replace("/", ".")]


def note(word):
    line = f"{word} {os.environ['HEADWAY_ATTEMPT_ID']} resume={os.environ['HEADWAY_RESUME_FROM']}"
    with open(ledger, "a") as file:
        file.write(line + os.linesep)


def leave(*_):
    note("asked")
    sys.exit(143)


signal.signal(signal.SIGTERM, leave)
note("started")
deadline = time.monotonic() + seconds
while time.monotonic() < deadline and not any(map(os.path.exists, enough)):
    time.sleep(0.02)
note("ended")
'''


class Fleet:
    """One remote with one cluster, in a folder of its own."""

    def __init__(
        self,
        folder: Path,
        *,
        slots: int = 4,
        cycle: str = "1s",
        lease: str = "3s",
        order: str = "value",
    ) -> None:
        self.folder = folder
        self.remote = Remote(folder / "remote.git")
        self.ledger = folder / "ledger"
        self.script = folder / "work.py"
        self.script.write_text(SCRIPT, encoding="utf-8")
        self.log = io.StringIO()
        self.conf: dict[str, object] = {
            "cluster": "lab", "slots": slots, "cycle": cycle, "lease": lease, "order": order,
        }  # fmt: skip
        self.commit({"conf/headway.yaml": HEADWAY.format(**self.conf)} | self.team("team"))

    @property
    def cluster(self) -> str:
        return str(self.conf["cluster"])

    def headway(self, **changed: object) -> str:
        """Return ``conf/headway.yaml`` with other settings."""
        return HEADWAY.format(**{**self.conf, **changed})

    def team(self, name: str, text: str = TEAM) -> dict[str, str]:
        """Return the file that declares a team."""
        return {f"conf/teams/{name}.yaml": text.replace("{{", "{").replace("}}", "}")}

    def commit(self, files: Mapping[str, str | None], message: str = "Change the fleet",
               **more: Any) -> CommitId:  # fmt: skip
        """Commit files on main now; None deletes one."""
        return self.remote.commit(files, message, at=int(time.time()), **more)

    def job(
        self,
        name: str,
        *,
        seconds: float = 0.1,
        gpus: int = 1,
        priority: str = "P2",
        estimate: str = "10m",
        preemptible: bool = True,
        more: str = "",
        team: str = "team",
    ) -> dict[str, str]:
        """Return the file of a job that works for ``seconds``."""
        text = JOB.format(
            priority=priority, gpus=gpus, seconds=seconds, estimate=estimate, more=more,
            preemptible=str(preemptible).lower(), python=json.dumps(sys.executable),
            script=json.dumps(str(self.script)), ledger=json.dumps(str(self.ledger)),
        )  # fmt: skip
        return {f"jobs/{team}/{name}.yaml": text}

    def finish_everything(self) -> None:
        """Let every job end by itself, now."""
        self.ledger.with_name("ledger.finish").touch()

    def finish(self, name: str, team: str = "team") -> None:
        """Let one job end by itself, now."""
        self.ledger.with_name(f"ledger.finish.{team}.{name}").touch()

    def options(self, name: str = "r1", **more: Any) -> Options:
        """Return what a reconciler of this fleet is started with."""
        made = Options(
            repo=self.remote.url, state=self.folder / name, runs=self.folder / "runs",
        )  # fmt: skip
        return replace(made, **more)

    def reconcile_once(self, name: str = "r1", **more: Any) -> None:
        """Run one cycle in this process."""
        service.reconcile(
            self.options(name, once=True, **more), log=Log(service.now, self.log),
            stop=threading.Event(),
        )  # fmt: skip

    def start(self, name: str = "r1", *words: str) -> "subprocess.Popen[str]":
        """Start ``headway reconcile --loop`` in a process of its own."""
        with (self.folder / f"{name}.log").open("a", encoding="utf-8") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "reconciler.cli.boundary", "reconcile", "--loop",
                 "--repo", self.remote.url, "--state", str(self.folder / name),
                 "--runs", str(self.folder / "runs"), *words],
                cwd=ROOT, stdout=log, stderr=log, text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip

    def said(self, name: str = "r1") -> str:
        """Return what a started reconciler wrote to its log."""
        return (self.folder / f"{name}.log").read_text(encoding="utf-8")

    def tree(self) -> StatusTree | None:
        """Return the tip of the status branch on the remote."""
        tip = self.remote.tip(f"status/{self.cluster}")
        return None if tip is None else read_status_tree(self.remote.path, tip)

    def status(self, name: str, team: str = "team") -> JobStatus | None:
        """Return a job's status on the remote."""
        tree = self.tree()
        return None if tree is None else tree.statuses.get(JobId(f"{team}/{name}"))

    def phase(self, name: str, team: str = "team") -> JobPhase | None:
        status = self.status(name, team)
        return None if status is None else status.phase

    def history(self) -> list[StatusTree]:
        """Return every commit of the status branch, oldest first."""
        listed = run_git(
            self.remote.path, "rev-list", "--reverse", "--first-parent",
            f"refs/heads/status/{self.cluster}",
        )  # fmt: skip
        return [read_status_tree(self.remote.path, CommitId(each)) for each in listed.split()]

    def lines(self) -> list[str]:
        """Return the ledger."""
        return self.ledger.read_text(encoding="utf-8").splitlines() if self.ledger.exists() else []

    def started(self) -> list[str]:
        """Return the ids of the attempts that really ran, in order."""
        return [line.split()[1] for line in self.lines() if line.startswith("started ")]


def eventually(
    holds: Callable[[], object], what: str, *, patience_s: float = PATIENCE_S,
    detail: Callable[[], str] = str,
) -> None:  # fmt: skip
    """Wait until ``holds`` is true; fail with ``what`` after a deadline."""
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline, f"never came true: {what}\n{detail()}"
        time.sleep(0.05)
