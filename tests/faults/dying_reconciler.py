"""A reconciler that is killed at one point: ``python -m tests.faults.dying_reconciler POINT ...``.

It is the real service with the real world, wrapped: at its point the process sends itself
SIGKILL, so nothing is cleaned up, flushed or released.  The points are those of a cycle that
starts an attempt, in order, and of the cycle that observes it.
"""

import os
import signal
import sys
from pathlib import Path

from reconciler.domain.plan import Action, Launch, Plan
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.status import StatusUpdate
from reconciler.engine import service
from reconciler.engine.logging import Log
from reconciler.engine.service import Options
from reconciler.engine.world import LiveWorld
from reconciler.ports import ApplyResult
from reconciler.store import status_store

AFTER_DECIDE = "after-decide"
AFTER_LOCAL_COMMIT = "after-local-commit"
AFTER_PUSH = "after-push"
AFTER_LAUNCH = "after-launch"
BEFORE_OBSERVING_COMMIT = "before-observing-commit"
POINTS = (
    AFTER_DECIDE, AFTER_LOCAL_COMMIT, AFTER_PUSH, AFTER_LAUNCH, BEFORE_OBSERVING_COMMIT,
)  # fmt: skip


def die() -> None:
    """Be killed, as by ``kill -9``."""
    os.kill(os.getpid(), signal.SIGKILL)


class DyingWorld(LiveWorld):
    """A live world that dies at ``point``; the rest is the real one."""

    point = ""
    has_launched = False

    def record(self, snapshot: Snapshot, plan: Plan, update: StatusUpdate) -> None:
        intends = any(isinstance(action, Launch) for action in plan.actions)
        if intends and self.point == AFTER_DECIDE:
            die()
        if self.has_launched and update and self.point == BEFORE_OBSERVING_COMMIT:
            die()
        if intends and self.point == AFTER_LOCAL_COMMIT:
            status_store.push = lambda *_, **__: die()  # the commit is written, the push is next
        super().record(snapshot, plan, update)
        if intends and self.point == AFTER_PUSH:
            die()

    def apply(self, action: Action) -> ApplyResult:
        done = super().apply(action)
        if isinstance(action, Launch):
            DyingWorld.has_launched = True
            if self.point == AFTER_LAUNCH:
                die()
        return done


def main(point: str, repo: str, state: str, runs: str) -> None:
    """Run the loop until it dies."""
    DyingWorld.point = point
    service.LiveWorld = DyingWorld  # type: ignore[misc]
    options = Options(repo=repo, state=Path(state), runs=Path(runs))
    service.reconcile(options, log=Log(service.now))


if __name__ == "__main__":
    main(*sys.argv[1:])
