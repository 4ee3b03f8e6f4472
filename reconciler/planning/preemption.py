"""Who is asked to leave so that a more urgent job runs, at the least cost, if at all.

A victim costs (work since its last durable checkpoint + restart) x GPUs.  The cheapest set that
makes the preemptor fit is chosen, and only if the preemptor then runs: on these devices, within
its quota, delaying nobody ranked above it.  If enough comes free by itself within the time the
victims would need to leave and restart, nobody is stopped.

No loops, provably.  A victim's class is strictly lower than its preemptor's, whatever the policy
lists.  Without new jobs or edits the number of preemptions is therefore finite, by induction over
classes: jobs of the highest class are never victims, so each has only finitely many attempts
(ended by success, by failures, which are bounded by ``max_tries``, or by losses, bounded by
``max_lost``), and a job asks for victims at most once an attempt, since the hold it gets covers
its whole gang and nobody else may take it.  A class below is stopped only by those finitely many
askings, so its attempts are finite too.  ``max_per_job`` bounds it a second time.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from reconciler.domain.job import PriorityClass, TopologyDomain
from reconciler.domain.policy import PreemptionPolicy
from reconciler.domain.units import Instant, JobId, Seconds
from reconciler.planning.board import Board, Contender, Holder
from reconciler.planning.placement import fits, place
from reconciler.planning.topology import Layout

EXACT_UP_TO = 10
"""With more candidates than this in one domain, the cheapest set is found greedily."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """The victims of one preemptor and the devices then kept for it."""

    victims: tuple[Holder, ...]
    devices: int
    gone_at: Instant
    """When the last victim is expected to have left."""


def may_preempt(victim: PriorityClass, preemptor: PriorityClass, policy: PreemptionPolicy) -> bool:
    """True if the policy lets one class stop the other; never for an equal or higher class."""
    return victim > preemptor and victim in policy.victims_of.get(preemptor, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What victims are chosen on: who else is there, and what quotas allow."""

    now: Instant
    where: Layout
    free: Callable[[Container[JobId], Instant], int]
    """Devices free from now to an instant, those of the named jobs counted as free."""
    allowed: Callable[[Container[JobId], Instant], int]
    """Devices within the contender's quota until an instant, once the named jobs have left."""


def ground_of(board: Board, contender: Contender) -> Ground:
    """Return a board as ground for one contender."""

    def free(names: Container[JobId], end: Instant) -> int:
        blocked = 0
        for booking in board.bookings:
            if booking.job not in names and booking.start < end:
                blocked |= booking.devices
        return board.where.ready & ~blocked & ~board.closed_to(contender, board.now)

    def allowed(names: Container[JobId], end: Instant) -> int:
        team, gpus = contender.spec.team, contender.shape.count
        return board.use.allowed(team, gpus, board.now, end, without=names)

    return Ground(now=board.now, where=board.where, free=free, allowed=allowed)


def choose_victims(
    contender: Contender,
    otherwise: Instant | None,
    *,
    ground: Ground,
    holders: Iterable[Holder],
    policy: PreemptionPolicy,
) -> Preemption | None:
    """Return the cheapest preemption that lets the contender run, or None if there is none.

    ``holders`` are those it may stop.  ``otherwise`` is when the contender would start without a
    preemption.
    """
    allowed = list(holders)
    if not allowed:
        return None
    search = _Search(contender, ground, allowed)
    victims = search.cheapest()
    if victims is None:
        return None
    patience_s = max(v.attempt.grace_s for v in victims) + policy.restart_s
    if otherwise is not None and otherwise - ground.now <= patience_s:
        return None
    devices = search.place_with(victims)
    assert devices is not None  # the search returned a set that fits
    return Preemption(
        victims=tuple(sorted(victims, key=lambda holder: holder.job)),
        devices=devices,
        gone_at=Instant(ground.now + max(_leaves_in(victim) for victim in victims)),
    )


def may_serve(holder: Holder, contender: Contender, policy: PreemptionPolicy) -> bool:
    """True if the contender may stop the holder: by class, and ranked above it."""
    victim = holder.victim
    return (
        victim is not None
        and may_preempt(victim.spec.priority, contender.spec.priority, policy)
        and victim.key > contender.key
    )


def _leaves_in(holder: Holder) -> Seconds:
    return Seconds(0) if holder.victim is None else holder.victim.leaves_in_s


