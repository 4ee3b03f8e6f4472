"""Who is on reserved devices, and who of them is asked to leave so that a window opens in time.

Preemptible work is asked so early that even one that takes all of its grace is gone at the start.
Work that cannot checkpoint is never asked: windows are booked, or moved, to where it is gone by
its bound.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.domain.attempt import Attempt, AttemptPhase
from reconciler.domain.plan import Decision, Verb
from reconciler.domain.reason import Reason
from reconciler.domain.reservation import Reservation
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import Instant, JobId, NodeName, Seconds, TeamName
from reconciler.planning.contenders import Wishes
from reconciler.planning.eligibility import Bar
from reconciler.planning.feasible import Obstacle
from reconciler.planning.placement import fits
from reconciler.planning.remaining import Span
from reconciler.planning.shapes import Shapes
from reconciler.planning.standing import Standing
from reconciler.planning.topology import bits_of
from reconciler.planning.windows import MARGIN_S, Window, asked_before_s, bound_s

MOST_NAMED = 3
_SOON_S = 86_400
"""Windows further ahead ask nobody to leave yet; no grace is longer than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupant:
    """One live attempt, on these devices."""

    job: JobId
    attempt: Attempt
    devices: int
    gone_at: Instant
    """When it has left at the latest: asked now if it can checkpoint, else by its bound."""
    expected_gone: Instant
    stays: bool
    """True while nothing asks it to leave."""
    stake_s: int
    """Work since its last checkpoint, in seconds."""

    @property
    def may_be_asked(self) -> bool:
        """True for work that can checkpoint and was not asked yet."""
        return self.stays and self.attempt.preemptible


def some(names: Sequence[str]) -> str:
    """Return the first few of some names, and how many more there are."""
    more = f" (+{len(names) - MOST_NAMED} more)" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


class Occupants:
    """The live attempts of one snapshot, found by device; nothing is made before it is asked."""

    def __init__(
        self,
        snapshot: Snapshot,
        shapes: Shapes,
        live: Mapping[JobId, Standing],
        settled: Mapping[JobId, Decision],
    ) -> None:
        self._snapshot = snapshot
        self._where = shapes.where
        self._wishes = Wishes(snapshot, shapes)
        self._live = live
        self._settled = settled
        self._by_node: dict[NodeName, list[JobId]] | None = None
        self._known: dict[JobId, Occupant] = {}

    def on(self, devices: int) -> list[Occupant]:
        """Return who is on any of these devices, sorted by job."""
        if self._by_node is None:
            self._by_node = {}
            for job, standing in self._live.items():
                if standing.live is not None:
                    for share in standing.live.allocation.shares:
                        self._by_node.setdefault(share.node, []).append(job)
        near = {
            job
            for node in self._where.nodes
            if node.all & devices
            for job in self._by_node.get(node.name, ())
        }
        found = (self._occupant(job) for job in sorted(near))
        return [each for each in found if each.devices & devices]

    def strangers(self, window: Window) -> list[Occupant]:
        """Return who is on a window's devices and is not admitted to it."""
        return [each for each in self.on(window.devices) if not window.admits(each.job)]

    def is_clear(self, window: Window) -> bool:
        """True if only jobs that the window admits are on its devices."""
        return not self.strangers(window)

    def can_clear(self, window: Window, *, ready: int) -> bool:
        """True if the window's devices are on ready nodes and free of strangers at its start."""
        return not window.devices & ~ready and not any(self._stay(window))

    def in_the_way(self, window: Window, *, ready: int) -> str:
        """Return in words what keeps a window's devices from being clear in time."""
        lost = window.devices & ~ready
        nodes = [node.name for node in self._where.nodes if node.all & lost]
        jobs = [each.job for each in self._stay(window)]
        parts = []
        if nodes:
            parts.append(f"not ready: {some(nodes)}")
        if jobs:
            parts.append(f"cannot leave in time: {some(jobs)}")
        return f"{'; '.join(parts)}; no other GPUs are free for it"

    def _stay(self, window: Window) -> Iterator[Occupant]:
        """Yield the strangers that may still be there at a window's start."""
        for each in self.strangers(window):
            if not each.may_be_asked and each.stays and each.gone_at > window.start:
                yield each

    def obstacles(self, held: Reservation) -> list[Obstacle]:
        """Return what everybody holds, but for the jobs a reservation names."""
        everyone = (self._occupant(job) for job in self._live if job not in held.for_jobs)
        return [
            Obstacle(
                team=TeamName(each.job.split("/")[0]),
                devices=each.devices,
                gone_at=each.gone_at,
                expected_gone=each.expected_gone,
            )
            for each in everyone
        ] + self._kept_for_preemptors()

    def _kept_for_preemptors(self) -> list[Obstacle]:
        """Return the devices that victims are leaving, for as long as the preemptor may run."""
        now, found = self._snapshot.now, []
        for job, status in self._snapshot.statuses.items():
            wanted = self._snapshot.desired.jobs.get(job)
            if not status.holds or wanted is None or wanted.spec is None:
                continue
            spec = wanted.spec
            p50 = spec.estimate_s or self._snapshot.policy.default_duration_s
            left_s = bound_s(spec, Span(p50=p50, p90=p50), ran_s=status.ran_s)
            if spec.preemptible:
                left_s = asked_before_s(spec.grace_s, self._snapshot.policy)
            found.append(
                Obstacle(
                    team=spec.team,
                    devices=bits_of(status.holds[0].devices, self._where),
                    gone_at=Instant(now + left_s),
                    expected_gone=Instant(now + p50),
                )
            )
        return found

    def _occupant(self, job: JobId) -> Occupant:
        if job not in self._known:
            self._known[job] = self._made(self._live[job])
        return self._known[job]

    def _made(self, standing: Standing) -> Occupant:
        attempt, now, policy = standing.live, self._snapshot.now, self._snapshot.policy
        assert attempt is not None  # only live standings are asked for
        decision = self._settled[standing.id]
        holder = self._wishes.holder(standing, decision)
        stays = decision.verb is Verb.KEEP and attempt.phase is not AttemptPhase.STOPPING
        ran_s = attempt.running_s(now) + (standing.status.ran_s if standing.status else 0)
        if not stays:
            asked_at = now if attempt.stop_asked_at is None else attempt.stop_asked_at
            gone_at = max(asked_at + attempt.grace_s + MARGIN_S, now + 1)
        elif attempt.preemptible:
            gone_at = now + asked_before_s(attempt.grace_s, policy)
        else:
            left = Span(p50=Seconds(holder.until.p50 - now), p90=Seconds(holder.until.p90 - now))
            gone_at = now + bound_s(standing.spec, left, ran_s=ran_s)
        seen = standing.observed
        kept = [attempt.started_at or attempt.decided_at, attempt.checkpoint_at]
        kept.append(seen.checkpoint_at if seen is not None else None)
        return Occupant(
            job=standing.id,
            attempt=attempt,
            devices=holder.devices,
            gone_at=Instant(gone_at),
            expected_gone=max(holder.until.p50, Instant(now + 1)),
            stays=stays,
            stake_s=max(now - max(at for at in kept if at is not None), 0),
        )


