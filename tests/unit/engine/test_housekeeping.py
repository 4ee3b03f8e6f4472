"""The mirror is packed now and then, and a failure to do so harms nothing."""

import io
import threading

from reconciler.domain.units import Instant
from reconciler.engine.housekeeping import Housekeeper
from reconciler.engine.logging import Log
from reconciler.errors import GitError


def test_it_goes_on_after_a_failure_and_stops_when_told() -> None:
    stop, calls, written = threading.Event(), [], io.StringIO()

    def maintain() -> None:
        calls.append(len(calls))
        if len(calls) == 1:
            raise GitError("no space left")
        if len(calls) == 3:
            stop.set()

    log = Log(lambda: Instant(0), written)
    Housekeeper(maintain, log=log, first_after_s=0.0, every_s=0.0).run(stop)

    assert calls == [0, 1, 2]
    assert 'maintenance-failed why="no space left"' in written.getvalue()
    assert written.getvalue().count(" maintained") == 2
