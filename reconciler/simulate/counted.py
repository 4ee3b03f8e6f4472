"""A fleet on virtual time over node counts, for the policies headway is compared with.

Events are arrivals, ends, ticks, nodes that die and come back.  After all events of an instant the
policy decides once.  A run is a function of time: when it began, how much of it is restart without
progress, how fast it goes; nothing ticks in between.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

from reconciler.simulate.asks import Ask
from reconciler.simulate.calendar import Booked
from reconciler.simulate.chance import uniform
from reconciler.simulate.costs import HARD_KILL_LOSS_S, Costs
from reconciler.simulate.failures import Failure
from reconciler.simulate.nodes import Nodes, Place
from reconciler.simulate.outcome import Integrals, JobOutcome, Played, Stay

END, REPAIR, GIVE_BACK, FAIL, KEEP, ARRIVE, TICK = range(7)


class Policy(Protocol):
    """Decides what starts and stops, by calling ``start`` and ``stop`` of the fleet."""

    tick_s: int | None
    """It also wants to decide at every multiple of this many seconds while anybody is there."""

    def arrived(self, fleet: "CountedFleet", job: int) -> None:
        """Learn of a job that was submitted now."""
        ...

    def ended(self, fleet: "CountedFleet", job: int) -> None:
        """Learn of a job that ended now."""
        ...

    def returned(self, fleet: "CountedFleet", job: int) -> None:
        """Learn of a job that waits again because a node of it died now."""
        ...

    def repaired(self, fleet: "CountedFleet") -> None:
        """Learn that a node is back."""
        ...

    def decide(self, fleet: "CountedFleet") -> None:
        """Start and stop what should be, now that all events of this instant happened."""
        ...

    def head(self, fleet: "CountedFleet") -> int | None:
        """Return the waiting job that is next, if one waits."""
        ...


@dataclass(slots=True)
class Course:
    """How one job fares.  Index-free: the fleet keeps one for each ask."""

    left_s: float
    """Work left, in seconds at the requested size."""
    place: Place | None = None
    began_at: float = 0.0
    restoring_s: int = 0
    slowdown: float = 1.0
    ends_at: float = 0.0
    version: int = 0
    first_start_s: float | None = None
    last_start_s: float = 0.0
    ended_s: float | None = None
    starts: int = 0
    preemptions: int = 0
    migrations: int = 0
    lost: int = 0
    held_gpu_s: float = 0.0
    """GPU-seconds held, restarts and slowdowns included."""
    overhead_gpu_s: float = 0.0
    """GPU-seconds held without progress: saving, restoring, work lost."""


@dataclass(slots=True)
class Tally:
    """Integrals over time, as they grow."""

    queued_s: float = 0.0
    idle_gpu_s: float = 0.0
    stuck_s: float = 0.0
    stays: list[Stay] = field(default_factory=list)


class CountedFleet:
    """Jobs, nodes and a clock; ``run`` plays a policy to the end."""

    def __init__(
        self,
        jobs: Sequence[Ask],
        *,
        nodes: int,
        gpus_per_node: int,
        costs: Costs,
        tor_size: int | None = None,
        failures: Sequence[Failure] = (),
        reservations: Sequence[Booked] = (),
        seed: int = 1,
    ) -> None:
        self.jobs = jobs
        self._failures = failures
        self._reservations = reservations
        self._kept: dict[int, tuple[int, ...]] = {}
        self._seed = seed
        self._unended = len(jobs)
        self.costs = costs
        self.nodes = Nodes(nodes, gpus_per_node, tor_size)
        self.gpus = nodes * gpus_per_node
        self.now: float = 0
        self.courses = [Course(left_s=job.duration_s) for job in jobs]
        self.running: dict[int, None] = {}
        """Jobs that hold GPUs, in the order they started."""
        self.waiting = 0
        self.is_tick = False
        """Whether this instant is one of the policy's ticks."""
        self.tally = Tally()
        self.decisions = 0
        self._ready: dict[int, float] = {}
        """When a node's last victim has saved."""
        self._events: list[tuple[float, int, int, int, int]] = []
        self._order = count()

    # What a policy may do and ask

    def start(self, job: int, place: Place) -> None:
        """Start ``job`` on ``place``; it begins once what was stopped there has saved."""
        course = self.courses[job]
        self.nodes.take(place)
        began = self.now
        for node, _ in place:
            began = max(began, self._ready.get(node, 0))
        course.place = place
        course.restoring_s = self.costs.restore(len(place)) if course.starts else 0
        course.slowdown = self.nodes.slowdown(place)
        course.began_at = began
        course.ends_at = began + course.restoring_s + course.left_s * course.slowdown
        course.starts += 1
        course.last_start_s = self.now
        if course.first_start_s is None:
            course.first_start_s = began
        course.version += 1
        self.running[job] = None
        self.waiting -= 1
        self._plan(course.ends_at, END, job, course.version)

    def stop(self, job: int) -> Place:
        """Stop ``job`` with a checkpoint and return what it frees; its GPUs are busy saving."""
        course = self.courses[job]
        place = course.place
        assert place is not None  # only what runs is stopped
        save = self.costs.save(len(place))
        if save:
            for node, _ in place:
                self._ready[node] = max(self._ready.get(node, 0), self.now + save)
        self._leave(job, self.now, save)
        course.preemptions += 1
        return place

    def attained_s(self, job: int) -> float:
        """Return the work done by now, in seconds at the requested size."""
        course = self.courses[job]
        return self.jobs[job].duration_s - course.left_s + self._progress(course, self.now)

    def remaining_s(self, job: int) -> float:
        """Return the work left now.  An oracle: only ``srtf`` may ask."""
        return self.jobs[job].duration_s - self.attained_s(job)

    # The run

    def run(self, policy: Policy) -> None:
        """Play ``policy`` until every job has ended."""
        self._plan_all()
        ticking = False
        while self._events and self._unended:
            now = self._events[0][0]
            self._account(now, policy)
            self.now = now
            self.is_tick = False
            while self._events and self._events[0][0] == now:
                _, kind, _, number, version = heappop(self._events)
                if kind == TICK:
                    self.is_tick, ticking = True, False
                else:
                    self._happen(kind, number, version, policy)
            if policy.tick_s is not None and not ticking and (self.waiting or self.running):
                self._plan((now // policy.tick_s + 1) * policy.tick_s, TICK, 0, 0)
                ticking = True
            self.decisions += 1
            policy.decide(self)

    def _plan_all(self) -> None:
        """Plan everything that is known beforehand."""
        for job, ask in enumerate(self.jobs):
            self._plan(ask.submit_s, ARRIVE, job, 0)
        for each in self._failures:
            self._plan(each.at_s, FAIL, each.node, 0)
            self._plan(each.repaired_s, REPAIR, each.node, 0)
        for number, held in enumerate(self._reservations):
            self._plan(held.start_s, KEEP, number, 0)
            self._plan(held.end_s, GIVE_BACK, number, 0)

    def _happen(self, kind: int, number: int, version: int, policy: Policy) -> None:
        if kind == ARRIVE:
            self.waiting += 1
            policy.arrived(self, number)
        elif kind == END:
            if self.courses[number].version == version:
                self._end(number)
                policy.ended(self, number)
        elif kind == FAIL:
            self._fail(number, policy)
        elif kind == KEEP:
            self._keep(number, policy)
        else:
            for node in (number,) if kind == REPAIR else self._kept.pop(number, ()):
                self.nodes.open(node)
            policy.repaired(self)

    def _plan(self, at: float, kind: int, job: int, version: int) -> None:
        heappush(self._events, (at, kind, next(self._order), job, version))

    def _account(self, now: float, policy: Policy) -> None:
        span = now - self.now
        if not self.waiting or span <= 0:
            return
        self.tally.queued_s += span
        self.tally.idle_gpu_s += span * self.nodes.free_gpus
        head = policy.head(self)
        if head is None:
            return
        gpus = self.jobs[head].gpus
        if gpus <= self.nodes.free_gpus and self.nodes.find(gpus) is None:
            self.tally.stuck_s += span

    def _progress(self, course: Course, now: float) -> float:
        if course.place is None:
            return 0.0
        ran = now - course.began_at - course.restoring_s
        return min(max(ran, 0) / course.slowdown, course.left_s)

    def _end(self, job: int) -> None:
        course = self.courses[job]
        self._leave(job, self.now, 0)
        self.waiting -= 1
        course.left_s = 0
        course.ended_s = self.now
        self._unended -= 1

    def _fail(self, node: int, policy: Policy) -> None:
        """Let a node die: what runs on it goes back to a checkpoint of up to half an hour ago."""
        self.nodes.close(node)
        for job in [job for job in self.running if self._is_on(job, node)]:
            course = self.courses[job]
            share = uniform(self._seed, f"lost {course.starts}", self.jobs[job].id)
            self._leave(job, self.now, 0, lost_s=HARD_KILL_LOSS_S * share)
            course.lost += 1
            policy.returned(self, job)

    def _keep(self, number: int, policy: Policy) -> None:
        """Take nodes out for a reservation, by decree: whoever runs there saves and comes back."""
        usable = [n for n in range(self.nodes.count) if n not in self.nodes.closed]
        usable.sort(key=lambda node: (-self.nodes.free[node], node))
        self._kept[number] = tuple(usable[: self._reservations[number].nodes])
        for node in self._kept[number]:
            self.nodes.close(node)
            for job in [job for job in self.running if self._is_on(job, node)]:
                place = self.courses[job].place or ()
                self._leave(job, self.now, self.costs.save(len(place)))
                self.courses[job].preemptions += 1
                policy.returned(self, job)

    def _is_on(self, job: int, node: int) -> bool:
        return any(each == node for each, _ in self.courses[job].place or ())

    def _leave(self, job: int, now: float, save_s: int, lost_s: float = 0.0) -> None:
        course = self.courses[job]
        place = course.place
        assert place is not None  # only what runs leaves
        gpus = self.jobs[job].gpus
        left_at = max(now, course.began_at) + save_s
        done = max(self._progress(course, now) - lost_s, 0.0)
        held = left_at - course.began_at
        course.left_s -= done
        course.held_gpu_s += held * gpus
        course.overhead_gpu_s += (held - done * course.slowdown) * gpus
        self.tally.stays.append(
            Stay(job=job, gpus=gpus, began_s=course.began_at, ended_s=left_at, nodes=place)
        )
        course.place = None
        course.version += 1
        self.nodes.give(place)
        del self.running[job]
        self.waiting += 1

    def played(self, policy: str, cpu_s: float) -> Played:
        """Return what was measured, once every job has ended."""
        return Played(
            policy=policy,
            gpus=self.gpus,
            nodes=self.nodes.count,
            outcomes=tuple(
                JobOutcome(
                    ask=ask,
                    first_start_s=course.first_start_s or 0.0,
                    ended_s=course.ended_s or 0.0,
                    preemptions=course.preemptions - course.migrations,
                    migrations=course.migrations,
                    lost=course.lost,
                    overhead_gpu_s=course.overhead_gpu_s,
                )
                for ask, course in zip(self.jobs, self.courses, strict=True)
            ),
            stays=tuple(self.tally.stays),
            integrals=Integrals(
                queued_s=self.tally.queued_s,
                idle_gpu_s=self.tally.idle_gpu_s,
                stuck_s=self.tally.stuck_s,
            ),
            decisions=self.decisions,
            cpu_s=cpu_s,
            node_failures=sum(each.at_s <= self.now for each in self._failures),
        )