def leaving(
    windows: Iterable[Window], occupants: Occupants, snapshot: Snapshot
) -> dict[JobId, Decision]:
    """Return whom to ask to leave now, so that each window is clear at its start."""
    asked: dict[JobId, Decision] = {}
    for window in windows:
        ahead_s = window.start - snapshot.now
        if window.is_open or ahead_s > _SOON_S:
            continue
        for each in occupants.strangers(window):
            is_due = ahead_s <= asked_before_s(each.attempt.grace_s, snapshot.policy)
            if each.may_be_asked and is_due:
                asked[each.job] = _ask(each.job, window)
    return asked


def guests_in_the_way(
    windows: Iterable[Window],
    occupants: Occupants,
    bars: Mapping[JobId, Bar | None],
    shapes: Shapes,
    snapshot: Snapshot,
) -> dict[JobId, Decision]:
    """Return the guests of shared windows who are asked to leave because a job that the window
    admits wants to start; the least work at stake goes first, and no more than are needed."""
    asked: dict[JobId, Decision] = {}
    for window in windows:
        if window.is_exclusive or not window.is_open:
            continue
        there = occupants.on(window.devices)
        guests = [each for each in there if not window.admits(each.job) and each.may_be_asked]
        if not guests:
            continue
        free = window.devices
        for each in there:
            free &= ~each.devices
        for job, bar in sorted(bars.items()):
            wanted = snapshot.desired.jobs.get(job)
            if bar is not None or not window.admits(job) or wanted is None or wanted.spec is None:
                continue
            shape = shapes.of(wanted.spec.gpus)
            for guest in sorted(guests, key=lambda g: (g.stake_s * g.attempt.gpus, g.job)):
                if fits(shape, free, shapes.where):
                    break
                free |= guest.devices & window.devices
                asked[guest.job] = _ask(guest.job, window)
            break
    return asked


def _ask(job: JobId, window: Window) -> Decision:
    return Decision(
        job=job,
        verb=Verb.SUSPEND,
        reason=Reason.RESERVATION_STARTS,
        detail=f"makes room for reservation {window.reservation}",
    )
