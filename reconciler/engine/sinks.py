"""How does a notification reach its sink?  Through a queue on disk, never on the cycle's path.

The cycle only writes small files into ``outbox/`` of the state folder.  A courier thread
delivers them, oldest first for each sink, and deletes a file after its sink has taken it: a crash
in between delivers again, so a sink hears of everything at least once, under the same id.
A sink that does not answer is asked again after 1, 2, 4 ... at most 300 seconds; the others do
not wait for it.

A ``file`` sink gets a line of JSON appended (a relative path lies in the state folder), a ``log``
sink a line in the reconciler's own log, a ``webhook`` a POST with ``Headway-Id`` and
``Headway-Signature: t=<unix>,v1=<hex of HMAC-SHA256 over "<unix>.<body>">``; the key comes from
the environment variable that conf names.  URLs come from conf alone.
"""

import hmac
import json
import os
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from reconciler.domain.units import Instant
from reconciler.engine.events import Notification
from reconciler.engine.logging import Log
from reconciler.specs.platform import Sink

FIRST_WAIT_S = 1
LONGEST_WAIT_S = 300
TIMEOUT_S = 10


class DeliveryError(Exception):
    """The sink did not take it; the courier asks again."""


class Outbox:
    """Notifications on disk, each in a file whose name sorts by when it was put there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True)
        numbers = [int(path.name.split("-", 1)[0]) for path in self._folder.glob("*.json")]
        self._next = max(numbers, default=0) + 1

    def put(self, told: Iterable[Notification]) -> None:
        """Write the notifications; one that waits already is not written twice."""
        waiting = {path.name.split("-", 1)[1] for path in self._folder.glob("*.json")}
        for each in told:
            name = f"{sha256(each.id.encode()).hexdigest()[:24]}.json"
            if name in waiting:
                continue
            document = {"id": each.id, "sink": each.sink, "body": dict(each.body)}
            part = self._folder / f"{self._next:012}.part"
            part.write_text(json.dumps(document, sort_keys=True), encoding="utf-8")
            part.replace(self._folder / f"{self._next:012}-{name}")
            self._next += 1

    def waiting(self) -> list[tuple[Path, Notification]]:
        """Return what waits, oldest first."""
        found = []
        for path in sorted(self._folder.glob("*.json")):
            document = json.loads(path.read_text(encoding="utf-8"))
            found.append((path, Notification(**document)))
        return found


@dataclass(slots=True)
class _Patience:
    wait_s: int = 0
    not_before: int = 0


class Courier:
    """Delivers what waits in the outbox; :meth:`deliver` is one pass, :meth:`run` the thread."""

    def __init__(
        self, outbox: Outbox, *, state_dir: Path, clock: Callable[[], Instant], log: Log
    ) -> None:
        self._outbox = outbox
        self._state_dir = state_dir
        self._clock = clock
        self._log = log
        self._sinks: Mapping[str, Sink] = {}
        self._patience: dict[str, _Patience] = {}
        self._wake = threading.Event()

    def use(self, sinks: Mapping[str, Sink]) -> None:
        """Deliver to these sinks from now on: those of the newest valid conf."""
        self._sinks = dict(sinks)

    def wake(self) -> None:
        """Let the thread look at once."""
        self._wake.set()

    def run(self, stop: threading.Event) -> None:
        """Deliver until ``stop`` is set.  Meant for a daemon thread."""
        while not stop.is_set():
            self._wake.clear()
            self.deliver()
            self._wake.wait(FIRST_WAIT_S)

    def deliver(self) -> int:
        """Deliver everything that is due; return how many notifications were taken."""
        taken = 0
        held_up: set[str] = set()
        for path, each in self._outbox.waiting():
            if each.sink in held_up:
                continue
            if self._is_done(each):
                path.unlink(missing_ok=True)
                taken += 1
            else:
                held_up.add(each.sink)
        return taken

    def _is_done(self, each: Notification) -> bool:
        sink = self._sinks.get(each.sink)
        if sink is None:
            self._log.event("notify-dropped", sink=each.sink, id=each.id, reason="no such sink")
            return True
        patience = self._patience.setdefault(sink.name, _Patience())
        if self._clock() < patience.not_before:
            return False
        try:
            self._hand_over(sink, each)
        except (DeliveryError, OSError) as error:
            patience.wait_s = min(max(patience.wait_s * 2, FIRST_WAIT_S), LONGEST_WAIT_S)
            patience.not_before = self._clock() + patience.wait_s
            self._log.event(
                "notify-failed", sink=sink.name, id=each.id, again_s=patience.wait_s, why=error
            )
            return False
        self._patience[sink.name] = _Patience()
        self._log.event("notified", sink=sink.name, id=each.id)
        return True

    def _hand_over(self, sink: Sink, each: Notification) -> None:
        body = {"id": each.id, **each.body}
        if sink.kind == "log":
            self._log.event("notification", sink=sink.name, body=json.dumps(body))
        elif sink.kind == "file":
            _append(self._state_dir / (sink.path or f"{sink.name}.jsonl"), body)
        else:
            _post(sink, body, self._clock())


def signature(key: bytes, body: bytes, at: int) -> str:
    """Return the value of ``Headway-Signature`` for a body sent at ``at``."""
    digest = hmac.new(key, f"{at}.".encode() + body, sha256).hexdigest()
    return f"t={at},v1={digest}"


def _append(path: Path, body: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(body, sort_keys=True, ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _post(sink: Sink, body: Mapping[str, Any], at: Instant) -> None:
    if urllib.parse.urlsplit(sink.url or "").scheme not in ("http", "https"):
        raise DeliveryError(f"sink {sink.name}: only http and https URLs are posted to")
    data = json.dumps(body, sort_keys=True, ensure_ascii=False).encode()
    headers = {"Content-Type": "application/json", "Headway-Id": str(body["id"])}
    if sink.secret_env:
        key = os.environ.get(sink.secret_env)
        if not key:
            raise DeliveryError(f"sink {sink.name}: {sink.secret_env} is not set here")
        headers["Headway-Signature"] = signature(key.encode(), data, at)
    request = urllib.request.Request(str(sink.url), data=data, headers=headers, method="POST")  # noqa: S310
    try:
        with _OPENER.open(request, timeout=TIMEOUT_S):
            pass
    except urllib.error.HTTPError as error:
        raise DeliveryError(f"answered {error.code}") from error
    except urllib.error.URLError as error:
        raise DeliveryError(f"not reached: {error.reason}") from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A sink that redirects is told nothing: conf alone says where we post."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)
