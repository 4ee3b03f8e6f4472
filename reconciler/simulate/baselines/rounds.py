"""Preemptive policies that decide in rounds: 2D-LAS and SRTF.

At every tick all jobs, running and waiting, are ordered anew and the cluster is filled in that
order: who runs and still fits stays where it is; who is new takes what is idle, or, in its turn,
the nodes of jobs behind it, which move where they can; what is left over goes to whoever fits.  In
between, only the end of a job lets somebody start.

* 2D-LAS (Tiresias, NSDI'19): least attained GPU-hours first, in three classes split at 4 and 64
  GPU-hours, order of arrival within one.  Needs no estimate.
* SRTF: least remaining time first.  An oracle: it knows every duration.
"""

# ruff: noqa: ARG002  the methods have the signatures of ``counted.Policy``

from reconciler.simulate.counted import CountedFleet
from reconciler.simulate.nodes import Place

LAS_GPU_S = (4 * 3600, 64 * 3600)


class Rounds:
    """A strict order, kept by stopping and moving.  ``key`` says which."""

    def __init__(self, tick_s: int = 300) -> None:
        self.tick_s: int | None = tick_s
        self._waiting: dict[int, None] = {}
        self._may_fill = False
        self._head: int | None = None

    def key(self, fleet: CountedFleet, job: int) -> tuple[float, int]:
        """Return what orders ``job``, the least first."""
        raise TypeError(f"{type(self).__name__} has no order of its own")

    def arrived(self, fleet: CountedFleet, job: int) -> None:
        """Wait for the next round, or for somebody's end."""
        self._waiting[job] = None

    def ended(self, fleet: CountedFleet, job: int) -> None:
        """What it held may be taken."""
        self._may_fill = True

    def returned(self, fleet: CountedFleet, job: int) -> None:
        """Wait again: its node died."""
        self._waiting[job] = None

    def repaired(self, fleet: CountedFleet) -> None:
        """What the node has may be taken."""
        self._may_fill = True

    def head(self, fleet: CountedFleet) -> int | None:
        """Return who is first among those who wait."""
        if self._head not in self._waiting:
            self._head = min(self._waiting, key=lambda job: self.key(fleet, job), default=None)
        return self._head

    def decide(self, fleet: CountedFleet) -> None:
        """Hold a round at a tick; between ticks fill what an end freed."""
        if fleet.is_tick:
            self._round(fleet)
        elif self._may_fill and self._waiting:
            self._fill(fleet)
        self._may_fill = False

    def _start(self, fleet: CountedFleet, job: int, place: Place) -> None:
        fleet.start(job, place)
        del self._waiting[job]

    def _fill(self, fleet: CountedFleet) -> None:
        useless: set[int] = set()
        for job in sorted(self._waiting, key=lambda job: self.key(fleet, job)):
            gpus = fleet.jobs[job].gpus
            if gpus in useless:
                continue
            place = fleet.nodes.find(gpus)
            if place is None:
                useless.add(gpus)
            else:
                self._start(fleet, job, place)

    def _round(self, fleet: CountedFleet) -> None:
        order = sorted(
            (*self._waiting, *fleet.running),
            key=lambda job: (self._may_be_stopped(fleet, job), self.key(fleet, job)),
        )
        kept, placed = _filled(fleet, order)
        for job in [job for job in fleet.running if job not in kept]:
            fleet.stop(job)
            self._waiting[job] = None
            if job in placed:
                fleet.courses[job].migrations += 1
        for job, place in placed.items():
            self._start(fleet, job, place)

    def _may_be_stopped(self, fleet: CountedFleet, job: int) -> bool:
        """False for a run that must not be stopped: it keeps its place before all others."""
        return fleet.jobs[job].preemptible or job in self._waiting


def _filled(fleet: CountedFleet, order: list[int]) -> tuple[set[int], dict[int, Place]]:
    """Return which running jobs stay, and where the others of this round go."""
    per_node = fleet.nodes.per_node
    is_open = [node not in fleet.nodes.closed for node in range(fleet.nodes.count)]
    beside = [per_node if usable else 0 for usable in is_open]
    """Free beside what this round has placed so far."""
    idle = [free if ok else 0 for free, ok in zip(fleet.nodes.free, is_open, strict=True)]
    """Free beside that and those who run and will be kept, as far as is known."""
    left = sum(beside)
    first, rest = _by_count(fleet, order, left)
    for job in rest:
        for node, gpus in fleet.courses[job].place or ():
            idle[node] += gpus
    kept: set[int] = set()
    placed: dict[int, Place] = {}
    sure = set(first)
    for job in (*first, *rest):
        if left <= 0:
            break
        gpus, place = fleet.jobs[job].gpus, fleet.courses[job].place
        if place is not None:
            if gpus <= left and all(beside[node] >= count for node, count in place):
                _take(beside, place)
                if job not in sure:
                    _take(idle, place)
                kept.add(job)
                left -= gpus
                continue
            if job in sure:
                for node, count in place:
                    idle[node] += count
        if gpus > left:
            continue
        found = best_fit(gpus, idle, per_node) or best_fit(gpus, beside, per_node)
        if found is not None:
            _take(beside, found)
            _take(idle, found)
            placed[job] = found
            left -= gpus
    return kept, placed


def _by_count(fleet: CountedFleet, order: list[int], gpus: int) -> tuple[list[int], list[int]]:
    """Return who would run if only the number of GPUs mattered, and everybody else."""
    first, rest = [], []
    for job in order:
        if fleet.jobs[job].gpus <= gpus:
            first.append(job)
            gpus -= fleet.jobs[job].gpus
        else:
            rest.append(job)
    return first, rest


def _take(free: list[int], place: Place) -> None:
    for node, gpus in place:
        free[node] -= gpus


def best_fit(gpus: int, free: list[int], per_node: int) -> Place | None:
    """Return whole nodes, lowest first, and the fullest node that holds the remainder."""
    whole, rest = divmod(gpus, per_node)
    place: list[tuple[int, int]] = []
    if whole:
        place = [(node, per_node) for node, room in enumerate(free) if room == per_node][:whole]
        if len(place) < whole:
            return None
    if rest:
        taken = {node for node, _ in place}
        fits = [(room, node) for node, room in enumerate(free) if room >= rest]
        fits = [pair for pair in fits if pair[1] not in taken]
        if not fits:
            return None
        place.append((min(fits)[1], rest))
    return tuple(place)


class Las(Rounds):
    """Least attained service first, in three classes."""

    def key(self, fleet: CountedFleet, job: int) -> tuple[float, int]:
        """Return the class of the GPU-time served so far, and the order of arrival."""
        served = fleet.attained_s(job) * fleet.jobs[job].gpus
        return (sum(served >= bound for bound in LAS_GPU_S), job)


class Srtf(Rounds):
    """Shortest remaining time first."""

    def key(self, fleet: CountedFleet, job: int) -> tuple[float, int]:
        """Return the true remaining time, and the order of arrival."""
        return (fleet.remaining_s(job), job)
