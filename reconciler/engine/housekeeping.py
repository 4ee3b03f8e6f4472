"""How does the mirror stay small?  It is packed once a day, beside the cycles.

Single status commits leave loose objects, some twenty times what they cost packed.  Packing takes
seconds to minutes, so a thread does it; git keeps what another process may be about to push.
"""

import threading
from collections.abc import Callable

from reconciler.engine.logging import Log
from reconciler.errors import BackendError

FIRST_AFTER_S = 3600.0
EVERY_S = 86_400.0


class Housekeeper:
    """Calls ``maintain`` an hour after the start and then daily."""

    def __init__(
        self,
        maintain: Callable[[], None],
        *,
        log: Log,
        first_after_s: float = FIRST_AFTER_S,
        every_s: float = EVERY_S,
    ) -> None:
        self._maintain = maintain
        self._log = log
        self._first_after_s = first_after_s
        self._every_s = every_s

    def run(self, stop: threading.Event) -> None:
        """Work until ``stop`` is set.  Meant for a daemon thread; a failure is only logged."""
        wait_s = self._first_after_s
        while not stop.wait(wait_s):
            wait_s = self._every_s
            try:
                self._maintain()
            except BackendError as error:
                self._log.event("maintenance-failed", why=error)
            else:
                self._log.event("maintained")
