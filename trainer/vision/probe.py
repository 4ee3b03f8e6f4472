"""Whether samples with images that share a row see each other: tried on the loaded model.

As in ``trainer.isolation`` for texts; then two samples with an image each are put in a row and the
first one's image is exchanged.  The second must not notice, and the first must, or nothing was
tried.
"""

from dataclasses import replace
from typing import Any

import torch

from trainer import isolation
from trainer.isolation import LEAK, Isolation, Read
from trainer.vision.batches import positions
from trainer.vision.rows import Eyes

BEFORE, AFTER = 5, 8
"""Tokens of text around the image of each sample."""


def reader(model: Any) -> Read:
    """Return how a packed row of texts is read: the same place in all directions."""

    def read(ids: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = model(
            input_ids=ids[None], position_ids=where[None, None].expand(4, 1, -1), use_cache=False
        ).logits[0]
        return logits.float()

    return read


def prove(model: Any, eyes: Eyes, *, attention: str) -> Isolation:
    """Return what was measured; raise RequestError where samples see each other."""
    found = isolation.prove(model, attention=attention, read=reader(model))
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            leak, seen = images(model, eyes)
    finally:
        model.train(was_training)
    found = replace(found, leak=max(found.leak, leak))
    if not found.holds or not seen > LEAK:
        isolation.refuse(model, found, attention=attention)
    return found


def images(model: Any, eyes: Eyes) -> tuple[float, float]:
    """Return what exchanging the first sample's image changes in the second, and in the first."""
    vision = model.config.vision_config
    side = 2 * eyes.merge
    grid = (1, side, side)
    count, patches = eyes.tokens(grid), side * side
    width = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
    draw = torch.Generator().manual_seed(20)
    device = next(model.parameters()).device
    vocabulary = min(1000, model.config.get_text_config().vocab_size)
    text = torch.randint(vocabulary, (BEFORE + AFTER,), generator=draw).tolist()
    text = [each if each != eyes.token else each - 1 for each in text]
    ids = [*text[:BEFORE], *[eyes.token] * count, *text[BEFORE:]]
    where = positions(ids, iter([grid]), token=eyes.token, merge=eyes.merge)
    pixels = torch.randn((3, patches, width), generator=draw)

    def read(first: int) -> torch.Tensor:
        logits: torch.Tensor = model(
            input_ids=torch.tensor([ids * 2], device=device),
            position_ids=torch.cat([where, where], dim=1)[:, None].to(device),
            pixel_values=torch.cat([pixels[first], pixels[2]]).to(device),
            image_grid_thw=torch.tensor([grid, grid], device=device),
            use_cache=False,
        ).logits[0]
        return logits.float().log_softmax(-1)

    change = (read(0) - read(1)).abs()
    return float(change[len(ids) :].max()), float(change[: len(ids)].max())
