"""Kueue in small: a queue a team, quotas that may be borrowed in one cohort, BestEffortFIFO.

A cycle looks at the first admissible job of each queue (class, then arrival), those within their
team's quota before those that borrow, and admits who fits quota and nodes; who does not fit
is passed over until somebody ends.  Nobody is stopped: Kueue's preemption is off by default.
"""

# ruff: noqa: ARG002  the methods have the signatures of ``counted.Policy``

from collections.abc import Mapping
from heapq import heappop, heappush

from reconciler.simulate.counted import CountedFleet


class TeamQueues:
    """``quotas`` are GPUs by team; their sum is what the cohort may hold."""

    tick_s: int | None = None

    def __init__(self, quotas: Mapping[str, int]) -> None:
        self._quotas = quotas
        self._cohort = sum(quotas.values())
        self._held: dict[str, int] = dict.fromkeys(quotas, 0)
        self._queues: dict[tuple[str, int], list[tuple[int, int]]] = {}
        """By (team, GPUs): a heap of (class, job); all of one size fit alike."""

    def arrived(self, fleet: CountedFleet, job: int) -> None:
        """Join the queue of the team."""
        ask = fleet.jobs[job]
        heappush(self._queues.setdefault((ask.team, ask.gpus), []), (ask.priority, job))

    def ended(self, fleet: CountedFleet, job: int) -> None:
        """Give back the quota."""
        self._held[fleet.jobs[job].team] -= fleet.jobs[job].gpus

    def returned(self, fleet: CountedFleet, job: int) -> None:
        """Give back the quota and join the queue again."""
        self.ended(fleet, job)
        self.arrived(fleet, job)

    def repaired(self, fleet: CountedFleet) -> None:
        """Nothing to remember."""

    def head(self, fleet: CountedFleet) -> int | None:
        """Return who is first by class and arrival."""
        return min((queue[0] for queue in self._queues.values() if queue), default=(0, None))[1]

    def decide(self, fleet: CountedFleet) -> None:
        """Hold cycles until one admits nobody."""
        passed: set[tuple[str, int]] = set()
        while self._cycle(fleet, passed):
            pass

    def _cycle(self, fleet: CountedFleet, passed: set[tuple[str, int]]) -> bool:
        heads: dict[str, tuple[int, int, int]] = {}
        for (team, gpus), queue in self._queues.items():
            if queue and (team, gpus) not in passed:
                first = (*queue[0], gpus)
                heads[team] = min(heads.get(team, first), first)
        admitted = False
        for team, (_, job, gpus) in sorted(
            heads.items(), key=lambda each: (self._borrows(each[0], each[1][2]), each[1])
        ):
            place = fleet.nodes.find(gpus) if self._has_quota(gpus) else None
            if place is None:
                passed.add((team, gpus))
                continue
            heappop(self._queues[team, gpus])
            self._held[team] += gpus
            fleet.start(job, place)
            admitted = True
        return admitted or any(queue and key not in passed for key, queue in self._queues.items())

    def _borrows(self, team: str, gpus: int) -> bool:
        return self._held[team] + gpus > self._quotas[team]

    def _has_quota(self, gpus: int) -> bool:
        return sum(self._held.values()) + gpus <= self._cohort
