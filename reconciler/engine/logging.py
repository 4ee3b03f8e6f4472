"""What did the reconciler do, for whoever reads its stderr?  One line an event.

``2026-11-30T09:00:00Z launch job=recsys/sft-001 attempt=recsys.sft-001-g1-a1-0f0f0f0f0f``: an
instant, a word, then names and values.  A value with spaces or control characters is written as
JSON text, so a line stays a line whatever a document holds.  Secrets never reach it: only names,
ids, reasons and messages that are already in status files or raised by our own code.
"""

import json
import re
import sys
from collections.abc import Callable
from typing import TextIO

from reconciler.domain.units import Instant, rfc3339

_BARE = re.compile(r"[A-Za-z0-9_.:/@+<>#=-]+")
_LONGEST = 600
"""Characters of one value: an error message of a child process may be long."""


class Log:
    """Writes event lines to one stream; safe to share between threads (one write a line)."""

    def __init__(self, clock: Callable[[], Instant], stream: TextIO | None = None) -> None:
        self._clock = clock
        self._stream = sys.stderr if stream is None else stream

    def event(self, word: str, **values: object) -> None:
        """Write one line; values that are None or empty text are left out."""
        parts = [rfc3339(self._clock()), word]
        parts += [
            f"{name}={_written(value)}"
            for name, value in values.items()
            if value is not None and value != ""
        ]
        self._stream.write(" ".join(parts) + "\n")
        self._stream.flush()

    def security(self, **values: object) -> None:
        """Write a ``security:`` line: something that reached main and should alarm somebody."""
        self.event("security:", **values)


def _written(value: object) -> str:
    text = str(value)
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 3] + "..."
    return text if _BARE.fullmatch(text) else json.dumps(text)
