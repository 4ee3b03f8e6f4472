"""Lower bounds on the mean completion time: what no scheduler can beat.

Rigid gangs on ``C`` GPUs, no fragmentation, free and instant preemption and migration: all of them
relaxations, so the truth lies above.  The bound is the greatest of

* the mean duration;
* SRPT on one machine of speed C, every job a fluid of ``g d`` GPU-seconds (exact for that machine);
* the mean-busy-time LP (Goemans 1996): ``C_j >= M_j + d_j / 2``, M_j the mean instant a job is
  worked on; on the fluid machine the least sum of M_j works on the smallest ``g d`` there is;
* the Lagrangian of the same LP with every job at most at its own speed: see ``dual``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TypeAlias

from reconciler.simulate.asks import Ask
from reconciler.simulate.dual import best_dual

Slice: TypeAlias = tuple[float, float, int]
"""(began, ended, job) on the fluid machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Lower bounds on the mean of end - submission, in seconds."""

    duration_s: float
    srpt_s: float
    busy_time_s: float
    lagrangian_s: float

    @property
    def best_s(self) -> float:
        """The greatest."""
        return max(self.duration_s, self.srpt_s, self.busy_time_s, self.lagrangian_s)


def bound(jobs: Sequence[Ask], gpus: int, *, steps: int = 16) -> Bound:
    """Return lower bounds for ``jobs`` on ``gpus`` GPUs; ``steps`` of improving the prices."""
    work = [job.gpus * job.duration_s / gpus for job in jobs]
    by_smallest = _fluid(jobs, work, lambda job, _: work[job])
    busy = _busy_time(jobs, work, by_smallest)
    return Bound(
        duration_s=sum(job.duration_s for job in jobs) / len(jobs),
        srpt_s=_completion(jobs, _fluid(jobs, work, lambda _, left: left)),
        busy_time_s=busy,
        lagrangian_s=best_dual(jobs, gpus, _prices(jobs, by_smallest), steps=steps),
    )


def _fluid(
    jobs: Sequence[Ask], work: Sequence[float], key: Callable[[int, float], float]
) -> list[Slice]:
    """Return what a machine that always works on the job of the smallest key does.

    ``key`` is asked again only when a job is put aside for a new one.
    """
    left = list(work)
    order = sorted(range(len(jobs)), key=lambda job: (jobs[job].submit_s, job))
    heap: list[tuple[float, int]] = []
    slices: list[Slice] = []
    now, at = 0.0, 0
    while heap or at < len(order):
        if not heap:
            now = max(now, float(jobs[order[at]].submit_s))
        while at < len(order) and jobs[order[at]].submit_s <= now:
            heappush(heap, (key(order[at], left[order[at]]), order[at]))
            at += 1
        _, job = heappop(heap)
        following = float(jobs[order[at]].submit_s) if at < len(order) else float("inf")
        ends = now + left[job]
        if ends <= following:
            slices.append((now, ends, job))
            left[job], now = 0.0, ends
        else:
            slices.append((now, following, job))
            left[job] -= following - now
            now = following
            heappush(heap, (key(job, left[job]), job))
    return slices


def _completion(jobs: Sequence[Ask], slices: Sequence[Slice]) -> float:
    last = {job: ended for _, ended, job in slices}
    return sum(last[number] - job.submit_s for number, job in enumerate(jobs)) / len(jobs)


def _busy_time(jobs: Sequence[Ask], work: Sequence[float], slices: Sequence[Slice]) -> float:
    total = sum((ended - began) * (began + ended) / 2 / work[job] for began, ended, job in slices)
    total += sum(job.duration_s / 2 - job.submit_s for job in jobs)
    return total / len(jobs)


def _prices(jobs: Sequence[Ask], slices: Sequence[Slice]) -> list[tuple[float, float]]:
    """Return (instant, price of a GPU-second) points, linear in between: the LP's own dual.

    While the machine works on a job the price falls by the job's density, 1 / (g d).  It goes on
    falling from there when the job is done, and is 0 where the machine falls idle; where a job is
    put aside for a smaller one it jumps up, and is back on its line when the machine comes back.
    """
    points: list[tuple[float, float]] = []
    lines: dict[int, float] = {}
    following, price = float("inf"), 0.0
    for began, ended, job in reversed(slices):
        density = 1 / (jobs[job].gpus * jobs[job].duration_s)
        if ended < following:
            points.append((following, 0.0))
            price = 0.0
        line = lines.setdefault(job, price + ended * density)
        price = line - began * density
        points += [(ended, line - ended * density), (began, price)]
        following = began
    points.reverse()
    return points[:-1] if points and points[-1][0] == float("inf") else points
