"""How is a live reconciler put together, and how does it leave?

Opens the state folder and its lock, the mirror, main and its conf; takes the lease; puts a
:class:`LiveWorld` together; runs the loop; gives the lease back.  Runs are never ended by the
reconciler's own leaving: they belong to the launcher, and the next reconciler finds them.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FrameType

from reconciler.devices.nvml import NvmlSource
from reconciler.domain.units import CommitId, Instant, Seconds
from reconciler.engine.history import accept_history, refuse_renamed_cluster, served_clusters
from reconciler.engine.housekeeping import Housekeeper
from reconciler.engine.launches import Launches
from reconciler.engine.lease_keeper import LeaseKeeper
from reconciler.engine.logging import Log
from reconciler.engine.loop import Loop
from reconciler.engine.machine import Machine
from reconciler.engine.main_reader import MainReader
from reconciler.engine.notifier import Notifier
from reconciler.engine.requests import Place
from reconciler.engine.sinks import Courier, Outbox
from reconciler.engine.state_dir import StateDir
from reconciler.engine.world import LiveWorld, Parts
from reconciler.errors import DeposedError
from reconciler.launchers.table import launcher
from reconciler.snapshots.assemble import Assembler
from reconciler.specs.cache import SpecCache
from reconciler.specs.platform import Platform
from reconciler.store.git.command import without_secrets
from reconciler.store.git.repository import REMOTE, maintain, open_mirror
from reconciler.store.lease import Lease, holder_id
from reconciler.store.spec_source import SpecSource
from reconciler.store.status_store import StatusStore

LOCAL_POLL_S = 1.0
NETWORK_POLL_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    repo: str
    """URL or path of the fleet's repository."""
    state: Path
    runs: Path | None = None
    """Root of the run directories; None: what conf says."""
    data: Path | None = None
    """Where relative data paths of jobs start; None: the run directory."""
    holder: str | None = None
    once: bool = False
    standby: bool = False
    """Wait for a lease that another holds, instead of leaving."""
    accept_history: CommitId | None = None


def reconcile(options: Options, *, log: Log, stop: threading.Event | None = None) -> None:
    """Run the reconciler until it is told to stop, or for one cycle.

    Raises ``DeposedError`` where another reconciler acts for this cluster or takes over,
    ``BackendError`` where waiting cannot help, ``InvariantError`` on our own bug.
    """
    leaving = threading.Event() if stop is None else stop
    state = StateDir(options.state)
    with state.locked(), _stopped_by_signals(leaving, log):
        service = _Service(options, state, log, leaving)
        service.run()


