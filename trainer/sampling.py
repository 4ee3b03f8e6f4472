"""Which sample comes when: one endless stream, cut into optimizer steps.

The stream is a shuffle of all samples, then another shuffle of all samples, and so on; step ``s``
takes the next ``global_batch`` of it.  So every sample is seen once in each pass, the order
depends on the seed alone, and neither an interruption nor another number of processes changes
it: what the first n steps saw is the first n x global_batch of the stream.  Where the last pass
does not fill its last step, the step is filled from the next pass.
"""

import math
from collections.abc import Iterable, Iterator
from itertools import islice

import torch
from torch.utils.data import Sampler


def total_steps(*, samples: int, global_batch: int, epochs: float, max_steps: int | None) -> int:
    """Return the optimizer steps of a training: ``max_steps``, else enough for the passes."""
    if max_steps is not None:
        return max_steps
    return max(math.ceil(epochs * samples / global_batch - 1e-9), 1)


def shuffled(samples: int, *, seed: int, epoch: int) -> list[int]:
    """Return the order of one pass, the same on every machine and number of processes."""
    generator = torch.Generator()
    generator.manual_seed((seed * 1_000_003 + epoch) % 2**63)
    order: list[int] = torch.randperm(samples, generator=generator).tolist()
    return order


class StreamSampler(Sampler[int]):  # type: ignore[misc]
    """Yields the first ``length`` samples of the stream.

    The loader deals batches to the processes in turn.  Where ``sharers`` neighbours share their
    rows, each batch is yielded that many times in a row, so that all of them get the same one.
    """

    def __init__(
        self, *, samples: int, length: int, seed: int, batch: int = 1, sharers: int = 1
    ) -> None:
        self.samples = samples
        self.length = length
        self.seed = seed
        self.batch = batch
        self.sharers = sharers

    def __len__(self) -> int:
        return self.length * self.sharers

    def __iter__(self) -> Iterator[int]:
        return repeated(self._once(), batch=self.batch, times=self.sharers)

    def _once(self) -> Iterator[int]:
        given = 0
        epoch = 0
        while given < self.length:
            order = shuffled(self.samples, seed=self.seed, epoch=epoch)
            yield from order[: self.length - given]
            given += len(order)
            epoch += 1


def repeated(numbers: Iterable[int], *, batch: int, times: int) -> Iterator[int]:
    """Yield each run of ``batch`` numbers ``times`` times; a last short run is as long as it is."""
    rest = iter(numbers)
    while run := list(islice(rest, batch)):
        for _ in range(times):
            yield from run


class SharedEvaluation(Sampler[int]):  # type: ignore[misc]
    """Yields all samples in order, each batch ``sharers`` times, the last one filled up."""

    def __init__(self, *, samples: int, batch: int, sharers: int) -> None:
        self.numbers = [number % samples for number in range(-(-samples // batch) * batch)]
        self.batch = batch
        self.sharers = sharers

    def __len__(self) -> int:
        return len(self.numbers) * self.sharers

    def __iter__(self) -> Iterator[int]:
        return repeated(self.numbers, batch=self.batch, times=self.sharers)
