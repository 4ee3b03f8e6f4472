"""First come, first served, in three manners: strict, skipping, and with EASY backfilling.

* strict: nobody starts before the job ahead of him.
* skip: whoever fits starts (first fit in order of arrival); wide gangs may starve.
* EASY (Lifka 1995): the first job that does not fit gets the earliest place its limits promise;
  others may start now where that does not move it.
"""

# ruff: noqa: ARG002  the methods have the signatures of ``counted.Policy``

from bisect import insort
from collections import deque
from heapq import heapify, heappop, heappush

from reconciler.simulate.counted import CountedFleet
from reconciler.simulate.nodes import Nodes, Place


class Fifo:
    """Strict order of arrival."""

    tick_s: int | None = None

    def __init__(self) -> None:
        self._queue: deque[int] = deque()

    def arrived(self, fleet: CountedFleet, job: int) -> None:
        """Go to the end of the queue."""
        self._queue.append(job)

    def ended(self, fleet: CountedFleet, job: int) -> None:
        """Nothing to remember."""

    def returned(self, fleet: CountedFleet, job: int) -> None:
        """Go back to where it was by arrival."""
        self._queue = deque(sorted((*self._queue, job)))

    def repaired(self, fleet: CountedFleet) -> None:
        """Nothing to remember."""

    def decide(self, fleet: CountedFleet) -> None:
        """Start from the front while it fits."""
        while self._queue:
            place = fleet.nodes.find(fleet.jobs[self._queue[0]].gpus)
            if place is None:
                return
            fleet.start(self._queue.popleft(), place)

    def head(self, fleet: CountedFleet) -> int | None:
        """Return who came first."""
        return self._queue[0] if self._queue else None


class FifoSkip:
    """Order of arrival; who does not fit is passed over."""

    tick_s: int | None = None

    def __init__(self) -> None:
        self._by_gpus: dict[int, deque[int]] = {}

    def arrived(self, fleet: CountedFleet, job: int) -> None:
        """Join those of the same size."""
        self._by_gpus.setdefault(fleet.jobs[job].gpus, deque()).append(job)

    def ended(self, fleet: CountedFleet, job: int) -> None:
        """Nothing to remember."""

    def returned(self, fleet: CountedFleet, job: int) -> None:
        """Go back to where it was by arrival."""
        gpus = fleet.jobs[job].gpus
        self._by_gpus[gpus] = deque(sorted((*self._by_gpus[gpus], job)))

    def repaired(self, fleet: CountedFleet) -> None:
        """Nothing to remember."""

    def decide(self, fleet: CountedFleet) -> None:
        """Start whoever fits, the earliest arrival first."""
        heads = [(queue[0], gpus) for gpus, queue in self._by_gpus.items() if queue]
        heapify(heads)
        while heads:
            job, gpus = heappop(heads)
            place = fleet.nodes.find(gpus)
            if place is None:
                continue  # nor does anybody of that size
            fleet.start(job, place)
            queue = self._by_gpus[gpus]
            queue.popleft()
            if queue:
                heappush(heads, (queue[0], gpus))

    def head(self, fleet: CountedFleet) -> int | None:
        """Return who came first."""
        return min((queue[0] for queue in self._by_gpus.values() if queue), default=None)


class Easy:
    """FIFO with EASY backfilling by limits."""

    tick_s: int | None = None

    def __init__(self) -> None:
        self._queue: list[int] = []
        self._ends: list[tuple[float, int]] = []
        """(promised end, job) of what runs, sorted."""
        self._dirty = False
        self._fresh: list[int] = []
        self._shadow: tuple[float, Nodes | None] = (0.0, None)

    def arrived(self, fleet: CountedFleet, job: int) -> None:
        """Go to the end of the queue."""
        self._queue.append(job)
        self._fresh.append(job)

    def ended(self, fleet: CountedFleet, job: int) -> None:
        """Its GPUs are free before their promise."""
        self._dirty = True
        self._ends.remove((self._promised(fleet, job), job))

    def returned(self, fleet: CountedFleet, job: int) -> None:
        """Go back to where it was by arrival."""
        self._dirty = True
        self._ends.remove((self._promised(fleet, job), job))
        insort(self._queue, job)

    def repaired(self, fleet: CountedFleet) -> None:
        """More is free than was promised."""
        self._dirty = True

    def decide(self, fleet: CountedFleet) -> None:
        """Start the front, then whoever does not delay the first that does not fit.

        Between two ends only new arrivals can have become able to start.
        """
        if self._dirty:
            self._start_front(fleet)
            self._backfill(fleet, self._queue[1:])
        elif self._fresh:
            if len(self._queue) == len(self._fresh):
                self._start_front(fleet)
                self._backfill(fleet, self._queue[1:])
            else:
                self._backfill(fleet, self._fresh)
        self._dirty = False
        self._fresh = []

    def head(self, fleet: CountedFleet) -> int | None:
        """Return who came first."""
        return self._queue[0] if self._queue else None

    def _promised(self, fleet: CountedFleet, job: int) -> float:
        limit = fleet.jobs[job].limit_s
        assert limit is not None  # EASY is not asked to run without limits
        return fleet.courses[job].last_start_s + limit

    def _start(self, fleet: CountedFleet, job: int, place: Place) -> None:
        fleet.start(job, place)
        insort(self._ends, (self._promised(fleet, job), job))

    def _start_front(self, fleet: CountedFleet) -> None:
        started = 0
        for job in self._queue:
            place = fleet.nodes.find(fleet.jobs[job].gpus)
            if place is None:
                break
            self._start(fleet, job, place)
            started += 1
        del self._queue[:started]
        if self._queue:
            self._shadow = self._earliest(fleet, self._queue[0])

    def _earliest(self, fleet: CountedFleet, job: int) -> tuple[float, Nodes | None]:
        """Return when ``job`` fits by what is promised, and what is free then beside it."""
        nodes = fleet.nodes.copy()
        gpus = fleet.jobs[job].gpus
        at = fleet.now
        for end, other in self._ends:
            place = fleet.courses[other].place
            assert place is not None  # it runs
            nodes.give(place)
            at = max(end, fleet.now)
            found = nodes.find(gpus)
            if found is not None:
                nodes.take(found)
                return at, nodes
        return at, None

    def _backfill(self, fleet: CountedFleet, candidates: list[int]) -> None:
        if not self._queue:
            return
        at, beside = self._shadow
        started: set[int] = set()
        useless: set[int] = set()
        for job in candidates:
            if not fleet.nodes.free_gpus:
                break
            ask = fleet.jobs[job]
            if ask.gpus in useless or ask.limit_s is None:
                continue
            place = fleet.nodes.find(ask.gpus)
            if place is None:
                useless.add(ask.gpus)
                continue
            if fleet.now + ask.limit_s > at:
                if beside is None:
                    continue
                if any(beside.free[node] < gpus for node, gpus in place):
                    continue
                beside.take(place)
            self._start(fleet, job, place)
            started.add(job)
        if started:
            self._queue = [job for job in self._queue if job not in started]
