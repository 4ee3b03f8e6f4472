"""Which sample comes when: one endless stream, cut into optimizer steps.

The stream is a shuffle of all samples, then another shuffle of all samples, and so on; step ``s``
takes the next ``global_batch`` of it.  So every sample is seen once in each pass, the order
depends on the seed alone, and neither an interruption nor another number of processes changes
it: what the first n steps saw is the first n x global_batch of the stream.  Where the last pass
does not fill its last step, the step is filled from the next pass.
"""

import math
from collections.abc import Iterator

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
    """Yields the first ``length`` samples of the stream."""

    def __init__(self, *, samples: int, length: int, seed: int) -> None:
        self.samples = samples
        self.length = length
        self.seed = seed

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        given = 0
        epoch = 0
        while given < self.length:
            order = shuffled(self.samples, seed=self.seed, epoch=epoch)
            yield from order[: self.length - given]
            given += len(order)
            epoch += 1
