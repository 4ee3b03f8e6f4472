"""Runs attempts on this machine, each under a wrapper that outlives the reconciler.

Rules kept: the claim decides who runs, so a launch asked for twice, even at once, is one run.
A process is believed to be a wrapper only with its start time and this boot's id.  Devices are
reported free (``ended``, ``lost``) only when nothing of the attempt runs any more.  Where the
runs folder does not answer, every attempt is ``unknown``: a lost disk never means lost work.

One runs folder belongs to one machine and one reconciler.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import reconciler
from reconciler.domain.attempt import Observation, ObservedState
from reconciler.domain.launch import LaunchRequest, RunRef
from reconciler.domain.units import AttemptId, Instant, Seconds
from reconciler.errors import LauncherError
from reconciler.launchers import processes, run_dir, run_files
from reconciler.launchers.trainer_command import command, environment, tells_leader_only
from reconciler.launchers.wrapper import LEADER_ONLY

PATIENCE_S = 2.0
"""How long a poll or a kill waits for killed processes to be gone."""


_OVER = (ObservedState.ENDED, ObservedState.LOST)
_CHILDREN: list[subprocess.Popen[bytes]] = []
"""Wrappers this process started and has not reaped; they are the process's, not a launcher's."""


class LocalLauncher:
    """Implements ``ports.Launcher`` with processes of this machine."""

    def __init__(
        self,
        root: Path,
        *,
        pass_environment: Collection[str] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        self._root = root.resolve()
        self._pass_environment = tuple(pass_environment)
        self._now = now
        self._root_identity: tuple[int, int] | None = None
        self._find_root()

    def launch(self, request: LaunchRequest) -> None:
        """Start the attempt's wrapper, unless it is claimed or being started already."""
        _reap()
        attempt = request.run.attempt
        if len(request.allocation.shares) != 1:
            nodes = len(request.allocation.shares)
            raise LauncherError(
                f"{attempt}: the local launcher runs one machine, got {nodes} nodes",
                retryable=False,
            )
        path = self._path(request.run)
        try:
            run_dir.write_request(path, attempt, request.request)
            if self._is_claimed(path) or self._is_starting(path):
                return
            self._start(request, path)
        except OSError as error:
            raise LauncherError(f"{attempt}: cannot launch in {path}: {error}") from error

    def poll(self, runs: Sequence[RunRef]) -> Mapping[AttemptId, Observation]:
        """Return one observation a run; leftovers of lost runs are ended first."""
        _reap()
        if not self._find_root():
            message = f"the runs folder {self._root} does not answer"
            return {run.attempt: _unknown(run, message) for run in runs}
        seen = {run.attempt: self._observe(run) for run in runs}
        over = [run for run in runs if seen[run.attempt].state in _OVER]
        if over:
            left = self._end([self._membership(run) for run in over])
            for run in over:
                if self._membership(run) in left:
                    message = "its wrapper is gone and its processes do not end"
                    seen[run.attempt] = _unknown(run, message)
        return seen

    def stop(self, run: RunRef, grace_s: Seconds) -> None:
        """Write the stop file; the wrapper signals the command and keeps the grace.

        A run that no wrapper has claimed ends here: it will not start later.
        """
        path = self._path(run)
        try:
            self._write_stop(run, path, grace_s)
            self._end_unclaimed(run, path, signal.SIGTERM)
        except OSError as error:
            raise LauncherError(f"{run.attempt}: cannot ask to stop: {error}") from error

    def kill(self, run: RunRef) -> None:
        """End everything of the attempt, and see that it does not start later."""
        path = self._path(run)
        try:
            self._write_stop(run, path, Seconds(0))
            self._end_unclaimed(run, path, signal.SIGKILL)
            owner = run_dir.read_owner(path)
            wrapper = owner.pid if owner is not None else -1
            membership = self._membership(run)
            self._end([membership], spared=wrapper)
            deadline = time.monotonic() + PATIENCE_S
            while not (path / run_files.EXIT).exists() and time.monotonic() < deadline:
                if owner is None or not _is_alive(owner):
                    break
                time.sleep(0.02)
            self._end([membership])
        except OSError as error:
            raise LauncherError(f"{run.attempt}: cannot kill: {error}") from error

    def _observe(self, run: RunRef) -> Observation:
        try:
            path = self._path(run)
        except LauncherError as error:
            return _unknown(run, str(error))

        def is_alive(owner: run_dir.Owner | None) -> bool:
            if owner is not None:
                return _is_alive(owner)
            # Claimed this very moment, or the wrapper died before it could say who it is.
            return bool(processes.members([self._membership(run)])[self._membership(run)])

        now = Instant(int(self._now()))
        try:
            seen = run_dir.observe_run(run.attempt, path, now=now, is_alive=is_alive)
            if seen.state is ObservedState.ABSENT and (path / run_files.SPAWN).exists():
                if self._is_starting(path):
                    return replace(seen, state=ObservedState.RUNNING, message="starting")
                # Gone: it may have claimed, run and left between our two looks.
                seen = run_dir.observe_run(run.attempt, path, now=now, is_alive=is_alive)
        except OSError as error:
            return _unknown(run, f"{path} does not answer: {error.strerror}")
        return seen

    def _start(self, request: LaunchRequest, path: Path) -> None:
        """Start a wrapper in a session of its own: it gets none of our signals."""
        wrapper = [sys.executable, "-m", "reconciler.launchers.wrapper", str(path)]
        if tells_leader_only(request):
            wrapper.append(LEADER_ONLY)
        argv = command(request, path, sys.executable)
        with (path / run_files.WRAPPER_LOG).open("ab") as log:
            child = subprocess.Popen(
                [*wrapper, "--", *argv],
                cwd=Path(str(reconciler.__file__)).parent.parent,
                env=environment(
                    request,
                    path,
                    os.environ,
                    python=sys.executable,
                    extra=self._pass_environment,
                ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        _CHILDREN.append(child)
        process = processes.look(child.pid)
        marker = {
            "version": run_files.VERSION,
            "attempt": request.run.attempt,
            "pid": child.pid,
            "start_ticks": process.start_ticks if process is not None else 0,
            "boot_id": processes.boot_id(),
            "started_at": self._now(),
        }
        run_files.replace(path / run_files.SPAWN, run_files.to_json(marker))

    def _is_claimed(self, path: Path) -> bool:
        return (path / run_files.CLAIM).exists()

    def _is_starting(self, path: Path) -> bool:
        """Return whether a wrapper started for this run is still on its way to the claim."""
        try:
            marker = run_files.read_object(path / run_files.SPAWN) or {}
            return processes.is_alive(
                int(marker.get("pid", 0)), int(marker.get("start_ticks", 0)),
                str(marker.get("boot_id", "")),
            )  # fmt: skip
        except (run_files.UnreadableError, TypeError, ValueError):
            return False

    def _write_stop(self, run: RunRef, path: Path, grace_s: Seconds) -> None:
        """Create the stop file; written again only where that shortens the grace."""
        path.mkdir(parents=True, exist_ok=True)
        content = run_files.to_json(
            {
                "version": run_files.VERSION,
                "attempt": run.attempt,
                "grace_s": int(grace_s),
                "asked_at": self._now(),
            }
        )
        if run_files.create(path / run_files.STOP, content):
            return
        try:
            before = (run_files.read_object(path / run_files.STOP) or {}).get("grace_s")
        except run_files.UnreadableError:
            before = None
        if not isinstance(before, int | float) or grace_s < before:
            run_files.replace(path / run_files.STOP, content)

    def _end_unclaimed(self, run: RunRef, path: Path, number: signal.Signals) -> None:
        """Take a free claim, so that no wrapper can, and say the last word in its place."""
        try:
            (path / run_files.CLAIM).mkdir()
        except FileExistsError:
            return
        at = self._now()
        word = {
            "version": run_files.VERSION,
            "attempt": run.attempt,
            "exit_status": -number,
            "started_at": at,
            "ended_at": at,
            "killed_after_grace": False,
        }
        run_files.create(path / run_files.EXIT, run_files.to_json(word))

    def _end(
        self, wanted: list[processes.Membership], spared: int = -1
    ) -> set[processes.Membership]:
        """Kill all members but ``spared``; return the memberships that have some left."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = processes.members(wanted)
            left = {
                one: [process for process in those if process.pid != spared]
                for one, those in found.items()
            }
            if not any(left.values()):
                return set()
            processes.send((p for those in left.values() for p in those), signal.SIGKILL)
            _reap()
            if time.monotonic() > deadline:
                return {one for one, those in left.items() if those}
            time.sleep(0.02)

    def _membership(self, run: RunRef) -> processes.Membership:
        return processes.Membership(run.attempt, str(self._root / run.path))

    def _path(self, run: RunRef) -> Path:
        """Return the run directory; a path or a link that leads elsewhere is refused."""
        path = self._root / run.path
        if Path(run.path).is_absolute() or Path(os.path.realpath(path)) != path:
            raise LauncherError(
                f"{run.attempt}: {run.path!r} is not a plain path below {self._root}",
                retryable=False,
            )
        return path

    def _find_root(self) -> bool:
        """Return whether the runs folder is there, and still the one we began with."""
        try:
            if self._root_identity is None:
                self._root.mkdir(parents=True, exist_ok=True)
            about = self._root.stat()
            os.listdir(self._root)  # noqa: PTH208 - only to see that it can be read
        except OSError:
            return False
        identity = (about.st_dev, about.st_ino)
        if self._root_identity is None:
            self._root_identity = identity
        return self._root_identity == identity


def _reap() -> None:
    _CHILDREN[:] = [child for child in _CHILDREN if child.poll() is None]


def _is_alive(owner: run_dir.Owner) -> bool:
    return processes.is_alive(owner.pid, owner.start_ticks, owner.boot_id)


def _unknown(run: RunRef, message: str) -> Observation:
    return Observation(attempt=run.attempt, state=ObservedState.UNKNOWN, message=message)
