"""Is this reconciler still the one that may act?  Renews the lease beside the cycles.

A cycle may take longer than a lease, so a thread beats every third of it.  Losing the lease is
final: whoever took it has a higher epoch, and this process must stop acting.  A beat that fails
because the remote does not answer loses nothing yet, but once the last good one is a lease old
nothing is acted on until one succeeds again: by then a standby may be on its way.
"""

import threading
from collections.abc import Callable
from typing import Protocol

from reconciler.engine.logging import Log
from reconciler.errors import BackendError, DeposedError


class HeldLease(Protocol):
    """What an acquired lease can do (``reconciler.store.lease``)."""

    def beat(self, monotonic_s: float) -> None:
        """Prove to be alive.  Raises ``DeposedError`` when another holds the lease."""
        ...

    def is_fresh(self, monotonic_s: float) -> bool:
        """Return True while nobody else can have taken over."""
        ...

    def release(self) -> None:
        """Let a standby take over at once."""
        ...


class LeaseKeeper:
    """Beats every ``every_s`` seconds from :meth:`start` to :meth:`stop`."""

    def __init__(
        self,
        lease: HeldLease,
        *,
        every_s: float,
        monotonic_s: Callable[[], float],
        log: Log,
        on_lost: Callable[[], None],
    ) -> None:
        self._lease = lease
        self._monotonic_s = monotonic_s
        self._every_s = every_s
        self._log = log
        self._on_lost = on_lost
        self._stop = threading.Event()
        self._lost: DeposedError | None = None
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        """Begin to renew."""
        self._thread.start()

    def check(self) -> None:
        """Raise ``DeposedError`` once the lease is lost, ``BackendError`` while it is doubtful."""
        self.check_lost()
        if not self._lease.is_fresh(self._monotonic_s()):
            raise BackendError("the lease could not be renewed in time; nothing is acted on")

    def check_lost(self) -> None:
        """Raise ``DeposedError`` once another holds the lease."""
        if self._lost is not None:
            raise self._lost

    def stop(self) -> None:
        """Renew no more; return when the thread is gone."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def release(self) -> None:
        """Stop, and give the lease back unless it is lost; a remote that is gone is only logged."""
        self.stop()
        if self._lost is not None:
            return
        try:
            self._lease.release()
        except (BackendError, DeposedError) as error:
            self._log.event("lease-not-released", why=error)

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            try:
                self._lease.beat(self._monotonic_s())
            except DeposedError as error:
                self._lost = error
                self._log.event("lease-lost", why=error)
                self._on_lost()
                return
            except BackendError as error:
                self._log.event("lease-renewal-failed", why=error)
