"""What is known of every job at one instant, kept from cycle to cycle.

A job's standing, what is settled about it and what bars it depend on a handful of values: its
document, its status, its observation, its submission.  Where those are the same objects as in the
cycle before, the answers are too, so only what differs is looked at again, with what hangs on it:
whoever waits for a job that changed, and whoever's time has come.

Rule kept: books are never changed once made, and books that grew from others are equal to books
made from nothing.  Anything that concerns everybody (cluster, policy, teams, a rewritten main, a
clock that went back) starts new ones.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import compress
from operator import is_not
from typing import TypeVar

from reconciler.domain.cluster import NodeState
from reconciler.domain.job import GangSize
from reconciler.domain.plan import Decision, Verb
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.team import Team
from reconciler.domain.units import AttemptId, Instant, JobId, NodeName, TeamName
from reconciler.planning.actions import asks_again
from reconciler.planning.brake import returned
from reconciler.planning.deletion import Pruning, is_at_stake, pruning
from reconciler.planning.eligibility import Bar, bar
from reconciler.planning.settle import node_states, settle, settles_again_at
from reconciler.planning.shapes import Shapes
from reconciler.planning.standing import Standing, stand

DUE_OF_EACH = 4
"""Entries a job has in the heap of due times before those out of date are looked for."""

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """One snapshot, read.  Mappings are in no particular order."""

    snapshot: Snapshot
    read: "_Read"
    standings: Mapping[JobId, Standing]
    settled: Mapping[JobId, Decision]
    """What is decided without comparing jobs: by facts, files, edits, or by a bar that needs a
    person."""
    bars: Mapping[JobId, Bar | None]
    """Of every job that wants devices and is ranked: what keeps it from starting, if anything."""
    live: Mapping[JobId, Standing]
    """Jobs whose attempt holds devices."""
    ended: Mapping[JobId, Standing]
    """Jobs whose attempt this snapshot ended."""
    prune: Pruning
    back: frozenset[JobId]
    absent: frozenset[JobId]
    restless: frozenset[JobId]
    """Live jobs about which something may be asked although nothing is decided."""
    unsure: frozenset[JobId]
    """Jobs whose standing is not recorded yet: it is made again each time."""
    dependents: Mapping[JobId, tuple[JobId, ...]]
    due: tuple[tuple[Instant, JobId], ...]
    """A heap of when time alone may change what is settled; entries may be out of date."""
    node_states: Mapping[NodeName, NodeState]
    touched: frozenset[JobId] | None
    """Jobs looked at again since the books these grew from; None: they grew from none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """The values that were read, by job: copies, so that nobody changes them under the books."""

    jobs: dict[JobId, object]
    statuses: dict[JobId, object]
    observations: dict[AttemptId, object]
    submissions: dict[JobId, object]
    sizes: dict[JobId, tuple[GangSize, ...]]
    teams: dict[TeamName, Team]
    owner: dict[AttemptId, JobId]


def open_books(snapshot: Snapshot, shapes: Shapes, before: Books | None = None) -> Books:
    """Return the books of ``snapshot``; ``before`` only saves work."""
    if before is None or not _is_alike(before, snapshot):
        return _Writer(snapshot, shapes, None).write()
    return _Writer(snapshot, shapes, before).write()


def _is_alike(before: Books, snapshot: Snapshot) -> bool:
    """True where nothing changed that concerns everybody."""
    old = before.snapshot
    return (
        old.now <= snapshot.now
        and old.desired.is_rewritten == snapshot.desired.is_rewritten
        and (old.policy is snapshot.policy or old.policy == snapshot.policy)
        and before.read.teams == snapshot.teams
        and (old.cluster is snapshot.cluster or old.cluster == snapshot.cluster)
    )


def differing(old: Mapping[Key, Value], new: Mapping[Key, Value]) -> set[Key]:
    """Return the keys that do not have the very same object in both; no object is None."""
    found = set(compress(new, map(is_not, map(old.get, new), new.values())))
    return found | (old.keys() - new.keys())


