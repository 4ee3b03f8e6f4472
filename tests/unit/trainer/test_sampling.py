"""The order of samples depends on the seed and nothing else."""

import pytest

pytest.importorskip("torch")

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
