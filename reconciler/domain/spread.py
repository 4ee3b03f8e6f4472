"""How far apart did a gang run, and what did the fleet's own runs measure of what that costs?

Values only: ``snapshots`` makes them of measured runs, ``planning`` weighs places with them.
"""

from dataclasses import dataclass
from enum import StrEnum


class PlacementClass(StrEnum):
    """How far a gang is spread on the devices it has."""

    TOGETHER = "together"
    """Over the fewest nodes, and the fewest racks, that could hold it."""
    NODES = "nodes"
    """Over more nodes than the fewest, in as few racks as can be."""
    RACKS = "racks"
    """Over more racks than the fewest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSlowdown:
    """How many times as long steps took in one placement class as they did together."""

    ratio: float = 1.0
    weight: float = 0.0
    """What the runs count for; a run that was held against many runs together counts for 1."""
    runs: int = 0
    """Runs of this class that it rests on; 0: none, and nothing was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadMeasured:
    """What runs of the fleet measured of each placement class."""

    nodes: MeasuredSlowdown = MeasuredSlowdown()
    racks: MeasuredSlowdown = MeasuredSlowdown()

    def __bool__(self) -> bool:
        """True where something was measured."""
        return bool(self.nodes.runs or self.racks.runs)
