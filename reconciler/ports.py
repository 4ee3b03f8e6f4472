"""The doors between the pure core and the world: what the cycle asks for, and who may answer.

Every effect behind a port is idempotent or refused, never half done.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from reconciler.domain.attempt import Observation
from reconciler.domain.cluster import Device
from reconciler.domain.launch import LaunchRequest, RunRef
from reconciler.domain.plan import Action, Plan
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.status import StatusUpdate
from reconciler.domain.units import AttemptId, CommitId, Instant, Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyResult:
    """What came of one action.  A failure is data: the next cycle observes and decides again."""

    action: Action
    ok: bool
    message: str = ""


class World(Protocol):
    """The live shell, the simulator and tests: one cycle runs over any of them."""

    def observe(self) -> Snapshot:
        """Return everything the planner may know.  Raises ``BackendError`` on a partial read."""
        ...

    def record(self, snapshot: Snapshot, plan: Plan, update: StatusUpdate) -> None:
        """Make the plan fact, before anything is acted on.  Raises ``StaleRevisionError``."""
        ...

    def apply(self, action: Action) -> ApplyResult:
        """Ask the world for one recorded action; never raises for the world's own failures."""
        ...


class Launcher(Protocol):
    """Runs attempts.  All four calls are idempotent by attempt id."""

    def launch(self, request: LaunchRequest) -> None:
        """Start the attempt, or do nothing where it runs or ran.  Raises ``LauncherError``."""
        ...

    def poll(self, runs: Sequence[RunRef]) -> Mapping[AttemptId, Observation]:
        """Return one observation for each run, asking the engine once for all."""
        ...

    def stop(self, run: RunRef, grace_s: Seconds) -> None:
        """Ask for a checkpoint and an exit; kill after ``grace_s``."""
        ...

    def kill(self, run: RunRef) -> None:
        """End it now, with everything it started."""
        ...


class DeviceSource(Protocol):
    """What devices this machine has."""

    def devices(self) -> tuple[Device, ...]:
        """Return the devices, sorted by id; an empty tuple where there are none."""
        ...


class Clock(Protocol):
    def now(self) -> Instant: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEntry:
    """One file of a git tree.  ``mode`` is as git prints it: only ``100644`` is a plain file."""

    mode: str
    oid: str
    size: int


class Tree(Protocol):
    """The files of one commit, read from blobs and never from a work tree."""

    @property
    def commit(self) -> CommitId: ...

    @property
    def entries(self) -> Mapping[str, TreeEntry]:
        """Every path of the commit under the roots it was opened with, sorted."""
        ...

    def read(self, oids: Iterable[str]) -> Mapping[str, bytes]:
        """Return the blobs asked for.  Raises ``GitError`` if any is missing."""
        ...
