"""How a stop is heard: SIGTERM, SIGUSR1, one SIGINT, or the file ``stop`` in the run directory.

Hearing it only sets a flag; what follows is decided at the end of a step, by all ranks together.
"""

import signal
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


class StopFlag:
    """Set once, never cleared."""

    def __init__(self) -> None:
        self.is_set = False
        self.cause = ""

    def set(self, cause: str) -> None:
        """Ask for a stop; the first cause is kept."""
        if not self.is_set:
            self.cause = cause
            self.is_set = True

    def listen(self) -> None:
        """Take the stop signals of this process; must be called from its main thread."""
        for number in SIGNALS:
            signal.signal(number, self._heard)
        # the launcher holds back what arrives before this point
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def _heard(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if number == signal.SIGINT and self.is_set:
            raise KeyboardInterrupt  # a person who presses Ctrl-C twice does not want to wait
        self.set(signal.Signals(number).name)
