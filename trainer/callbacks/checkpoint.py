"""Saving: when the loop wants a checkpoint, how all ranks make one, and what if the disk is full.

Rule kept: a failed save costs nothing but itself.  Every rank learns of it, the temporary folder
goes, the last whole checkpoint stays, and training goes on.  What a save puts off is done by a
thread of rank 0; there is never more than one such save, the next one waits for it.
"""

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from trainer import checkpoints, processes
from trainer.checkpoints import Checkpoint
from trainer.config import Request
from trainer.record import Record


class Saver:
    """Makes checkpoints of one attempt."""

    def __init__(self, request: Request, record: Record) -> None:
        self.request = request
        self.record = record
        self.temporary = Path()
        """Folder the library writes into while ``save`` runs."""
        self.puts_off = bool(request.train["async_save"])
        self.seconds = 0.0
        """How long training stood still for the last save."""
        self.thread: threading.Thread | None = None
        """Completes the last save, while it does."""
        self.saved: Checkpoint | None = None

    def save(
        self,
        *,
        step: int,
        write: Callable[[], None],
        deferred: Sequence[Callable[[], None]] | None = None,
    ) -> bool:
        """Return whether a durable checkpoint of ``step`` exists; every rank must call this.

        ``write`` makes the library write its files of this rank below ``temporary``.  Where
        ``deferred`` is given, ``write`` adds to it what is left to do, a thread does that, and
        True means only that nothing has failed yet.
        """
        started = time.perf_counter()
        self.record.enter("saving")
        self.settle()
        root = self.request.checkpoint.folder
        self.temporary = checkpoints.temporary_path(root, step, self.request.attempt)
        error = self._together(self._prepare)
        error = error or self._together(write)
        if deferred is not None and error is None:
            self.seconds = time.perf_counter() - started
            if self.record.rank == 0:
                self.thread = threading.Thread(
                    target=self._complete, args=(step, started, deferred), daemon=True
                )
                self.thread.start()
        else:
            error = error or self._together(lambda: self._finish(step))
            self.seconds = time.perf_counter() - started
            if error is None:
                self._report(self.seconds)
            else:
                self._give_up(step, error)
        self.record.enter("training")
        return error is None

    def settle(self) -> None:
        """Wait until the save that a thread completes, if any, has succeeded or failed."""
        if self.thread is not None:
            self.thread.join()
            self.thread = None

    def _complete(self, step: int, started: float, deferred: Sequence[Callable[[], None]]) -> None:
        try:
            for act in deferred:
                act()
            self._finish(step)
        except Exception as error:  # noqa: BLE001  (as in _together)
            self._give_up(step, f"{type(error).__name__}: {error}")
        else:
            self._report(time.perf_counter() - started)

    def _give_up(self, step: int, error: str) -> None:
        if self.record.rank == 0:
            shutil.rmtree(self.temporary, ignore_errors=True)
            self.record.warn(
                f"the checkpoint of step {step} could not be saved: {error}", step=step
            )

    def _together(self, act: Callable[[], None]) -> str | None:
        """Return None where every rank did ``act``, else what went wrong."""
        problem: str | None = None
        try:
            act()
        except Exception as error:  # noqa: BLE001  (writers of torch and safetensors raise their own kinds)
            problem = f"{type(error).__name__}: {error}"
        if processes.any_of(problem is not None):
            return problem or "another rank could not write its part"
        return None

    def _prepare(self) -> None:
        if self.record.rank == 0:
            shutil.rmtree(self.temporary, ignore_errors=True)
            self.temporary.mkdir(parents=True)

    def _finish(self, step: int) -> None:
        if self.record.rank != 0:
            return
        request = self.request
        self.saved = checkpoints.finish(
            self.temporary / f"checkpoint-{step}",
            root=request.checkpoint.folder,
            step=step,
            samples_seen=step * request.global_batch,
            global_batch=request.global_batch,
            world_size=request.world_size,
            attempt=request.attempt,
        )
        shutil.rmtree(self.temporary, ignore_errors=True)
        checkpoints.prune(
            request.checkpoint.folder, keep=request.checkpoint.keep, attempt=request.attempt
        )

    def _report(self, seconds: float) -> None:
        if self.saved is None:
            return
        saved = self.saved
        self.record.progress.last_checkpoint = {
            "step": saved.step,
            "finished_at": saved.finished_at,
        }
        self.record.event(
            "checkpoint",
            step=saved.step,
            checkpoint_s=round(seconds, 3),
            stalled_s=round(self.seconds, 3),
            bytes=sum(file["size"] for file in saved.files.values()),
            path=str(saved.folder),
        )
