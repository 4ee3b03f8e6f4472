"""The order of samples depends on the seed and nothing else."""

import math
import random

import pytest

pytest.importorskip("torch")

from datasets import Dataset

from trainer.lengths import of_samples
from trainer.sampling import StreamSampler, shuffled, total_steps


def test_each_pass_sees_every_sample_once_in_another_order() -> None:
    stream = list(StreamSampler(samples=10, length=30, seed=1))

    passes = [stream[:10], stream[10:20], stream[20:]]
    assert all(sorted(one) == list(range(10)) for one in passes)
    assert passes[0] != passes[1] != passes[2]


def test_the_stream_does_not_depend_on_how_much_of_it_is_wanted() -> None:
    long = list(StreamSampler(samples=7, length=100, seed=5))

    assert list(StreamSampler(samples=7, length=23, seed=5)) == long[:23]
    assert len(StreamSampler(samples=7, length=23, seed=5)) == 23


def test_another_seed_is_another_order() -> None:
    assert shuffled(50, seed=1, epoch=0) != shuffled(50, seed=2, epoch=0)
    assert shuffled(50, seed=1, epoch=0) == shuffled(50, seed=1, epoch=0)


@pytest.mark.parametrize(
    ("epochs", "max_steps", "steps"),
    [(1, None, 7), (3, None, 20), (0.5, None, 4), (3, 5, 5), (0.01, None, 1)],
)
def test_the_last_pass_is_completed(epochs: float, max_steps: int | None, steps: int) -> None:
    found = total_steps(samples=26, global_batch=4, epochs=epochs, max_steps=max_steps)

    assert found == steps


def test_passes_that_fill_their_steps_exactly_get_none_more() -> None:
    assert total_steps(samples=30, global_batch=3, epochs=0.1, max_steps=None) == 1
    assert total_steps(samples=10, global_batch=5, epochs=3, max_steps=None) == 6


def lognormal(count: int) -> list[int]:
    """Return lengths with median 60 and sigma 1, at most 512, as texts have them."""
    dice = random.Random(1)
    return [min(max(round(dice.lognormvariate(math.log(60), 1)), 2), 512) for _ in range(count)]


def grouping(lengths: list[int], *, length: int, step: int) -> list[int]:
    return list(
        StreamSampler(samples=len(lengths), length=length, seed=3, step=step, lengths=lengths)
    )


def test_grouped_passes_see_every_sample_once_even_where_a_step_spans_two() -> None:
    lengths = lognormal(83)

    stream = grouping(lengths, length=83 * 3, step=8)

    passes = [stream[:83], stream[83:166], stream[166:]]
    assert all(sorted(one) == list(range(83)) for one in passes)
    assert passes[0] != passes[1] != passes[2]
    assert grouping(lengths, length=100, step=8) == stream[:100]


@pytest.mark.parametrize("samples", [1, 3, 8, 9, 64, 1001])
def test_grouping_works_for_any_number_of_samples(samples: int) -> None:
    stream = grouping(lognormal(samples), length=samples * 2, step=8)

    assert sorted(stream[:samples]) == sorted(stream[samples:]) == list(range(samples))


def test_grouped_steps_are_padded_far_less() -> None:
    lengths = lognormal(4000)

    def fill(stream: list[int]) -> float:
        steps = [[lengths[i] for i in stream[at : at + 8]] for at in range(0, len(stream), 8)]
        return sum(lengths) / sum(8 * max(step) for step in steps)

    assert fill(grouping(lengths, length=4000, step=8)) > 0.9
    assert fill(list(StreamSampler(samples=4000, length=4000, seed=3))) < 0.45


def test_steps_that_span_two_passes_do_not_shift_the_ones_after_them() -> None:
    lengths = lognormal(4 * 50 * 8 + 3)  # the second pass begins three samples into a step

    stream = grouping(lengths, length=2 * len(lengths), step=8)

    second = [stream[at : at + 8] for at in range(len(lengths) + 5, 2 * len(lengths) - 8, 8)]
    spreads = sorted(max(each) - min(each) for each in ([lengths[i] for i in s] for s in second))
    assert spreads[len(spreads) // 2] <= 8


def test_the_longest_sample_is_in_the_first_step() -> None:
    lengths = lognormal(1000)

    first = grouping(lengths, length=8, step=8)

    assert max(lengths[number] for number in first) == max(lengths)


def test_the_length_of_a_sample_is_that_of_all_its_tokens() -> None:
    texts = Dataset.from_dict({"input_ids": [[1, 2, 3], [1]], "labels": [[1, 2, 3], [1]]})
    pairs = {"chosen_ids": [[1, 2], [1]], "rejected_ids": [[1], [1, 2, 3]]}

    assert of_samples(texts) == [3, 1]
    assert of_samples(Dataset.from_dict(pairs)) == [2, 3]
    assert of_samples(Dataset.from_dict(pairs | {"prompt_ids": [[1], [1, 1]]})) == [3, 5]
