"""Samples with images as what the model reads: tokens, positions in three directions, patches.

A row of several samples is read as in ``trainer.packing``: positions restart at each sample, its
first label is masked, and there is no attention mask.  The text's own positions go in front of the
three that the model turns by, because only from them it learns where a sample begins.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from trainer.config import RequestError
from trainer.lengths import of_samples
from trainer.packing import packing_length
from trainer.tokens import IGNORED
from trainer.vision.rows import GRIDS, PATHS, Eyes, Grid

LENGTHS = "seq_lengths"


def positions(ids: Sequence[int], grids: Iterator[Grid], *, token: int, merge: int) -> torch.Tensor:
    """Return four positions of each token of one sample: its place, then time, down and across."""
    parts: list[torch.Tensor] = []
    start = at = 0
    while at < len(ids):
        if ids[at] == token:
            time, down, across = next(grids)
            sides = (time, down // merge, across // merge)
            count = sides[0] * sides[1] * sides[2]
            axes = torch.meshgrid(*map(torch.arange, sides), indexing="ij")
            parts.append(torch.stack([axis.reshape(-1) for axis in axes]) + start)
            start += max(sides[1:])
        else:
            count = next((n for n, each in enumerate(ids[at:]) if each == token), len(ids) - at)
            parts.append(torch.arange(start, start + count).expand(3, -1))
            start += count
        at += count
    return torch.cat([torch.arange(len(ids))[None], torch.cat(parts, dim=1)])


class Collator:
    """Makes batches of samples, and reads their images."""

    def __init__(self, eyes: Eyes, *, pad_token: int, packs: bool) -> None:
        self.eyes = eyes
        self.pad_token = pad_token
        self.packs = packs

    def __call__(self, samples: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Return one batch: one long row where samples are packed, else a padded row for each."""
        rows = [self._row(sample) for sample in samples]
        batch = _one_row(rows) if self.packs else _padded(rows, self.pad_token)
        patches, grids = [], []
        for sample in samples:
            for path, grid in zip(sample[PATHS] or (), _grids(sample), strict=True):
                found, now = self.eyes.look(path)
                if now != grid:
                    raise RequestError(
                        f"image {path} has changed since it was first read: it has the grid {now}, "
                        f"not {grid}"
                    )
                patches.append(found)
                grids.append(grid)
        if patches:
            batch |= {"pixel_values": torch.cat(patches), "image_grid_thw": torch.tensor(grids)}
        return batch

    def _row(self, sample: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        ids, labels = list(sample["input_ids"]), list(sample["labels"])
        grids = iter(_grids(sample))
        where, start = [], 0
        for length in sample.get(LENGTHS) or [len(ids)]:
            piece = ids[start : start + length]
            where.append(positions(piece, grids, token=self.eyes.token, merge=self.eyes.merge))
            labels[start] = IGNORED  # it would be predicted from the sample before
            start += length
        return {
            "input_ids": torch.tensor(ids),
            "labels": torch.tensor(labels),
            "position_ids": torch.cat(where, dim=1),
        }


def _grids(sample: Mapping[str, Any]) -> list[Grid]:
    numbers = iter(sample[GRIDS] or ())
    return list(zip(numbers, numbers, numbers, strict=True))


def _one_row(rows: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {
        "input_ids": torch.cat([row["input_ids"] for row in rows])[None],
        "labels": torch.cat([row["labels"] for row in rows])[None],
        "position_ids": torch.cat([row["position_ids"] for row in rows], dim=1)[:, None],
    }


def _padded(rows: Sequence[Mapping[str, torch.Tensor]], pad: int) -> dict[str, torch.Tensor]:
    width = max(len(row["input_ids"]) for row in rows)

    def filled(name: str, value: int) -> list[torch.Tensor]:
        return [
            torch.nn.functional.pad(row[name], (0, width - row[name].shape[-1]), value=value)
            for row in rows
        ]

    lengths = torch.tensor([len(row["input_ids"]) for row in rows])
    return {
        "input_ids": torch.stack(filled("input_ids", pad)),
        "labels": torch.stack(filled("labels", IGNORED)),
        "position_ids": torch.stack(filled("position_ids", 0), dim=1),
        "attention_mask": (torch.arange(width) < lengths[:, None]).long(),
    }


def pack(dataset: Any, train: Mapping[str, Any]) -> Any:
    """Return rows of whole samples, best fit, longest first; as it is without packing.

    Raises RequestError where a sample is longer than a row: half an image is none.
    """
    if not train["packing"]:
        return dataset
    from datasets import Dataset

    limit, lengths = packing_length(train), of_samples(dataset)
    if too_long := sum(length > limit for length in lengths):
        raise RequestError(
            f"train.packing_length: {too_long} samples are longer than {limit} tokens, and those "
            f"with images can not be cut; write at least {max(lengths)}"
        )
    return Dataset.from_list(
        [_joined([dataset[number] for number in row]) for row in fitted(lengths, limit)]
    )


def fitted(lengths: Sequence[int], limit: int) -> list[list[int]]:
    """Return the numbers of the samples in each row: the fullest row that has room takes one."""
    rows: list[list[int]] = []
    rooms: list[tuple[int, int]] = []
    for number in sorted(range(len(lengths)), key=lambda each: -lengths[each]):
        place = bisect_left(rooms, (lengths[number], -1))
        room, row = rooms.pop(place) if place < len(rooms) else (limit, len(rows))
        if row == len(rows):
            rows.append([])
        rows[row].append(number)
        insort(rooms, (room - lengths[number], row))
    return rows


def _joined(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    whole: dict[str, Any] = {
        name: [each for sample in samples for each in sample[name] or ()]
        for name in ("input_ids", "labels", PATHS, GRIDS)
    }
    return whole | {LENGTHS: [len(sample["input_ids"]) for sample in samples]}
