"""Attempts on virtual time: what one has done by an instant, when it ends, and what is lost."""

from dataclasses import dataclass

from reconciler.domain.attempt import Outcome
from reconciler.domain.units import AttemptId
from reconciler.simulate.nodes import Place


@dataclass(slots=True)
class VirtualAttempt:
    """One attempt.  It restores, works at the pace of its place, and ends or is told to leave."""

    id: AttemptId
    job: int
    place: Place
    began_at: int
    restoring_s: int
    slowdown: float
    left_s: float
    """Work left when it began, in seconds at the requested size."""
    ends_at: float
    stop_at: int | None = None
    gone_at: float | None = None
    """When it leaves without having finished."""
    outcome: Outcome | None = Outcome.SUCCEEDED
    version: int = 0
    """Raised when what was planned of its end no longer holds."""

    @property
    def gpus(self) -> int:
        """How many GPUs it holds."""
        return sum(count for _, count in self.place)

    def progress_s(self, at: float) -> float:
        """Return the work done by ``at``."""
        return min(max(at - self.began_at - self.restoring_s, 0) / self.slowdown, self.left_s)

    def leave(self, at: float, outcome: Outcome | None) -> None:
        """Plan to leave at ``at`` without having finished."""
        self.gone_at, self.outcome = at, outcome
        self.version += 1

    def kept_s(self, ended: float, lost_s: float = 0.0) -> float:
        """Return the work that outlives it: up to the request to stop, less what a crash loses."""
        until = self.stop_at if self.stop_at is not None and self.gone_at is not None else ended
        return max(self.progress_s(until) - lost_s, 0.0)


@dataclass(slots=True)
class Fate:
    """How one job fares."""

    left_s: float
    first_start_s: int | None = None
    ended_s: float | None = None
    starts: int = 0
    preemptions: int = 0
    lost: int = 0
    held_gpu_s: float = 0.0
