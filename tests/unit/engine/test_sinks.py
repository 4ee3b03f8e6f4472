"""The outbox and its courier: at least once, in order, never waiting for a dead sink."""

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from reconciler.domain.units import Instant
from reconciler.engine.events import Notification
from reconciler.engine.logging import Log
from reconciler.engine.sinks import Courier, Outbox, signature
from reconciler.specs.platform import Sink


class Clock:
    def __init__(self) -> None:
        self.now = 1000

    def __call__(self) -> Instant:
        return Instant(self.now)


class World:
    """An outbox, a courier and a clock in one folder."""

    def __init__(self, folder: Path, *sinks: Sink) -> None:
        self.folder = folder
        self.clock = Clock()
        self.written = io.StringIO()
        self.outbox = Outbox(folder / "outbox")
        self.courier = Courier(
            self.outbox,
            state_dir=folder,
            clock=self.clock,
            log=Log(self.clock, self.written),
        )
        self.courier.use({sink.name: sink for sink in sinks})

    def lines(self, name: str) -> list[dict[str, object]]:
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def told(number: int, sink: str = "log") -> Notification:
    return Notification(id=f"n{number}:{sink}", sink=sink, body={"event": "started"})


LOG_SINK = Sink(name="log", kind="file", path="events.jsonl")


class Receiver(BaseHTTPRequestHandler):
    answers: ClassVar[list[int]] = []
    got: ClassVar[list[tuple[dict[str, str], bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        code = self.answers.pop(0) if self.answers else 200
        if code == 200:
            self.got.append((dict(self.headers), body))
        self.send_response(code)
        if code == 302:
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[tuple[type[Receiver], str]]:
    handler = type("Handler", (Receiver,), {"answers": [], "got": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield handler, f"http://127.0.0.1:{server.server_port}/hook"
    server.shutdown()
    server.server_close()


def test_a_file_sink_gets_one_line_a_notification_in_order(tmp_path: Path) -> None:
    world = World(tmp_path, LOG_SINK)
    world.outbox.put([told(1), told(2)])

    assert world.courier.deliver() == 2
    assert [line["id"] for line in world.lines("events.jsonl")] == ["n1:log", "n2:log"]
    assert world.outbox.waiting() == []


def test_what_was_put_before_a_crash_is_delivered_after_it(tmp_path: Path) -> None:
    World(tmp_path, LOG_SINK).outbox.put([told(1)])

    after = World(tmp_path, LOG_SINK)
    after.outbox.put([told(1), told(2)])
    after.courier.deliver()
    assert [line["id"] for line in after.lines("events.jsonl")] == ["n1:log", "n2:log"]


def test_a_post_is_signed_with_the_key_that_conf_names(
    tmp_path: Path, receiver: tuple[type[Receiver], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    handler, url = receiver
    monkeypatch.setenv("HOOK_KEY", "s3cret")
    world = World(tmp_path, Sink(name="hook", kind="webhook", url=url, secret_env="HOOK_KEY"))
    world.outbox.put([told(1, "hook")])
    world.courier.deliver()

    headers, body = handler.got[0]
    assert json.loads(body) == {"id": "n1:hook", "event": "started"}
    assert headers["Headway-Id"] == "n1:hook"
    assert headers["Headway-Signature"] == signature(b"s3cret", body, 1000)
    assert "s3cret" not in world.written.getvalue()


def test_a_sink_that_fails_is_asked_again_later_and_later(
    tmp_path: Path, receiver: tuple[type[Receiver], str]
) -> None:
    handler, url = receiver
    handler.answers = [500, 503]
    world = World(tmp_path, Sink(name="hook", kind="webhook", url=url))
    world.outbox.put([told(1, "hook")])

    taken = []
    for at in (1000, 1000, 1001, 1002, 1003):
        world.clock.now = at
        taken.append(world.courier.deliver())
    assert taken == [0, 0, 0, 0, 1]
    assert len(handler.got) == 1


def test_other_sinks_do_not_wait_for_a_dead_one_and_its_order_is_kept(
    tmp_path: Path, receiver: tuple[type[Receiver], str]
) -> None:
    handler, url = receiver
    handler.answers = [500]
    world = World(tmp_path, Sink(name="hook", kind="webhook", url=url), LOG_SINK)
    world.outbox.put([told(1, "hook"), told(2, "hook"), told(3)])

    assert world.courier.deliver() == 1
    assert len(handler.answers) == 0
    assert [line["id"] for line in world.lines("events.jsonl")] == ["n3:log"]
    world.clock.now += 10
    assert world.courier.deliver() == 2
    assert [json.loads(body)["id"] for _, body in handler.got] == ["n1:hook", "n2:hook"]


def test_a_redirect_is_not_followed(tmp_path: Path, receiver: tuple[type[Receiver], str]) -> None:
    handler, url = receiver
    handler.answers = [302]
    world = World(tmp_path, Sink(name="hook", kind="webhook", url=url))
    world.outbox.put([told(1, "hook")])

    assert world.courier.deliver() == 0
    assert "answered 302" in world.written.getvalue()


def test_a_missing_key_is_said_by_its_name_and_waits(
    tmp_path: Path, receiver: tuple[type[Receiver], str]
) -> None:
    _, url = receiver
    world = World(
        tmp_path, Sink(name="hook", kind="webhook", url=url, secret_env="NOT_SET_ANYWHERE")
    )
    world.outbox.put([told(1, "hook")])

    assert world.courier.deliver() == 0
    assert "NOT_SET_ANYWHERE is not set here" in world.written.getvalue()


def test_a_sink_that_left_conf_loses_its_notifications_and_the_log_says_so(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    world.outbox.put([told(1)])

    assert world.courier.deliver() == 1
    assert "notify-dropped sink=log" in world.written.getvalue()


def test_a_url_that_is_not_http_is_never_opened(tmp_path: Path) -> None:
    world = World(tmp_path, Sink(name="hook", kind="webhook", url="file:///etc/passwd"))
    world.outbox.put([told(1, "hook")])

    assert world.courier.deliver() == 0
    assert "only http and https" in world.written.getvalue()


def test_a_logged_value_stays_on_its_line() -> None:
    stream = io.StringIO()
    Log(Clock(), stream).event("launch-failed", job="t/j", why="two\nlines", attempt=None)

    assert stream.getvalue() == ('1970-01-01T00:16:40Z launch-failed job=t/j why="two\\nlines"\n')


def test_a_log_sink_is_a_line_in_the_log(tmp_path: Path) -> None:
    world = World(tmp_path, Sink(name="ops", kind="log"))
    world.outbox.put([told(1, "ops")])

    assert world.courier.deliver() == 1
    assert "notification sink=ops" in world.written.getvalue()


def test_a_long_value_is_cut() -> None:
    stream = io.StringIO()
    Log(Clock(), stream).security(message="x" * 5000)

    assert len(stream.getvalue()) < 700
