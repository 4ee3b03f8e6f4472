"""Which sample comes when: one endless stream, cut into optimizer steps.

The stream is a shuffle of all samples, then another shuffle of all samples, and so on; step ``s``
takes the next ``global_batch`` of it.  So every sample is seen once in each pass, the order
depends on the seed alone, and neither an interruption nor another number of processes changes
it: what the first n steps saw is the first n x global_batch of the stream.  Where the last pass
does not fill its last step, the step is filled from the next pass.

With ``group_by_length`` a pass is put in another order: of some steps' worth of shuffled samples
those of like length come in the same step.  What has been said of the stream holds all the same.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
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


STEPS_SORTED = 50
"""Steps whose samples are sorted together by length, at most; the library has the same number..."""
SORTINGS = 4
"""...and in a pass there are at least as many such runs, so that passes differ."""


def grouped(
    order: list[int], *, lengths: Sequence[int], step: int, begun: int, seed: int, epoch: int
) -> list[int]:
    """Return ``order``, the shuffle of one pass, with samples of like length in the same step.

    ``step`` samples make a step; ``begun`` of them came from the pass before.  Within a step
    samples are sorted, so that each batch of it is padded least, whatever the number of
    processes.  The first pass begins with its longest sample: memory that does not suffice shows
    at once.
    """
    head = min(-begun % step, len(order))  # fills the step that the pass before began
    run = step * max(min(STEPS_SORTED, len(order) // (step * SORTINGS)), 1)
    groups: list[list[int]] = []
    for start in range(head, len(order), run):
        block = sorted(order[start : start + run], key=lambda number: -lengths[number])
        groups += [block[first : first + step] for first in range(0, len(block), step)]
    whole = [group for group in groups if len(group) == step]
    short = [group for group in groups if len(group) < step]  # at most one: the end of the pass
    whole = [whole[number] for number in shuffled(len(whole), seed=seed + 1, epoch=epoch)]
    if epoch == 0 and whole:
        longest = max(range(len(whole)), key=lambda number: lengths[whole[number][0]])
        whole[0], whole[longest] = whole[longest], whole[0]
    return [*order[:head], *(number for group in [*whole, *short] for number in group)]


class StreamSampler(Sampler[int]):  # type: ignore[misc]
    """Yields the first ``length`` samples of the stream.

    The loader deals batches to the processes in turn.  Where ``sharers`` neighbours share their
    rows, each batch is yielded that many times in a row, so that all of them get the same one.
    """

    def __init__(
        self,
        *,
        samples: int,
        length: int,
        seed: int,
        batch: int = 1,
        sharers: int = 1,
        step: int = 1,
        lengths: Sequence[int] | None = None,
    ) -> None:
        """``lengths`` None: samples of any length share a step of ``step`` samples."""
        self.samples = samples
        self.step = step
        self.lengths = lengths
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
            if self.lengths is not None:
                order = grouped(
                    order,
                    lengths=self.lengths,
                    step=self.step,
                    begun=given % self.step,
                    seed=self.seed,
                    epoch=epoch,
                )
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
