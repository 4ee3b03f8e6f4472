"""Samples with images are packed whole, and their positions are those the model would give."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from datasets import Dataset

from trainer.config import RequestError
from trainer.models import resolve
from trainer.vision.batches import fitted, pack, positions

IMAGE = 2050


def test_positions_are_those_of_the_model() -> None:
    from transformers import AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_pretrained(resolve("random:qwen2-vl-tiny"))
    grids = [(1, 4, 6), (1, 2, 2), (1, 8, 2)]
    ids = [1, 2]
    for _, down, across in grids:
        ids += [2048, *[IMAGE] * (down * across // 4), 2049, 7]

    given = positions(ids, iter(grids), token=IMAGE, merge=2)

    assert model.config.image_token_id == IMAGE
    kinds = torch.tensor([[int(each == IMAGE) for each in ids]])
    theirs, _ = model.model.get_rope_index(
        torch.tensor([ids]), kinds, image_grid_thw=torch.tensor(grids)
    )
    assert given[0].tolist() == list(range(len(ids)))
    assert torch.equal(given[1:], theirs[:, 0])


def sample(length: int, images: int) -> dict[str, Any]:
    return {
        "input_ids": [length] * length,
        "labels": [length] * length,
        "picture_paths": [f"{length}-{number}.png" for number in range(images)],
        "picture_grids": [1, 2, 2] * images,
    }


def test_rows_hold_whole_samples_with_their_images_in_order() -> None:
    dataset = Dataset.from_list([sample(3, 1), sample(9, 2), sample(5, 0), sample(1, 0)])

    rows = list(pack(dataset, {"packing": True, "packing_length": 10, "max_length": 64}))

    assert [row["seq_lengths"] for row in rows] == [[9, 1], [5, 3]]
    assert [row["picture_paths"] for row in rows] == [["9-0.png", "9-1.png"], ["3-0.png"]]
    assert rows[1]["input_ids"] == [5] * 5 + [3] * 3
    assert rows[0]["picture_grids"] == [1, 2, 2, 1, 2, 2]


def test_a_sample_longer_than_a_row_is_refused() -> None:
    dataset = Dataset.from_list([sample(3, 1), sample(12, 1)])

    with pytest.raises(RequestError, match=r"1 samples are longer than 10 .* at least 12"):
        pack(dataset, {"packing": True, "packing_length": 10, "max_length": 64})


def lengths() -> Iterator[list[int]]:
    dice = random.Random(5)
    for _ in range(40):
        yield [dice.randint(1, 50) for _ in range(dice.randint(1, 200))]


def test_rows_are_never_too_long_hold_each_sample_once_and_are_full() -> None:
    for each in lengths():
        rows = fitted(each, 50)

        assert sorted(number for row in rows for number in row) == list(range(len(each)))
        sums = [sum(each[number] for number in row) for row in rows]
        assert max(sums) <= 50
        # best fit, longest first: never more than 11/9 of the rows that no order could beat, and 1
        assert len(rows) <= 11 / 9 * -(-sum(each) // 50) + sum(n > 25 for n in each) + 1
