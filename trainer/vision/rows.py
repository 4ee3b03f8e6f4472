"""Conversations with images: rows whose images open, and the tokens each image takes.

Rules kept: a row whose image is missing, broken, or not at its ``<image>`` tag is refused by file
and line like any other; the template of the model says where an image stands, its image processor
how many tokens it is.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from trainer.config import RequestError
from trainer.forms import IMAGE, Row, conversation_row
from trainer.reading import RowError
from trainer.tokens import IGNORED, Encoded, encode_conversations

Grid = tuple[int, int, int]
"""Patches of an image: over time (1), down and across."""
PATHS, GRIDS = "picture_paths", "picture_grids"
"""Columns of a sample: its images in order, and three numbers for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eyes:
    """How a model takes images."""

    processor: Any
    """Its image processor."""
    root: Path
    """What paths of images are relative to."""
    token: int
    """Id that stands once for each piece of an image."""
    word: str
    """How the template writes that token."""
    merge: int
    """Patches down, and across, that become one token."""

    def tokens(self, grid: Grid) -> int:
        """Return how many tokens an image is."""
        return grid[0] * grid[1] * grid[2] // self.merge**2

    def stamp(self) -> str:
        """Return a digest of what the number of an image's tokens depends on."""
        made_of = f"{self.processor.to_json_string()} {self.root} {self.word} {self.merge}"
        return hashlib.sha256(made_of.encode()).hexdigest()

    def look(self, path: str) -> tuple[Any, Grid]:
        """Return the patches of an image file and their grid; raise OSError where it is none."""
        from PIL import Image

        with Image.open(self.root / path) as image:
            seen = self.processor(images=[image.convert("RGB")], return_tensors="pt")
        down_and_across = seen["image_grid_thw"][0].tolist()
        return seen["pixel_values"], (down_and_across[0], down_and_across[1], down_and_across[2])


def open_eyes(location: str, *, root: Path, revision: str | None = None) -> Eyes:
    """Return how the model at ``location`` takes images; RequestError where Pillow is missing."""
    from transformers import AutoConfig, AutoImageProcessor, AutoTokenizer
    from transformers.utils import is_vision_available

    if not is_vision_available():
        raise RequestError(
            "images are read with Pillow, which is not installed: pip install pillow"
        )
    kept = {"revision": revision, "trust_remote_code": False}
    config = AutoConfig.from_pretrained(location, **kept)
    tokenizer = AutoTokenizer.from_pretrained(location, **kept)
    return Eyes(
        processor=AutoImageProcessor.from_pretrained(location, backend="pil", **kept),
        root=root,
        token=config.image_token_id,
        word=tokenizer.convert_ids_to_tokens(config.image_token_id),
        merge=config.vision_config.spatial_merge_size,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRow(Row):
    """A conversation whose images have been looked at."""

    grids: tuple[Grid, ...] = ()


def reader(eyes: Eyes, *, system: str | None) -> Callable[[str, Any], SeenRow]:
    """Return what makes rows of values; it raises RowError for those it can not use."""

    def read(source: str, value: Any) -> SeenRow:
        row = conversation_row(source, value, system=system, sees=True)
        tags = sum(message["content"].count(IMAGE) for message in row.messages)
        if tags != len(row.images):
            raise RowError(f"has {len(row.images)} images, but {tags} {IMAGE} tags in its messages")
        grids = []
        for path in row.images:
            try:
                grids.append(eyes.look(path)[1])
            except (OSError, ValueError) as error:
                raise RowError(f"image {path} can not be read: {error}") from None
        known = {field.name: getattr(row, field.name) for field in fields(Row)}
        return SeenRow(**known, grids=tuple(grids))

    return read


def encode(
    rows: Iterable[SeenRow], *, eyes: Eyes, tokenizer: Any, train: Mapping[str, Any]
) -> Encoded:
    """Return each conversation's tokens and labels, and its images with their grids."""
    samples: list[dict[str, Any]] = []
    too_long: list[str] = []
    empty: list[str] = []
    for row in rows:
        parted = Row(source=row.source, messages=tuple(map(_parted, row.messages)))
        counts = [eyes.tokens(grid) for grid in row.grids]
        writer = _Writer(tokenizer, eyes.word, counts)
        encoded = encode_conversations([parted], tokenizer=writer, train=train)
        too_long += encoded.too_long
        empty += encoded.nothing_to_learn
        for sample in encoded.samples:
            if sample["input_ids"].count(eyes.token) != sum(counts):
                raise RequestError(
                    f"train.dataset: {row.source}: {len(counts)} images should be {sum(counts)} "
                    f"tokens, but the model's chat template writes "
                    f"{sample['input_ids'].count(eyes.token)}; {eyes.word} must not be in a text"
                )
            samples.append(
                {
                    "input_ids": sample["input_ids"],
                    "labels": [
                        IGNORED if each == eyes.token else each for each in sample["labels"]
                    ],
                    PATHS: list(row.images),
                    GRIDS: [number for grid in row.grids for number in grid],
                }
            )
    return Encoded(samples=tuple(samples), too_long=tuple(too_long), nothing_to_learn=tuple(empty))


def _parted(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message whose tags have become parts, as templates want images."""
    if IMAGE not in message["content"]:
        return message
    parts: list[dict[str, str]] = []
    for number, text in enumerate(message["content"].split(IMAGE)):
        parts += [{"type": "image"}] * bool(number) + [{"type": "text", "text": text}] * bool(text)
    return {"role": message["role"], "content": parts}


class _Writer:
    """The tokenizer of a model, whose template writes an image's token as often as it stands."""

    def __init__(self, tokenizer: Any, word: str, counts: list[int]) -> None:
        self.tokenizer = tokenizer
        self.word = word
        self.counts = counts

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tokenizer(*args, **kwargs)

    def apply_chat_template(self, messages: Any, **kwargs: Any) -> str:
        """Return the conversation as text; the first images of it are those of this row."""
        first, *rest = str(self.tokenizer.apply_chat_template(messages, **kwargs)).split(self.word)
        counts = [*self.counts, *[1] * len(rest)]
        return first + "".join(
            self.word * count + text for count, text in zip(counts, rest, strict=False)
        )


def ask(question: str, images: Sequence[str], *, eyes: Eyes, tokenizer: Any) -> dict[str, Any]:
    """Return what the model reads of a question after images, given by path.

    Raises RequestError where an image can not be read.
    """
    import torch

    seen = []
    for path in images:
        try:
            seen.append(eyes.look(path))
        except (OSError, ValueError) as error:
            raise RequestError(f"image {path} can not be read: {error}") from None
    writer = _Writer(tokenizer, eyes.word, [eyes.tokens(grid) for _, grid in seen])
    parts = [*({"type": "image"} for _ in images), {"type": "text", "text": question}]
    text = writer.apply_chat_template(
        [{"role": "user", "content": parts}], add_generation_prompt=True, tokenize=False
    )
    ids = torch.tensor([tokenizer(text, add_special_tokens=False)["input_ids"]])
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "mm_token_type_ids": (ids == eyes.token).int(),
        "pixel_values": torch.cat([patches for patches, _ in seen]),
        "image_grid_thw": torch.tensor([grid for _, grid in seen]),
    }
