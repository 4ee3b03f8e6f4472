"""GPU-hours that several teams share, platform-wide, for a calendar period.

Calendar arithmetic needs time zones, so a budget reaches the planner with its periods as instants.
"""

from dataclasses import dataclass

from reconciler.domain.units import Instant, TeamName


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """One calendar period of a budget: [start, end)."""

    start: Instant
    end: Instant

    def overlap_s(self, start: int, end: int) -> int:
        """Return how many seconds of [start, end) lie in it."""
        return max(min(self.end, end) - max(self.start, start), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One group, as ``conf/budgets/<name>.yaml`` declares it."""

    name: str
    limit_gpu_s: int
    """GPU-seconds in each period."""
    periods: tuple[Period, ...]
    """The present one first, then those ahead, without gaps."""
    teams: tuple[TeamName, ...] = ()
    """Empty: every team."""
    words: str = ""
    """The period in a word, such as ``quarter``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetUse:
    """How one budget stands in its present period, in GPU-seconds."""

    name: str
    period: Period
    limit_gpu_s: int
    used_gpu_s: int
    """Of attempts that ended, and of reserved devices that idled."""
    running_gpu_s: int
    """Of attempts that run now, so far."""
    committed_gpu_s: int
    """Bounds of what runs, waits with a promise, or is reserved: what is still to come."""
    teams: tuple[TeamName, ...] = ()
    words: str = ""

    @property
    def left_gpu_s(self) -> int:
        """What is neither used nor promised; negative where a limit was lowered."""
        return self.limit_gpu_s - self.used_gpu_s - self.running_gpu_s - self.committed_gpu_s