class _Service:
    def __init__(
        self, options: Options, state: StateDir, log: Log, leaving: threading.Event
    ) -> None:
        self._options, self._state, self._log, self._leaving = options, state, log, leaving
        url = remote_url(options.repo)
        self._is_local = "://" not in url or url.startswith("file://")
        mirror = open_mirror(state.mirror, url)
        self._source = SpecSource(mirror, REMOTE)
        self._cache = SpecCache(state.cache)
        self._main = MainReader(self._source, cache=self._cache, log=log)
        self._platform = self._first_platform()
        cluster = self._platform.cluster.id
        self._statuses = StatusStore(mirror, REMOTE, cluster)
        log.event("mirror", remote=without_secrets(url), cluster=cluster)

    def run(self) -> None:
        """Hold the lease, cycle, leave."""
        lease_s = self._platform.policy.lease_s
        lease = self._take_lease(lease_s)
        keeper = LeaseKeeper(
            lease,
            every_s=lease_s / 3,
            monotonic_s=monotonic_s,
            log=self._log,
            on_lost=self._leaving.set,
        )
        keeper.start()
        try:
            if self._options.accept_history:
                accept_history(
                    self._options.accept_history,
                    source=self._source,
                    statuses=self._statuses,
                    now=now(),
                    log=self._log,
                )
            self._cycle(keeper)
        finally:
            keeper.release()

    def _cycle(self, keeper: LeaseKeeper) -> None:
        courier, world = self._world()
        loop = Loop(world, check_lease=keeper.check, log=self._log, stop=self._leaving)
        if self._options.once:
            loop.run_once()
            courier.deliver()
            return
        housekeeper = Housekeeper(lambda: maintain(self._source.repo), log=self._log)
        for each in (courier.run, housekeeper.run):
            threading.Thread(target=each, args=(self._leaving,), daemon=True).start()
        loop.run()
        keeper.check_lost()
        self._log.event("stopped", why="asked to; runs live on")

    def _world(self) -> tuple[Courier, LiveWorld]:
        state, log, source = self._state, self._log, self._source
        place = self._place()
        outbox = Outbox(state.outbox)
        courier = Courier(outbox, state_dir=state.path, clock=now, log=log)
        notifier = Notifier(
            outbox=outbox,
            courier=courier,
            state=state,
            read=self._statuses.read,
            brought_by=source.brought_by,
            log=log,
        )
        parts = Parts(
            main=self._main,
            statuses=self._statuses,
            assembler=Assembler(source, self._cache),
            launches=Launches(source.tree, known=self._main.known, cache=self._cache, place=place),
            launcher=launcher(
                self._platform.launcher.kind,
                Path(place.runs_dir),
                pass_environment=self._platform.launcher.pass_environment,
            ),
            machine=Machine(NvmlSource(), log),
            notifier=notifier,
            state=state,
            runs_dir=place.runs_dir,
            clock=now,
            monotonic_s=monotonic_s,
            remote_poll_s=LOCAL_POLL_S if self._is_local else NETWORK_POLL_S,
            log=log,
            versions=versions(),
        )
        return courier, LiveWorld(parts)

    def _place(self) -> Place:
        runs = self._options.runs or Path(self._platform.launcher.runs_dir)
        data = self._options.data
        return Place(
            runs_dir=str(runs.resolve()),
            data_root=None if data is None else str(data.resolve()),
        )

    def _first_platform(self) -> Platform:
        """Return the conf to begin with; it names the cluster, so nothing goes on without it.

        Where main's conf is broken, the one acted on last is in force: the only status branch of
        the repository says which commit that was.
        """
        return self._main.look(self._last_cursor()).reading.platform

    def _last_cursor(self) -> CommitId | None:
        names = served_clusters(self._source.repo, REMOTE)
        if len(names) != 1:
            return None
        statuses = StatusStore(self._source.repo, REMOTE, names[0])
        tip = statuses.fetch()
        cursor = statuses.read(tip).cursor if tip else None
        return cursor.desired if cursor else None

    def _take_lease(self, lease_s: Seconds) -> Lease:
        refuse_renamed_cluster(self._statuses)
        holder = self._options.holder or holder_id(self._state.path)
        lease = Lease(self._statuses, holder=holder, lease_s=lease_s)
        told = False
        while True:
            try:
                epoch = lease.acquire(now(), monotonic_s())
            except DeposedError as error:
                if not self._options.standby or self._leaving.is_set():
                    raise
                if not told:
                    self._log.event("standby", why=error)
                    told = True
                self._leaving.wait(lease_s / 3)
            else:
                self._log.event("lease-taken", holder=holder, epoch=epoch)
                return lease


def remote_url(repo: str) -> str:
    """Return what git is given: a URL as it is, a path made absolute."""
    return repo if "://" in repo or _is_scp(repo) else str(Path(repo).resolve())


def _is_scp(repo: str) -> bool:
    """Return whether this is ``user@host:path``, which no local path is taken for."""
    head, colon, _ = repo.partition(":")
    return bool(colon) and "/" not in head and not Path(repo).exists()


def now() -> Instant:
    """Return the wall clock, in whole seconds."""
    return Instant(int(time.time()))


def monotonic_s() -> float:
    """Return a clock that never goes back and counts the machine's sleep where it can."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


def versions() -> dict[str, str]:
    """Return what a decision was made with; part of its recorded inputs."""
    return {name: _version(name) for name in ("headway", "tzdata")} | {"planner": "1"}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


@contextmanager
def _stopped_by_signals(leaving: threading.Event, log: Log) -> Iterator[None]:
    """Let SIGTERM and SIGINT end the loop after the cycle under way; a second one at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def leave(number: int, _: FrameType | None) -> None:
        log.event("stopping", signal=signal.Signals(number).name)
        leaving.set()
        signal.signal(number, before[number])

    for number in (signal.SIGTERM, signal.SIGINT):
        before[number] = signal.signal(number, leave)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