def _cost(victims: Iterable[Holder]) -> int:
    return sum(holder.victim.cost for holder in victims if holder.victim is not None)


class _Search:
    """The sets of candidates that would make room for one contender."""

    def __init__(self, contender: Contender, ground: Ground, candidates: Sequence[Holder]) -> None:
        self._contender = contender
        self._ground = ground
        wanted = 0
        for _, fitting in contender.shape.per_type:
            wanted |= fitting
        self._candidates = [
            holder
            for holder in sorted(candidates, key=lambda holder: holder.job)
            if holder.devices & wanted & ground.where.ready or holder.team == contender.spec.team
        ]
        longest = max((_leaves_in(holder) for holder in candidates), default=0)
        self._end = Instant(ground.now + longest + contender.left.p50)
        self._open = ground.free({holder.job for holder in candidates}, self._end)

    def cheapest(self) -> tuple[Holder, ...] | None:
        """Return the cheapest set of candidates after whose leaving the contender fits."""
        if not self.place_with(tuple(self._candidates)):
            return None
        if len(self._candidates) <= EXACT_UP_TO:
            return self._exact(self._candidates)
        if self._contender.shape.within in (TopologyDomain.NVLINK, TopologyDomain.NODE):
            return self._node_by_node() or self._greedy(self._candidates)
        return self._greedy(self._candidates)

    def place_with(self, leaving: tuple[Holder, ...]) -> int | None:
        """Return the contender's devices once ``leaving`` have left, or None."""
        names = {holder.job for holder in leaving}
        free = self._open
        for holder in self._candidates:
            if holder.job not in names:
                free &= ~holder.devices
        if not fits(self._contender.shape, free, self._ground.where):
            return None
        free &= self._ground.allowed(names, self._end)
        return place(self._contender.shape, free, self._ground.where)

    def _exact(self, candidates: Sequence[Holder]) -> tuple[Holder, ...] | None:
        sets = (
            chosen
            for size in range(1, len(candidates) + 1)
            for chosen in combinations(candidates, size)
        )
        for chosen in sorted(sets, key=_set_key):
            if self.place_with(chosen):
                return chosen
        return None

    def _node_by_node(self) -> tuple[Holder, ...] | None:
        """Return the cheapest set over all nodes; a node that cannot be cheaper is not searched."""
        best: tuple[Holder, ...] | None = None
        for least, _, here in sorted(self._by_node(), key=lambda found: found[:2]):
            if best is not None and least > _cost(best):
                break
            found = self._exact(here) if len(here) <= EXACT_UP_TO else self._greedy(here)
            if found is not None and (best is None or _set_key(found) < _set_key(best)):
                best = found
        return best

    def _by_node(self) -> Iterator[tuple[float, int, list[Holder]]]:
        """Yield (least that making room can cost, position, candidates) of each node."""
        free = self._open
        for holder in self._candidates:
            free &= ~holder.devices
        for position, node in enumerate(self._ground.where.nodes):
            here = [holder for holder in self._candidates if holder.devices & node.all]
            missing = self._contender.shape.count - (free & node.all).bit_count()
            prices = sorted(
                (_cost([holder]) / gpus, gpus)
                for holder in here
                if (gpus := (holder.devices & node.all).bit_count())
            )
            least = 0.0
            for price, gpus in prices:
                if missing <= 0:
                    break
                least += price * min(gpus, missing)
                missing -= gpus
            if here and missing <= 0:
                yield least, position, here

    def _greedy(self, candidates: Sequence[Holder]) -> tuple[Holder, ...] | None:
        """Add the cheapest per GPU until the contender fits, then drop whoever is not needed."""
        by_price = sorted(candidates, key=lambda h: (_cost([h]) / h.devices.bit_count(), h.job))
        chosen: list[Holder] = []
        for holder in by_price:
            chosen.append(holder)
            if self.place_with(tuple(chosen)):
                break
        else:
            return None
        for holder in sorted(chosen, key=lambda h: (-_cost([h]), h.job)):
            fewer = tuple(other for other in chosen if other is not holder)
            if fewer and self.place_with(fewer):
                chosen = list(fewer)
        return tuple(chosen)


def _set_key(victims: Sequence[Holder]) -> tuple[int, int, tuple[JobId, ...]]:
    return (_cost(victims), len(victims), tuple(holder.job for holder in victims))
