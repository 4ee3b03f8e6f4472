"""What stopping and starting costs a job on virtual time.

``Costs.times(k)`` charges k times the measured figures: a checkpoint takes 20 s and 1 s a node,
during which the GPUs stay held; a restart takes 60 s and 2 s a node of running time without
progress.  ``Costs.flat(s)`` charges only ``s`` seconds of extra running time for a preemption, as
much of the literature does.  A hard kill (a node that dies) loses up to half an hour of work.
"""

import re
from dataclasses import dataclass

from reconciler.simulate.load import LoadError

HARD_KILL_LOSS_S = 1800


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds; ``nodes`` is how many nodes the gang spans."""

    save_s: float = 20.0
    save_node_s: float = 1.0
    restore_s: float = 60.0
    restore_node_s: float = 2.0

    @classmethod
    def times(cls, factor: float) -> "Costs":
        """Return ``factor`` times the measured costs."""
        return cls(
            save_s=20.0 * factor,
            save_node_s=1.0 * factor,
            restore_s=60.0 * factor,
            restore_node_s=2.0 * factor,
        )

    @classmethod
    def flat(cls, seconds: float) -> "Costs":
        """Return a cost of ``seconds`` of running time for each restart, and nothing else."""
        return cls(save_s=0.0, save_node_s=0.0, restore_s=seconds, restore_node_s=0.0)

    @classmethod
    def parse(cls, text: str) -> "Costs":
        """Return the costs of ``5``, ``0.5`` (a multiple) or ``60s`` (flat).

        Raises ``LoadError`` on other text.
        """
        found = re.fullmatch(r"(\d+(?:\.\d+)?)(s?)", text)
        if found is None:
            raise LoadError(f"a restart cost is a multiple such as 1, or flat as 60s; got {text!r}")
        value = float(found[1])
        return cls.flat(value) if found[2] else cls.times(value)

    def save(self, nodes: int) -> int:
        """Return how long a gang on ``nodes`` nodes keeps its GPUs after it is asked to stop."""
        return round(self.save_s + self.save_node_s * nodes)

    def restore(self, nodes: int) -> int:
        """Return how long a resumed gang runs without progress."""
        return round(self.restore_s + self.restore_node_s * nodes)
