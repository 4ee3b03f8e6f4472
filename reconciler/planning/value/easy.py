"""EASY backfilling over counts: what the shadow schedule starts next.

First come, first served; while the first waiting job does not fit, it has a reservation at the
earliest instant at which believed ends make room for it, and a later job may start where it ends
before that instant by its limit or leaves the reserved devices alone.  Believed ends are start plus
limit, as EASY's users know them.  Domains below a pool are not modelled.
"""

from bisect import bisect_left, insort
from collections.abc import Mapping

from reconciler.domain.units import JobId
from reconciler.domain.value_state import Held, ShadowJob
from reconciler.planning.value.counts import FreeCounts
from reconciler.planning.value.fleet import Nodes, Within

FAR = 1 << 60
OVERDUE_S = 60
"""A shadow job past its limit is believed to end this much later."""


class Easy:
    """A queue and a cluster under EASY.  ``began`` collects (job, nodes) of what was started."""

    def __init__(self, nodes: Nodes, jobs: Mapping[JobId, ShadowJob], shut: Held = ()) -> None:
        self.counts = FreeCounts(nodes, nodes.sizes)
        if shut:
            self.counts.take(shut)
        self.queue: list[tuple[int, JobId]] = []
        self._buckets: dict[tuple[int, int], dict[int, list[tuple[int, JobId]]]] = {}
        self._by_limit: list[tuple[int, JobId]] = []
        self._facts: dict[JobId, tuple[int, int, int]] = {}
        self._held: dict[JobId, Held] = {}
        self._booked: tuple[int, dict[int, int]] | None = None
        for job, each in jobs.items():
            if each.nodes:
                self.run(job, pairs(each.nodes), each.start, each.limit)
            elif not each.end:
                self.submit(job, each)

    def submit(self, job: JobId, each: ShadowJob) -> None:
        """Append a job to the queue, in order of arrival."""
        insort(self.queue, (each.arrived, job))
        of_shape = self._buckets.setdefault((each.gpus, each.pools), {})
        insort(of_shape.setdefault(each.limit, []), (each.arrived, job))
        self._facts[job] = (each.gpus, each.pools, each.limit)
        if self.queue[0][1] == job:
            self._booked = None

    def withdraw(self, job: JobId, arrived: int) -> None:
        """Take a job out of the queue."""
        del self.queue[bisect_left(self.queue, (arrived, job))]
        gpus, pools, limit = self._facts.pop(job)
        of_shape = self._buckets[gpus, pools]
        bucket = of_shape[limit]
        del bucket[bisect_left(bucket, (arrived, job))]
        if not bucket:
            del of_shape[limit]
            if not of_shape:
                del self._buckets[gpus, pools]
        self._booked = None

    def forget(self) -> None:
        """Drop what is remembered of the first job's reservation: it is derived anew."""
        self._booked = None

    def run(self, job: JobId, held: Held, start: int, limit: int) -> None:
        """Give devices to a job."""
        self.counts.take(held)
        self._held[job] = held
        insort(self._by_limit, (start + limit if limit else FAR, job))

    def leave(self, job: JobId, start: int, limit: int) -> None:
        """Take a job's devices back."""
        self.counts.give(self._held.pop(job))
        del self._by_limit[bisect_left(self._by_limit, (start + limit if limit else FAR, job))]
        self._booked = None

    def start_new(self, now: int, job: JobId, arrived: int) -> list[tuple[JobId, Held]]:
        """Return the start of a job that has just been appended, if it may start at once."""
        if self.queue[0][1] == job:
            return self.start_all(now)
        gpus, pools, limit = self._facts[job]
        held = self._backfill(now, gpus, pools, limit)
        if held is None:
            return []
        self.withdraw_for_start(job, arrived, now, held, limit)
        return [(job, held)]

    def start_all(self, now: int) -> list[tuple[JobId, Held]]:
        """Return every start that EASY makes at ``now``, in order."""
        began = []
        while self.queue:
            arrived, job = self.queue[0]
            gpus, pools, limit = self._facts[job]
            held = self.counts.place(gpus, pools, Within.POOL)
            if held is None:
                break
            self.withdraw_for_start(job, arrived, now, held, limit)
            began.append((job, held))
        if len(self.queue) > 1:
            began += self._behind_the_first(now)
        return began

    def _behind_the_first(self, now: int) -> list[tuple[JobId, Held]]:
        """Return every start behind the first job.  Room only shrinks meanwhile, so where one job
        finds none, no other of its shape does that ends as early, or as late."""
        began = []
        until, _ = self._reservation(now)
        full: set[tuple[int, int, bool]] = set()
        for arrived, job, gpus, pools, limit in self._candidates(now):
            shape = (gpus, pools, bool(limit and now + limit <= until))
            if shape in full:
                continue
            held = self._backfill(now, gpus, pools, limit)
            if held is None:
                full.add(shape)
            else:
                self.withdraw_for_start(job, arrived, now, held, limit)
                began.append((job, held))
        return began

    def withdraw_for_start(
        self, job: JobId, arrived: int, now: int, held: Held, limit: int
    ) -> None:
        """Move a job from the queue onto devices."""
        is_first = self.queue[0][1] == job
        booked = self._booked
        self.withdraw(job, arrived)
        self.run(job, held, now, limit)
        if not is_first and booked is not None:
            until, spare = booked
            if now + (limit or FAR) > until:
                for row, count in held:
                    if row in spare:
                        spare[row] -= count
            self._booked = (until, spare)

    def _candidates(self, now: int) -> list[tuple[int, JobId, int, int, int]]:
        """Return the queued jobs that could start behind the first, in order of arrival."""
        until, _ = self._reservation(now)
        first = self.queue[0][1]
        slack = until - now
        found: list[tuple[int, JobId, int, int, int]] = []
        total = sum(self.counts.free)
        for (gpus, pools), of_shape in self._buckets.items():
            if gpus > total or self.counts.place(gpus, pools, Within.POOL) is None:
                continue
            is_long = self._backfill(now, gpus, pools, FAR) is not None
            fitting = [limit for limit in of_shape if is_long or 0 < limit <= slack]
            most = total // gpus + 1  # the first of the queue may be among them
            here = [
                (arrived, job, gpus, pools, limit)
                for limit in fitting
                for arrived, job in of_shape[limit][:most]
                if job != first
            ]
            if len(fitting) > 1:
                here.sort()
            found += here[: most - 1]
        found.sort()
        return found

    def _backfill(self, now: int, gpus: int, pools: int, limit: int) -> Held | None:
        until, spare = self._reservation(now)
        if limit and now + limit <= until:
            return self.counts.place(gpus, pools, Within.POOL)
        held = self.counts.place(gpus, pools, Within.POOL, avoid=spare)
        if held is not None or not spare or gpus > max(self.counts.unit):
            return held
        free = self.counts.free
        fitting = [
            (min(free[row], left), row)
            for row, left in spare.items()
            if min(free[row], left) >= gpus and pools >> self.counts.nodes.pool[row] & 1
        ]
        return ((min(fitting)[1], gpus),) if fitting else None

    def _reservation(self, now: int) -> tuple[int, dict[int, int]]:
        """Return when the first job's devices are believed free, and what is left beside it on
        each of them then."""
        if self._booked is None:
            gpus, pools, _ = self._facts[self.queue[0][1]]
            self._booked = self._earliest(now, gpus, pools)
        return self._booked

    def _earliest(self, now: int, gpus: int, pools: int) -> tuple[int, dict[int, int]]:
        counts, column = self.counts, self.counts.nodes.pool
        free = list(counts.free)
        unit = counts.unit
        full = [len(lists[-1]) for lists in counts.by_free]
        for until, job in self._by_limit:
            for row, count in self._held[job]:
                pool = column[row]
                free[row] += count
                size = unit[pool]
                if not pools >> pool & 1:
                    continue
                if gpus <= size:
                    if free[row] >= gpus:
                        return max(until, now + OVERDUE_S), {row: free[row] - gpus}
                    continue
                if free[row] == size:
                    full[pool] += 1
                whole, rest = divmod(gpus, size)
                if full[pool] >= whole:
                    spare = self._reserved(free, pool, whole, rest)
                    if spare is not None:
                        return max(until, now + OVERDUE_S), spare
        return FAR, {}

    def _reserved(self, free: list[int], pool: int, whole: int, rest: int) -> dict[int, int] | None:
        size = self.counts.unit[pool]
        column = self.counts.nodes.pool
        spare: dict[int, int] = {}
        row = -1
        while len(spare) < whole:  # there are as many, and ``index`` finds them without a loop here
            row = free.index(size, row + 1)
            if column[row] == pool:
                spare[row] = 0
        if rest:
            parts = [
                (count, row)
                for row, count in enumerate(free)
                if count >= rest and column[row] == pool and row not in spare
            ]
            if not parts:
                return None
            count, row = min(parts)
            spare[row] = count - rest
        return spare


def pairs(flat: tuple[int, ...]) -> Held:
    """Return (row, count) pairs of a flat tuple."""
    return tuple(zip(flat[::2], flat[1::2], strict=True))
