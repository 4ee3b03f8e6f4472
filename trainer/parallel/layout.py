"""How the processes of an attempt divide the work, and what of that can not run.

Rule kept: the sizes multiply up to the number of processes, and what this trainer, or this kind of
device, does not do is refused with the request, long before a model is loaded.  No torch here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Processes = data x sequence; weights whole in each, or split among all."""

    world_size: int
    sequence: int
    """Processes that share a row."""
    sharding: str | None
    """``fsdp2``: weights, gradients and states are split among all processes."""
    reshards: bool = True
    """Whether a layer's gathered weights are freed between its forward and backward pass."""

    @property
    def data(self) -> int:
        """Groups of processes that read rows of their own."""
        return self.world_size // self.sequence


def layout_of(train: Mapping[str, Any], world_size: int) -> Layout:
    """Return the layout of a ``train:`` section, complete or not."""
    return Layout(
        world_size=world_size,
        sequence=train.get("sequence_parallel_size") or 1,
        sharding=train.get("fsdp"),
        reshards=train.get("fsdp_reshard_after_forward") is not False,
    )


def request_problems(layout: Layout) -> Iterator[str]:
    """Yield what can not be with this many processes."""
    if layout.sharding is not None and layout.world_size == 1:
        yield (
            f"train.fsdp: {layout.sharding} splits weights among processes, and this attempt has "
            "one; it would be ignored"
        )
    if layout.world_size % layout.sequence:
        yield (
            f"train.sequence_parallel_size: {layout.sequence} does not divide the "
            f"{layout.world_size} processes of this attempt"
        )
