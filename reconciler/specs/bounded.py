"""How long and how much may composition take?  It runs in a child that is killed past a bound.

One child serves many documents.  When one of them takes too long or too much memory, that
document gets a problem, the child is replaced, and the others go on.
"""

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from types import TracebackType
from typing import Any

from reconciler.errors import BackendError
from reconciler.specs.codes import Code
from reconciler.specs.composed import Composed, ComposeError, GroupFile

WALL_S = 60.0
"""The worker bounds its own CPU time; this is for one that hangs, or a machine that does."""
WALL = "wall clock"
"""What a :class:`ComposeError` is about whose verdict rests on the machine, not the document."""
START_S = 120.0
"""Importing Hydra on a busy machine is not the document's fault."""


class BoundedComposer:
    """Composes in a child process; a context manager that ends it."""

    def __init__(
        self, roots: Mapping[str, Callable[[], Mapping[str, GroupFile]]], *, wall_s: float = WALL_S
    ) -> None:
        """``roots`` are sets of group files by name, made when one is first needed."""
        self._roots = roots
        self._wall_s = wall_s
        self._sent: set[str] = set()
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "BoundedComposer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the child, if one runs."""
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()

    def compose(
        self,
        root: str,
        base: Mapping[str, Any],
        body: Mapping[str, Any],
        overrides: Sequence[str] = (),
    ) -> Composed:
        """Return the document composed over the group files of ``root``.

        Raises :class:`ComposeError` for the document's faults, ``BackendError`` when no child
        can be started.
        """
        child = self._started(root)
        request = {"root": root, "base": base, "body": body, "overrides": list(overrides)}
        answer = self._ask(child, request, self._wall_s)
        if answer is None:
            self.close()
            raise ComposeError(
                Code.UNBOUNDED,
                f"composition did not end within {self._wall_s:.0f} s",
                WALL,
                hint="try again; then use fewer groups and interpolations",
            )
        if "error" in answer:
            row = answer["error"]
            raise ComposeError(**{**row, "code": Code(row["code"])})
        return Composed(**answer["composed"])

    def _started(self, root: str) -> "subprocess.Popen[bytes]":
        """Return a child that has the files of ``root``."""
        child = self._child
        if child is None or child.poll() is not None:
            child = self._start()
        if root not in self._sent:
            files = self._roots[root]()
            if self._ask(child, {"root": root, "files": files}, START_S) is None:
                self.close()
                raise BackendError("the process that composes documents did not start")
            self._sent.add(root)
        return child

    def _start(self) -> "subprocess.Popen[bytes]":
        self.close()
        self._sent.clear()
        kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
        self._child = child = subprocess.Popen(
            [sys.executable, "-P", "-m", "reconciler.specs.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**kept, "LANG": "C.UTF-8", "PYTHONWARNINGS": "ignore"},
        )
        return child

    def _ask(
        self, child: "subprocess.Popen[bytes]", request: Mapping[str, Any], wall_s: float
    ) -> Any:
        """Return the child's answer, None where it died or took longer than ``wall_s``."""
        if child.stdin is None or child.stdout is None:
            raise BackendError("the process that composes documents has no pipes")
        deadline = monotonic() + wall_s
        try:
            child.stdin.write(json.dumps(request).encode() + b"\n")
            child.stdin.flush()
        except BrokenPipeError:
            return None
        received = bytearray()
        while not received.endswith(b"\n"):
            ready, _, _ = select.select([child.stdout], [], [], max(deadline - monotonic(), 0))
            chunk = os.read(child.stdout.fileno(), 1 << 16) if ready else b""
            if not chunk:
                return None
            received += chunk
        return json.loads(received)
