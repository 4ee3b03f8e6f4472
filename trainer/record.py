"""What the trainer tells about itself: heartbeat.json, events.jsonl, result.json.

Rules kept: only rank 0 writes heartbeats and events; the result is written once, last, and the
first process to write it wins, so that the cause of a failure is not covered by its echoes; the
heartbeat comes from a thread that reads a few plain fields and never holds up training.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainer.config import VERSION, Request
from trainer.files import encode, finite, read_json, write_json, write_json_once

HEARTBEAT_EVERY_S = 5.0
LOOK_EVERY_S = 0.5
LEAVE_AFTER_PEER_S = 5.0
"""Another rank has failed: the time this one gets to notice by itself, before it leaves hard."""


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far training is; written by the training thread, read by the heartbeat."""

    phase: str = "loading"
    step: int = 0
    total_steps: int | None = None
    samples_seen: int = 0
    loss: float | None = None
    tokens_per_s: float | None = None
    last_checkpoint: dict[str, Any] | None = None
    gpus: list[dict[str, Any]] = field(default_factory=list)


class Record:
    """The reports of one attempt, from one of its processes."""

    def __init__(self, request: Request, *, rank: int, on_stop_file: Callable[[], None]) -> None:
        self.request = request
        self.rank = rank
        self.began = time.perf_counter()
        self.progress = Progress()
        self.sample_gpus: Callable[[], list[dict[str, Any]]] = list
        self.listener: Callable[[Mapping[str, Any]], None] | None = None
        """Told of every event; see trainer.boards."""
        self._on_stop_file = on_stop_file
        self._leader = os.getppid() if "TORCHELASTIC_RUN_ID" in os.environ else None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begin to write heartbeats and to look for the stop file."""
        self._look_for_stop()
        self.beat()
        self._thread.start()

    def close(self) -> None:
        """Write a last heartbeat and end the thread."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout=HEARTBEAT_EVERY_S)
        self.beat()

    def enter(self, phase: str) -> None:
        """Move to a phase of the heartbeat schema and report it."""
        self.progress.phase = phase
        self.beat()
        self.event("phase", phase=phase)

    def event(self, kind: str, **fields: Any) -> None:
        """Append one event; a number that is not finite becomes null."""
        if self.rank != 0:
            return
        step = fields.pop("step", self.progress.step)
        event = {"event": kind, "at": time.time(), "step": step} | fields
        line = encode(event)
        # one write of one line, so that a reader never sees two events mixed
        descriptor = os.open(
            self.request.run_dir / "events.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644
        )
        try:
            os.write(descriptor, line)
        except OSError as error:
            say(f"could not append to events.jsonl: {error}")
        finally:
            os.close(descriptor)
        if self.listener is not None:
            self.listener(event)

    def warn(self, message: str, **fields: Any) -> None:
        """Report something a person should know, as an event and on standard error."""
        self.event("warning", message=message, **fields)
        if self.rank == 0:
            say(f"warning: {message}")

    def beat(self) -> None:
        """Replace heartbeat.json, from rank 0."""
        if self.rank != 0:
            return
        progress = self.progress
        try:
            write_json(
                self.request.run_dir / "heartbeat.json",
                {
                    "version": VERSION,
                    "attempt": self.request.attempt,
                    "written_at": time.time(),
                    "phase": progress.phase,
                    "step": progress.step,
                    "total_steps": progress.total_steps,
                    "samples_seen": progress.samples_seen,
                    "loss": progress.loss,
                    "tokens_per_s": progress.tokens_per_s,
                    "last_checkpoint": progress.last_checkpoint,
                    "gpus": progress.gpus,
                },
            )
        except OSError as error:  # a full disk must not end a training that could go on
            say(f"could not write heartbeat.json: {error}")

    def finish(
        self,
        *,
        outcome: str,
        reason: str,
        message: str,
        artifacts: Mapping[str, str] | None = None,
        metrics: Mapping[str, float | None] | None = None,
    ) -> None:
        """Write the result, unless a process of this attempt already has."""
        progress = self.progress
        first = write_json_once(
            self.request.run_dir / "result.json",
            {
                "version": VERSION,
                "attempt": self.request.attempt,
                "outcome": outcome,
                "reason": reason,
                "message": " ".join(message.split())[:1000],
                "step": progress.step,
                "samples_seen": progress.samples_seen,
                "final_loss": progress.loss,
                "artifacts": dict(artifacts or {}),
                "metrics": finite(dict(metrics or {})),
                "written_at": time.time(),
            },
        )
        if first:
            self.event("end", outcome=outcome, reason=reason, message=message)
            say(f"{outcome}: {message}")

    def _watch(self) -> None:
        beaten_at = time.monotonic()
        failed_since: float | None = None
        while not self._ended.wait(LOOK_EVERY_S):
            now = time.monotonic()
            self._look_for_stop()
            if self._leader not in (None, os.getppid()):
                # the agent was killed: nobody could stop this rank, nor knows that it runs
                os._exit(1)
            if now - beaten_at >= HEARTBEAT_EVERY_S:
                self.progress.gpus = self.sample_gpus()
                self.beat()
                beaten_at = now
            if self._peer_failed():
                failed_since = failed_since or now
                if now - failed_since > LEAVE_AFTER_PEER_S:
                    # the others are gone, this rank may hang in a collective call for ever
                    os._exit(1)

    def _look_for_stop(self) -> None:
        if (self.request.run_dir / "stop").exists():
            self._on_stop_file()

    def _peer_failed(self) -> bool:
        if self.request.world_size == 1:
            return False
        result = read_json(self.request.run_dir / "result.json")
        return result is not None and result.get("outcome") == "failed"


def say(message: str) -> None:
    """Print one line for people, on standard error."""
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


def result_of(run_dir: Path) -> dict[str, Any] | None:
    """Return the result of an attempt that has one."""
    return read_json(run_dir / "result.json")


def refuse(run_dir: Path, *, message: str) -> None:
    """Write the result of a request that was not accepted, if it says whose attempt it is."""
    attempt = (read_json(run_dir / "request.json") or {}).get("attempt")
    if isinstance(attempt, str):
        write_json_once(
            run_dir / "result.json",
            {
                "version": VERSION,
                "attempt": attempt,
                "outcome": "failed",
                "reason": "invalid_request",
                "message": " ".join(message.split())[:1000],
                "step": 0,
                "samples_seen": 0,
                "final_loss": None,
                "artifacts": {},
                "metrics": {},
                "written_at": time.time(),
            },
        )
