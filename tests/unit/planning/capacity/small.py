"""Small capacities in few words: a grid from node sizes, holds from tuples, instants from 0."""

from collections.abc import Mapping
from typing import Any

from reconciler.domain.units import Instant, Seconds
from reconciler.planning.capacity.gang import Gang, gang_of
from reconciler.planning.capacity.grid import Grid, grid_of
from reconciler.planning.capacity.holds import Holds
from reconciler.planning.capacity.search import Slot, earliest
from reconciler.planning.capacity.state import State
from reconciler.planning.topology import layout
from tests.values import NOW, a_cluster, a_spec

Taken = tuple[int, int, int, int]
"""(row, count, start, end), instants from ``NOW``."""


def a_grid(nodes: Mapping[str, int | Mapping[str, Any]] | None = None) -> Grid:
    """Return the rows of a cluster, one node of eight GPUs by default."""
    return grid_of(layout(a_cluster(nodes)))


def holds(*taken: Taken) -> Holds:
    """Return these holds."""
    return Holds.of(
        [((row,), count, Instant(NOW + s), Instant(NOW + e)) for row, count, s, e in taken]
    )


def a_state(
    nodes: Mapping[str, int | Mapping[str, Any]] | None = None,
    *taken: Taken,
    shortest: int = 1,
) -> State:
    """Return the capacity of a cluster under these holds."""
    return State(a_grid(nodes), holds(*taken), NOW, shortest=shortest)


def a_gang(state: State, gpus: int, **asked: Any) -> Gang:
    """Return the gang of a request on the state's grid."""
    return gang_of(a_spec(gpus=gpus, **asked).gpus, state.grid)


def first(state: State, gpus: int, duration: int, not_before: int = 0, **asked: Any) -> Slot | None:
    """Return the earliest place of a request."""
    return earliest(
        state, a_gang(state, gpus, **asked), Seconds(duration), Instant(NOW + not_before)
    )


def start(state: State, gpus: int, duration: int, not_before: int = 0, **asked: Any) -> int | None:
    """Return when a request could start first, from ``NOW``."""
    slot = first(state, gpus, duration, not_before, **asked)
    return None if slot is None else slot.start - NOW


def steps(state: State, row: int = 0) -> list[tuple[int, int]]:
    """Return a row's (instant, free) steps, instants from ``NOW``."""
    return [(at - NOW, free) for at, free in zip(*state.steps_of(row), strict=True)]
