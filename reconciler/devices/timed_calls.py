"""Asks things that may never answer, such as a driver on a broken bus, within a time limit.

A call that hangs cannot be ended from outside, so it stays in a thread of its own and is not
asked again until it returns.  The threads are daemons: they never keep the process alive.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[V]):
    """``value`` is None where the call failed (``error`` says how) or did not answer."""

    value: V | None = None
    error: Exception | None = None
    hangs: bool = False


class TimedCalls:
    """Runs named calls side by side; remembers the ones that still hang."""

    def __init__(self) -> None:
        self._under_way: dict[str, threading.Thread] = {}

    def ask(self, calls: Mapping[str, Callable[[], V]], timeout_s: float) -> dict[str, Answer[V]]:
        """Return one answer a call, after ``timeout_s`` seconds at the latest."""
        answers: dict[str, Answer[V]] = {}
        asked: dict[str, threading.Thread] = {}
        for name, call in calls.items():
            before = self._under_way.get(name)
            if before is not None and before.is_alive():
                continue
            asked[name] = self._start(name, call, answers)
        deadline = time.monotonic() + timeout_s
        for thread in asked.values():
            thread.join(max(deadline - time.monotonic(), 0))
        # A thread that answers from now on must not change what was returned.
        seen = dict(answers)
        return {name: seen.get(name, Answer(hangs=True)) for name in calls}

    def _start(
        self, name: str, call: Callable[[], V], answers: dict[str, Answer[V]]
    ) -> threading.Thread:
        def run() -> None:
            try:
                answers[name] = Answer(value=call())
            except Exception as error:  # noqa: BLE001 - carried to the caller as a value
                answers[name] = Answer(error=error)

        thread = threading.Thread(target=run, name=f"device call {name}", daemon=True)
        self._under_way[name] = thread
        thread.start()
        return thread
