"""Conservative backfilling, as deep as Slurm looks: everyone planned has a start nobody may delay.

Jobs are planned in order of arrival over what running jobs promise by their limits, 100 of them
(Slurm's ``bf_max_job_test``), anew after an end and at most every 30 s (``bf_interval``).  The plan
counts GPUs; a job whose time has come but that no set of nodes holds keeps its place in the plan.
"""

# ruff: noqa: ARG002  the methods have the signatures of ``counted.Policy``

from bisect import insort

import numpy as np
from numpy.typing import NDArray

from reconciler.simulate.counted import CountedFleet

DEPTH = 100
EVERY_S = 30


class Conservative:
    """A plan of the first hundred, made again when somebody left."""

    def __init__(self) -> None:
        self.tick_s: int | None = EVERY_S
        self._queue: list[int] = []
        self._dirty = False

    def arrived(self, fleet: CountedFleet, job: int) -> None:
        """Go to the end of the queue."""
        self._queue.append(job)
        self._dirty = True

    def ended(self, fleet: CountedFleet, job: int) -> None:
        """Its GPUs are free before their promise."""
        self._dirty = True

    def returned(self, fleet: CountedFleet, job: int) -> None:
        """Go back to where it was by arrival."""
        insort(self._queue, job)
        self._dirty = True

    def repaired(self, fleet: CountedFleet) -> None:
        """More is free than was promised."""
        self._dirty = True

    def head(self, fleet: CountedFleet) -> int | None:
        """Return who came first."""
        return self._queue[0] if self._queue else None

    def decide(self, fleet: CountedFleet) -> None:
        """Start at once what is next and fits; plan the rest when it is time."""
        if not self._queue or not self._dirty:
            return
        if fleet.is_tick:
            self._plan(fleet)
            self._dirty = False
        elif len(self._queue) == 1:
            place = fleet.nodes.find(fleet.jobs[self._queue[0]].gpus)
            if place is not None:
                fleet.start(self._queue.pop(), place)

    def _plan(self, fleet: CountedFleet) -> None:
        profile = _Profile(fleet)
        started: set[int] = set()
        for job in self._queue[:DEPTH]:
            ask = fleet.jobs[job]
            assert ask.limit_s is not None  # it is not asked to run without limits
            begin = profile.earliest(ask.gpus, ask.limit_s)
            place = fleet.nodes.find(ask.gpus) if begin <= fleet.now else None
            profile.take(begin, begin + ask.limit_s, ask.gpus)
            if place is not None:
                fleet.start(job, place)
                started.add(job)
        self._queue = [job for job in self._queue if job not in started]


class _Profile:
    """Free GPUs over time, by what running jobs promise."""

    def __init__(self, fleet: CountedFleet) -> None:
        ends: dict[float, int] = {}
        for job in fleet.running:
            limit = fleet.jobs[job].limit_s or 0
            at = max(fleet.courses[job].last_start_s + limit, fleet.now + 1)
            ends[at] = ends.get(at, 0) + fleet.jobs[job].gpus
        times = sorted(ends)
        self._at: NDArray[np.float64] = np.array([fleet.now, *times])
        freed = np.array([fleet.nodes.free_gpus, *(ends[at] for at in times)])
        self._free: NDArray[np.int64] = np.cumsum(freed)

    def earliest(self, gpus: int, span: float) -> float:
        """Return the first instant from which ``gpus`` are free for ``span`` seconds."""
        short = np.concatenate(([0], np.cumsum(self._free < gpus)))
        until = np.searchsorted(self._at, self._at + span, side="left")
        fits = short[until] == short[: len(self._at)]
        return float(self._at[int(np.argmax(fits))])

    def take(self, begin: float, end: float, gpus: int) -> None:
        """Hold ``gpus`` from ``begin`` to ``end``."""
        for at in (begin, end):
            where = int(np.searchsorted(self._at, at))
            if where == len(self._at) or self._at[where] != at:
                self._at = np.insert(self._at, where, at)
                self._free = np.insert(self._free, where, self._free[where - 1])
        first, last = np.searchsorted(self._at, [begin, end])
        self._free[first:last] -= gpus
