"""A real training whose tensors are counted: the most bytes that lived at once.

The trainer runs under a dispatch mode that knows every storage an operation saw and when it is
freed.
"""

import weakref
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from torch.utils.weak import WeakIdKeyDictionary

from trainer.loop import Seams
from trainer.run import run
from trainer.stop import StopFlag


class LiveBytes(TorchDispatchMode):  # type: ignore[misc]
    """Counts the bytes of live tensor storages.  Views share their storage and count once."""

    def __init__(self) -> None:
        super().__init__()
        self._seen = WeakIdKeyDictionary()
        self.live = 0
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for value in tree_iter((args, kwargs, out)):
            if isinstance(value, torch.Tensor):
                self._see(value.untyped_storage())
        return out

    def _see(self, storage: Any) -> None:
        if storage in self._seen:
            return
        size = storage.nbytes()
        self._seen[storage] = size
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._free, size)

    def _free(self, size: int) -> None:
        self.live -= size


def counted(run_dir: Path) -> tuple[int, int]:
    """Train in this process; return the peak while steps were trained, and the exit code.

    The process is of no use for another count: the trainer stays watched.
    """
    tracked = LiveBytes()
    inner = Seams.training_step

    def first_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.state.global_step == 1:  # the optimizer has its states; loading is over
            tracked.peak = tracked.live
        return inner(self, *args, **kwargs)

    Seams.training_step = first_step  # type: ignore[method-assign]
    with tracked:
        code = run(run_dir, stop=StopFlag())
    return tracked.peak, code
