"""How the processes of an attempt divide the work, and what of that can not run.

Rule kept: the sizes multiply up to the number of processes, and what this trainer, or this kind of
device, does not do is refused with the request, long before a model is loaded.  No torch here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Processes = data x sequence x tensor x pipeline; weights whole, or split among all."""

    world_size: int
    sequence: int
    """Processes that share a row."""
    sharding: str | None
    """``fsdp2``: weights, gradients and states are split among all processes."""
    reshards: bool = True
    """Whether a layer's gathered weights are freed between its forward and backward pass."""

    tensor: int = 1
    """Processes that split each matrix."""
    expert: int = 1
    """Processes, of those that split each matrix, that split the experts."""

    pipeline: int = 1
    """Processes that have some of the layers each."""

    @property
    def copies(self) -> int:
        """Processes that read the very same rows, because they split the model."""
        return self.tensor * self.pipeline

    @property
    def sharers(self) -> int:
        """Neighbours that the loader must give the same rows; it knows of ``tensor`` itself."""
        return self.sequence * self.pipeline

    @property
    def data(self) -> int:
        """Groups of processes that read rows of their own."""
        return self.world_size // (self.sequence * self.copies)


def layout_of(train: Mapping[str, Any], world_size: int) -> Layout:
    """Return the layout of a ``train:`` section, complete or not."""
    return Layout(
        world_size=world_size,
        sequence=train.get("sequence_parallel_size") or 1,
        sharding=train.get("fsdp"),
        tensor=train.get("tensor_model_parallel_size") or 1,
        pipeline=train.get("pipeline_model_parallel_size") or 1,
        expert=train.get("expert_model_parallel_size") or 1,
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
    for key, size in SPLITS.items():
        parts = getattr(layout, size)
        if parts not in (1, layout.world_size):
            yield (
                f"train.{key}: {parts} processes split the model, but this attempt has "
                f"{layout.world_size}; replicas of a split model are not offered: write "
                f"{layout.world_size}, or take {parts} devices"
            )
    if layout.expert not in (1, layout.tensor):
        yield (
            f"train.expert_model_parallel_size: the {layout.expert} processes that split the "
            f"experts are those that split the other layers, which are {layout.tensor}; nearest: "
            f"tensor_model_parallel_size: {layout.expert}"
        )


SPLITS: Mapping[str, str] = {
    "tensor_model_parallel_size": "tensor",
    "pipeline_model_parallel_size": "pipeline",
}
"""Keys that split one model among all processes, and the layout's word for each."""
