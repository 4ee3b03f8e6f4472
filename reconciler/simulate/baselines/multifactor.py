"""Slurm's multifactor priority with EASY backfilling.

Priority is age (one at 7 days) + fair share (2 to the power of minus the team's use over its
share, use halved every 7 days) + size (share of the cluster), in equal parts, worked out anew every
5 minutes as Slurm does.  Between two of those a new job waits behind the others.
"""

from reconciler.simulate.baselines.ordered import Easy
from reconciler.simulate.counted import CountedFleet

EVERY_S = 300
AGE_S = 7 * 86400
HALF_LIFE_S = 7 * 86400


class Multifactor(Easy):
    """EASY in an order that changes with time."""

    def __init__(self) -> None:
        super().__init__()
        self._use: dict[str, float] = {}
        self._holds: dict[str, int] = {}
        self._used_at = 0.0
        self._ordered_at: float | None = None

    def arrived(self, fleet: CountedFleet, job: int) -> None:
        """Wait behind the others until priorities are worked out again."""
        super().arrived(fleet, job)
        self._holds.setdefault(fleet.jobs[job].team, 0)

    def ended(self, fleet: CountedFleet, job: int) -> None:
        """Its team holds less from here on."""
        self._count_use(fleet)
        self._holds[fleet.jobs[job].team] -= fleet.jobs[job].gpus
        super().ended(fleet, job)

    def returned(self, fleet: CountedFleet, job: int) -> None:
        """Wait again, in front until priorities are worked out again."""
        self._count_use(fleet)
        self._holds[fleet.jobs[job].team] -= fleet.jobs[job].gpus
        self._dirty = True
        self._ends.remove((self._promised(fleet, job), job))
        self._queue.insert(0, job)

    def decide(self, fleet: CountedFleet) -> None:
        """Order anew where it is time, then start as EASY does."""
        if self._ordered_at is None or fleet.now - self._ordered_at >= EVERY_S:
            self._ordered_at = fleet.now
            self._count_use(fleet)
            self._order(fleet)
            self._dirty = True
        before = set(self._queue)
        super().decide(fleet)
        started = before.difference(self._queue)
        if started:
            self._count_use(fleet)
        for job in started:
            self._holds[fleet.jobs[job].team] += fleet.jobs[job].gpus

    def _count_use(self, fleet: CountedFleet) -> None:
        span = fleet.now - self._used_at
        if span <= 0:
            return
        kept = 0.5 ** (span / HALF_LIFE_S)
        for team, gpus in self._holds.items():
            self._use[team] = self._use.get(team, 0.0) * kept + gpus * span
        self._used_at = fleet.now

    def _order(self, fleet: CountedFleet) -> None:
        whole = sum(self._use.values())
        teams = max(len(self._holds), 1)
        share = {
            team: 2.0 ** (-(self._use.get(team, 0.0) / whole) * teams) if whole else 1.0
            for team in self._holds
        }

        def priority(job: int) -> float:
            ask = fleet.jobs[job]
            age = min((fleet.now - ask.submit_s) / AGE_S, 1.0)
            return age + share[ask.team] + ask.gpus / fleet.gpus

        self._queue.sort(key=lambda job: (-priority(job), job))