class _Writer:
    """Makes books; starts from the ones before or from nothing."""

    def __init__(self, snapshot: Snapshot, shapes: Shapes, before: Books | None) -> None:
        self._snapshot = snapshot
        self._shapes = shapes
        self._before = before
        self._standings = dict(before.standings) if before else {}
        self._settled = dict(before.settled) if before else {}
        self._bars = dict(before.bars) if before else {}
        self._live = dict(before.live) if before else {}
        self._ended = dict(before.ended) if before else {}
        self._absent = set(before.absent) if before else set()
        self._restless = set(before.restless) if before else set()
        self._unsure = set(before.unsure) if before else set()
        self._dependents = dict(before.dependents) if before else {}
        self._due = list(before.due) if before else []
        self._owner = dict(before.read.owner) if before else {}
        self._node_states = before.node_states if before else node_states(snapshot.cluster)

    def write(self) -> Books:
        snapshot, before = self._snapshot, self._before
        back = returned(snapshot)
        changed = self._changed(back)
        gone: set[JobId] = set()
        for job in changed:
            if job in snapshot.desired.jobs or job in snapshot.statuses:
                self._stand(job, is_back=job in back)
            else:
                gone.add(job)
        for job in gone:
            self._forget(job)
        touched = changed | self._whoever_waits_for(changed)
        prune = self._pruning()
        if before is not None and prune != before.prune:
            touched |= prune.blocked ^ before.prune.blocked
            touched |= prune.allowed ^ before.prune.allowed
        for job in touched - gone:
            self._settle(job, prune)
        return Books(
            snapshot=snapshot,
            read=self._read(),
            standings=self._standings,
            settled=self._settled,
            bars=self._bars,
            live=self._live,
            ended=self._ended,
            prune=prune,
            back=back,
            absent=frozenset(self._absent),
            restless=frozenset(self._restless),
            unsure=frozenset(self._unsure),
            dependents=self._dependents,
            due=self._still_due(),
            node_states=self._node_states,
            touched=None if before is None else frozenset(touched),
        )

    def _still_due(self) -> tuple[tuple[Instant, JobId], ...]:
        """Return the heap, without what is out of date once that is most of it."""
        if len(self._due) > DUE_OF_EACH * len(self._standings) + DUE_OF_EACH:
            self._due = sorted({each for each in self._due if each[1] in self._standings})
        return tuple(self._due)

    def _read(self) -> _Read:
        snapshot = self._snapshot
        return _Read(
            jobs=dict(snapshot.desired.jobs),
            statuses=dict(snapshot.statuses),
            observations=dict(snapshot.observations),
            submissions=dict(snapshot.desired.submissions),
            sizes=dict(snapshot.sizes),
            teams=dict(snapshot.teams),
            owner=self._owner,
        )

    def _changed(self, back: frozenset[JobId]) -> set[JobId]:
        """Return the jobs whose standing may differ from the one before."""
        snapshot, before = self._snapshot, self._before
        if before is None:
            return {*snapshot.desired.jobs, *snapshot.statuses}
        read = before.read
        found = differing(read.jobs, snapshot.desired.jobs)
        found |= differing(read.statuses, snapshot.statuses)
        if read.submissions or snapshot.desired.submissions:
            found |= differing(read.submissions, snapshot.desired.submissions)
        if read.sizes or snapshot.sizes:
            found |= differing(read.sizes, snapshot.sizes)
        for attempt in differing(read.observations, snapshot.observations):
            if attempt in self._owner:
                found.add(self._owner[attempt])
        found |= self._unsure
        found |= back ^ before.back
        now = snapshot.now
        while self._due and self._due[0][0] <= now:
            found.add(heappop(self._due)[1])
        known, jobs, statuses = self._standings, snapshot.desired.jobs, snapshot.statuses
        return {job for job in found if job in known or job in jobs or job in statuses}

    def _stand(self, job: JobId, *, is_back: bool) -> None:
        standing = stand(self._snapshot, job, is_back=is_back)
        before = self._standings.get(job)
        if before is not None:
            self._let_go(before)
        self._standings[job] = standing
        live = standing.live
        if live is not None:
            self._live[job] = standing
            if asks_again(standing):
                self._restless.add(job)
        elif standing.has_ended:
            self._ended[job] = standing
        recorded = standing.recorded
        recorded_live = recorded.live_attempt if recorded is not None else None
        if recorded_live is not None:
            self._owner[recorded_live.id] = job
        if standing.wanted is None and is_at_stake(standing):
            self._absent.add(job)
        is_recorded = standing.status is recorded and standing.attempt is recorded_live
        if not is_recorded or standing.newer is not None:
            self._unsure.add(job)
        for dependency in _after(standing):
            others = self._dependents.get(dependency, ())
            if job not in others:
                self._dependents[dependency] = (*others, job)

    def _let_go(self, standing: Standing) -> None:
        """Undo what a standing put into the tables."""
        job = standing.id
        self._live.pop(job, None)
        self._ended.pop(job, None)
        self._absent.discard(job)
        self._restless.discard(job)
        self._unsure.discard(job)
        if standing.recorded is not None and standing.recorded.live_attempt is not None:
            self._owner.pop(standing.recorded.live_attempt.id, None)
        for dependency in _after(standing):
            others = tuple(o for o in self._dependents.get(dependency, ()) if o != job)
            if others:
                self._dependents[dependency] = others
            else:
                self._dependents.pop(dependency, None)

    def _forget(self, job: JobId) -> None:
        before = self._standings.pop(job, None)
        if before is not None:
            self._let_go(before)
        self._settled.pop(job, None)
        self._bars.pop(job, None)

    def _whoever_waits_for(self, changed: Iterable[JobId]) -> set[JobId]:
        if not self._dependents:
            return set()
        return {job for each in changed for job in self._dependents.get(each, ())}

    def _pruning(self) -> Pruning:
        """Ask about all jobs only where some file is gone."""
        return pruning(self._snapshot, self._standings) if self._absent else Pruning()

    def _settle(self, job: JobId, prune: Pruning) -> None:
        snapshot, standing = self._snapshot, self._standings[job]
        self._bars.pop(job, None)
        decision = settle(snapshot, standing, prune, self._node_states)
        if decision is not None:
            self._settled[job] = decision
            at = settles_again_at(snapshot, standing)
            if at is not None and at > snapshot.now:
                heappush(self._due, (at, job))
            return
        status, spec = standing.status, standing.spec
        assert status is not None and spec is not None  # settle leaves only such jobs
        found = bar(
            status,
            spec,
            jobs=self._standings,
            shapes=self._shapes,
            policy=snapshot.policy,
            now=snapshot.now,
        )
        if found is not None and found.is_held:
            self._settled[job] = Decision(
                job=job, verb=Verb.WAIT, reason=found.reason, detail=found.detail
            )
            return
        self._settled.pop(job, None)
        self._bars[job] = found
        if found is not None and found.until is not None:
            heappush(self._due, (found.until, job))


def _after(standing: Standing) -> tuple[JobId, ...]:
    return standing.spec.after if standing.spec is not None else ()
