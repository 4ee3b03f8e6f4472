"""When is the next cycle, and what becomes of an error?  The loop around ``run_cycle``.

Level-triggered: a cycle looks at everything, so a missed event costs at most ``policy.cycle``.
It follows news (a new commit of main, a run that started or ended) or the timer.

* A cycle that changed no status still hands its plan to ``record``: a forecast may be due.
* Somebody wrote first: drop the plan, look again after a jittered wait, plan again.  A plan is
  never applied to another revision than its own.
* The world does not answer: say so, wait, look again.  Nothing is inferred from silence.
* A plan broke an invariant: that is our bug.  The snapshot is saved and the process ends with
  70, before anything was recorded.
* Another holds the lease: end with 75.
* Asked to stop: the cycle under way is finished.  Runs live on.
"""

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from reconciler.cycle import CycleReport, run_cycle
from reconciler.engine.logging import Log
from reconciler.errors import BackendError, DeposedError, InvariantError, StaleRevisionError
from reconciler.planning.memo import Memo
from reconciler.ports import World

FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 10.0
ONCE_TRIES = 5
"""Lost push races and silent remotes after which ``--once`` gives up."""


class LoopWorld(World, Protocol):
    """A world that can tell, cheaply, whether a cycle would see something new."""

    @property
    def cycle_s(self) -> float:
        """The longest time between two cycles, from policy."""
        ...

    def news(self) -> str:
        """Return what is new since the last look in a word or two; empty: nothing."""
        ...

    def keep_evidence(self, error: InvariantError) -> str:
        """Save the snapshot of a plan that broke an invariant; return where it lies."""
        ...


@dataclass(slots=True)
class Patience:
    """A growing, jittered wait: half to all of 0.2, 0.4 ... 10 seconds."""

    longest_s: float = FIRST_WAIT_S
    failures: int = 0

    def next_s(self) -> float:
        """Return how long to wait before the next try, in seconds."""
        self.failures += 1
        wait_s = self.longest_s * (0.5 + secrets.randbelow(501) / 1000)
        self.longest_s = min(self.longest_s * 2, LONGEST_WAIT_S)
        return wait_s

    def calm(self) -> None:
        """Start from the shortest wait again."""
        self.longest_s, self.failures = FIRST_WAIT_S, 0


class Loop:
    """Cycles until asked to stop, or once."""

    def __init__(
        self,
        world: LoopWorld,
        *,
        check_lease: Callable[[], None],
        log: Log,
        stop: threading.Event,
        poll_s: float = 1.0,
    ) -> None:
        self._world = world
        self._check_lease = check_lease
        self._log = log
        self._stop = stop
        self._poll_s = poll_s
        self._memo: Memo | None = None
        self._patience = Patience()

    def run(self) -> None:
        """Cycle until ``stop`` is set.

        Raises ``DeposedError`` when the lease is lost, ``InvariantError`` on our own bug and
        ``BackendError`` where waiting cannot help.
        """
        while not self._stop.is_set():
            report = self.cycle()
            if report is None:
                self._stop.wait(self._patience.next_s())
            else:
                self._patience.calm()
                self._wait_for_news(has_changed=bool(report.update))

    def run_once(self) -> CycleReport:
        """Finish one cycle.  Raises what kept it from finishing, after five tries."""
        while True:
            try:
                report = self._cycle()
            except (StaleRevisionError, BackendError) as error:
                gives_up = self._patience.failures >= ONCE_TRIES - 1 or self._stop.is_set()
                if gives_up or not _can_wait(error):
                    raise
                self._say(error)
                self._stop.wait(self._patience.next_s())
            else:
                self._patience.calm()
                return report

    def cycle(self) -> CycleReport | None:
        """Return what one cycle did; None where it has to be tried again after a wait."""
        try:
            return self._cycle()
        except (StaleRevisionError, BackendError) as error:
            if not _can_wait(error):
                raise
            self._say(error)
            return None

    def _cycle(self) -> CycleReport:
        self._check_lease()
        try:
            report = run_cycle(self._world, self._memo)
            if not report.update:
                self._world.record(report.snapshot, report.plan, report.update)
        except InvariantError as error:
            self._memo = None
            path = self._world.keep_evidence(error)
            self._log.event("invariant-broken", why=error, snapshot=path)
            raise InvariantError(f"{error}; nothing was recorded; snapshot: {path}") from error
        except (StaleRevisionError, BackendError, DeposedError):
            self._memo = None
            raise
        self._memo = report.memo
        return report

    def _say(self, error: StaleRevisionError | BackendError) -> None:
        word = "push-race-lost" if isinstance(error, StaleRevisionError) else "backend-silent"
        self._log.event(word, tries=self._patience.failures + 1, why=error)

    def _wait_for_news(self, *, has_changed: bool) -> None:
        """Wait for news or the timer; after a change only a moment: it may allow the next one."""
        if has_changed:
            self._stop.wait(self._poll_s)
            return
        waited_s = 0.0
        while waited_s < self._world.cycle_s and not self._stop.wait(self._poll_s):
            waited_s += self._poll_s
            if self._world.news():
                return


def _can_wait(error: StaleRevisionError | BackendError) -> bool:
    return isinstance(error, StaleRevisionError) or error.retryable
