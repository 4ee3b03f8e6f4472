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

from reconciler.domain.cluster import NodeState
from reconciler.domain.job import GangSize
from reconciler.domain.plan import Decision, Verb
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.team import Team
from reconciler.domain.units import AttemptId, JobId, NodeName, TeamName
from reconciler.planning.actions import asks_again
from reconciler.planning.brake import returned
from reconciler.planning.deletion import Pruning, is_at_stake, pruning
from reconciler.planning.due import Due, Times
from reconciler.planning.eligibility import Bar, bar
from reconciler.planning.settle import node_states, settle, settles_again_at
from reconciler.planning.shapes import Shapes
from reconciler.planning.standing import Standing, stand
from reconciler.planning.table import Draft, Table, differing, kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """One snapshot, read.  Mappings are in no particular order."""

    snapshot: Snapshot
    read: "_Read"
    standings: Table[JobId, Standing]
    settled: Table[JobId, Decision]
    """What is decided without comparing jobs: by facts, files, edits, or by a bar that needs a
    person."""
    bars: Table[JobId, Bar | None]
    """Of every job that wants devices and is ranked: what keeps it from starting, if anything."""
    live: Table[JobId, Standing]
    """Jobs whose attempt holds devices."""
    ended: Table[JobId, Standing]
    """Jobs whose attempt this snapshot ended."""
    prune: Pruning
    back: frozenset[JobId]
    absent: frozenset[JobId]
    restless: frozenset[JobId]
    """Live jobs about which something may be asked although nothing is decided."""
    unsure: frozenset[JobId]
    """Jobs whose standing is not recorded yet: it is made again each time."""
    dependents: Table[JobId, tuple[JobId, ...]]
    due: Due
    node_states: Mapping[NodeName, NodeState]
    touched: frozenset[JobId] | None
    """Jobs looked at again since the books these grew from; None: they grew from none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """The values that were read, by job: as nobody can change them under the books."""

    jobs: Mapping[JobId, object]
    statuses: Mapping[JobId, object]
    observations: Mapping[AttemptId, object]
    submissions: Mapping[JobId, object]
    sizes: Mapping[JobId, tuple[GangSize, ...]]
    teams: Mapping[TeamName, Team]
    owner: Table[AttemptId, JobId]


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


class _Writer:
    """Makes books; starts from the ones before or from nothing."""

    def __init__(self, snapshot: Snapshot, shapes: Shapes, before: Books | None) -> None:
        self._snapshot = snapshot
        self._shapes = shapes
        self._before = before
        self._standings = Draft(before.standings if before else None)
        self._settled = Draft(before.settled if before else None)
        self._bars = Draft(before.bars if before else None)
        self._live = Draft(before.live if before else None)
        self._ended = Draft(before.ended if before else None)
        self._absent = set(before.absent) if before else set()
        self._restless = set(before.restless) if before else set()
        self._unsure = set(before.unsure) if before else set()
        self._dependents = Draft(before.dependents if before else None)
        self._due = Times(before.due if before else None)
        self._owner = Draft(before.read.owner if before else None)
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
            standings=self._standings.done(),
            settled=self._settled.done(),
            bars=self._bars.done(),
            live=self._live.done(),
            ended=self._ended.done(),
            prune=prune,
            back=back,
            absent=frozenset(self._absent),
            restless=frozenset(self._restless),
            unsure=frozenset(self._unsure),
            dependents=self._dependents.done(),
            due=self._due.done(),
            node_states=self._node_states,
            touched=None if before is None else frozenset(touched),
        )

    def _read(self) -> _Read:
        snapshot = self._snapshot
        return _Read(
            jobs=kept(snapshot.desired.jobs),
            statuses=kept(snapshot.statuses),
            observations=kept(snapshot.observations),
            submissions=kept(snapshot.desired.submissions),
            sizes=kept(snapshot.sizes),
            teams=dict(snapshot.teams),
            owner=self._owner.done(),
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
        found |= self._due.until(snapshot.now)
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
        self._live.pop(job)
        self._ended.pop(job)
        self._absent.discard(job)
        self._restless.discard(job)
        self._unsure.discard(job)
        if standing.recorded is not None and standing.recorded.live_attempt is not None:
            self._owner.pop(standing.recorded.live_attempt.id)
        for dependency in _after(standing):
            others = tuple(o for o in self._dependents.get(dependency, ()) if o != job)
            if others:
                self._dependents[dependency] = others
            else:
                self._dependents.pop(dependency)

    def _forget(self, job: JobId) -> None:
        before = self._standings.pop(job)
        if before is not None:
            self._let_go(before)
        self._settled.pop(job)
        self._bars.pop(job)
        self._due.drop(job)

    def _whoever_waits_for(self, changed: Iterable[JobId]) -> set[JobId]:
        if not self._dependents:
            return set()
        return {job for each in changed for job in self._dependents.get(each, ())}

    def _pruning(self) -> Pruning:
        """Ask about all jobs only where some file is gone."""
        return pruning(self._snapshot, self._standings) if self._absent else Pruning()

    def _settle(self, job: JobId, prune: Pruning) -> None:
        snapshot, standing = self._snapshot, self._standings[job]
        self._due.drop(job)
        decision = settle(snapshot, standing, prune, self._node_states)
        if decision is not None:
            self._bars.pop(job)
            self._settled[job] = decision
            at = settles_again_at(snapshot, standing)
            if at is not None and at > snapshot.now:
                self._due.put(job, at)
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
            self._bars.pop(job)
            self._settled[job] = Decision(
                job=job, verb=Verb.WAIT, reason=found.reason, detail=found.detail
            )
            return
        self._settled.pop(job)
        self._bars[job] = found
        if found is not None and found.until is not None:
            self._due.put(job, found.until)


def _after(standing: Standing) -> tuple[JobId, ...]:
    return standing.spec.after if standing.spec is not None else ()
