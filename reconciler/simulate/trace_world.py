"""A world on virtual time that the production cycle plans traces of a hundred thousand jobs over.

It is the simulated world's fast brother: a job that ends leaves main and the statuses, whatever
did not change is the same object as in the cycle before, so that a cycle costs what happened in
it.  Attempts run by the trace's true durations; of those the planner sees only that an attempt
runs, and when it has ended.

Limits are never enforced: who comes near his gets a longer one, as a user would ask for, so that a
restart's seconds cannot kill a job the trace let finish.
"""

# ruff: noqa: ARG002  the methods have the signatures of ``ports.World``

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from math import ceil

from reconciler.domain.attempt import Observation, ObservedState, Outcome
from reconciler.domain.cluster import Cluster
from reconciler.domain.job import GangSize, JobSpec, Submission
from reconciler.domain.plan import Action, Kill, Launch, Plan, PlannerState, Stop
from reconciler.domain.policy import Policy
from reconciler.domain.snapshot import Desired, DesiredJob, Snapshot
from reconciler.domain.status import JobStatus, StatusUpdate
from reconciler.domain.team import Team
from reconciler.domain.units import AttemptId, Instant, JobId, Seconds, TeamName
from reconciler.planning.altered import altered
from reconciler.planning.table import Draft
from reconciler.ports import ApplyResult
from reconciler.simulate.asks import Ask, next_limit
from reconciler.simulate.audit import Audit
from reconciler.simulate.chance import uniform
from reconciler.simulate.costs import HARD_KILL_LOSS_S, Costs
from reconciler.simulate.nodes import Nodes, Place
from reconciler.simulate.outcome import Stay
from reconciler.simulate.paper_fleet import EPOCH, pace, paper_commit, paper_sizes, with_digest
from reconciler.simulate.virtual_attempts import Fate, VirtualAttempt

ARRIVES, ENDS, NEARS_LIMIT = 0, 1, 2
LIMIT_SLACK_S = 300
SUCCEEDED_STATUS, STOPPED_STATUS, KILLED_STATUS = 0, 83, -9


class TraceWorld:
    """A load, a cluster and a clock; ``now`` moves only when ``advance`` is called."""

    def __init__(
        self,
        asks: Sequence[Ask],
        specs: Sequence[JobSpec],
        cluster: Cluster,
        *,
        policy: Policy,
        teams: Mapping[TeamName, Team],
        costs: Costs,
        counts: Nodes,
        gpus: int,
        seed: int = 1,
    ) -> None:
        self.asks, self.specs = asks, specs
        self.cluster, self.policy, self.teams = cluster, policy, teams
        self.costs, self._counts = costs, counts
        self.now = Instant(EPOCH + asks[0].submit_s)
        self.fates = [Fate(left_s=ask.duration_s) for ask in asks]
        self.stays: list[Stay] = []
        self.queued_s = self.idle_gpu_s = 0.0
        self.killed_at_limit = 0
        self.unfinished = len(asks)
        self.waiting = 0
        """Jobs that have arrived, have not ended and hold nothing."""
        self.free_gpus = gpus
        self.free_on = [len(node.devices) for node in cluster.nodes]
        """GPUs of each node that nobody's attempt holds."""
        self.audit = Audit(teams)
        self._seed = seed
        self._state = PlannerState()
        self._jobs: Draft[JobId, DesiredJob] = Draft()
        self._sizes: Draft[JobId, tuple[GangSize, ...]] = Draft()
        self._submissions: Draft[JobId, Submission] = Draft()
        self._statuses: Draft[JobId, JobStatus] = Draft()
        self._observations: Draft[AttemptId, Observation] = Draft()
        self._attempts: dict[AttemptId, VirtualAttempt] = {}
        self._index = {spec.id: at for at, spec in enumerate(specs)}
        self._node = {node.name: at for at, node in enumerate(cluster.nodes)}
        self._events: list[tuple[float, int, int, int, str]] = []
        self._order = count()
        self._commits = 0
        self._looked_at: Instant | None = None
        for at, ask in enumerate(asks):
            self._plan(EPOCH + ask.submit_s, ARRIVES, at, "")

    # The port

    def observe(self) -> Snapshot:
        """Return everything there is to know at ``now``."""
        snapshot = Snapshot(
            now=self.now,
            desired=Desired(
                commit=paper_commit(self._commits),
                jobs=self._jobs.done(),
                submissions=self._submissions.done(),
            ),
            statuses=self._statuses.done(),
            observations=self._observations.done(),
            cluster=self.cluster,
            teams=self.teams,
            policy=self.policy,
            sizes=self._sizes.done(),
            planner_state=self._state,
            previous_look_at=self._looked_at,
        )
        self._looked_at = self.now
        return snapshot

    def record(self, snapshot: Snapshot, plan: Plan, update: StatusUpdate) -> None:
        """Make the statuses fact; whoever is finished leaves the fleet."""
        for status in update.changed:
            self._submissions.pop(status.job)
            live = status.live_attempt
            before = self._statuses.get(status.job)
            was_live = before.live_attempt if before is not None else None
            if was_live is not None and (live is None or live.id != was_live.id):
                self._observations.pop(was_live.id)
                self._attempts.pop(was_live.id, None)
            if status.phase.is_finished:
                self._leave(status)
            else:
                self._statuses[status.job] = status
        self._state = plan.planner_state

    def apply(self, action: Action) -> ApplyResult:
        """Do what was asked."""
        if isinstance(action, Launch):
            self._launch(action)
        elif isinstance(action, Stop):
            self._stop(action.attempt)
        elif isinstance(action, Kill):
            self._lose(action.attempt, ObservedState.ENDED)
        return ApplyResult(action=action, ok=True)

    def _leave(self, status: JobStatus) -> None:
        fate = self.fates[self._index[job := status.job]]
        self._statuses.pop(job)
        self._jobs.pop(job)
        self._sizes.pop(job)
        self._commits += 1
        self.unfinished -= 1
        if fate.ended_s is None:  # given up before its work was done
            self.killed_at_limit += 1
            fate.ended_s = self.now - EPOCH
            self.waiting -= 1

    def _launch(self, action: Launch) -> None:
        if action.attempt in self._attempts:
            return
        attempt = self._statuses[action.job].live_attempt
        assert attempt is not None  # it was recorded before it is acted on
        at = self._index[action.job]
        fate = self.fates[at]
        place = tuple(
            (self._node[share.node], len(share.devices)) for share in attempt.allocation.shares
        )
        restoring = self.costs.restore(len(place)) if fate.starts else 0
        slowdown = self._counts.slowdown(place)
        slowdown *= pace(self.asks[at].gpus, attempt.gpus)
        run = VirtualAttempt(
            id=action.attempt,
            job=at,
            place=place,
            began_at=self.now,
            restoring_s=restoring,
            slowdown=slowdown,
            left_s=fate.left_s,
            ends_at=self.now + restoring + fate.left_s * slowdown,
        )
        self._attempts[action.attempt] = run
        if fate.first_start_s is None:
            fate.first_start_s = self.now - EPOCH
        fate.starts += 1
        self.waiting -= 1
        self.free_gpus -= run.gpus
        self._move(place, -1)
        self.audit.launched(action.job, attempt.gpus, self._kept_idle)
        self._observations[action.attempt] = Observation(
            attempt=action.attempt, state=ObservedState.RUNNING, started_at=self.now
        )
        self._plan(run.ends_at, ENDS, 0, action.attempt)
        self._watch_limit(at, run)

    def _watch_limit(self, at: int, run: VirtualAttempt) -> None:
        spec = self._jobs[self.specs[at].id].spec
        if spec is None or spec.limit_s is None:
            return
        ran_s = self._statuses[spec.id].ran_s
        near = run.began_at + spec.limit_s - ran_s - LIMIT_SLACK_S
        if near < run.ends_at:
            self._plan(max(near, self.now), NEARS_LIMIT, at, run.id)

    def _stop(self, attempt: AttemptId) -> None:
        run = self._attempts.get(attempt)
        if run is None or run.stop_at is not None or run.ends_at <= self.now:
            return
        run.stop_at = self.now
        leaves = max(self.now, run.began_at) + self.costs.save(len(run.place))
        if run.ends_at <= leaves:
            return
        run.leave(leaves, Outcome.STOPPED)
        self._plan(leaves, ENDS, run.version, attempt)

    def _lose(self, attempt: AttemptId, state: ObservedState) -> None:
        """End an attempt now, without a checkpoint of its own: it loses up to half an hour."""
        run = self._attempts.get(attempt)
        seen = self._observations.get(attempt)
        if run is None or seen is None or seen.state is not ObservedState.RUNNING:
            return
        run.leave(self.now, None)
        starts = self.fates[run.job].starts
        share = uniform(self._seed, f"lost {starts}", self.asks[run.job].id)
        self._free(run, self.now, lost_s=HARD_KILL_LOSS_S * share)
        self.fates[run.job].lost += 1
        self._observations[attempt] = altered(
            seen, state=state, ended_at=self.now, exit_status=KILLED_STATUS
        )

    # Time

    def next_event_at(self) -> Instant | None:
        """Return when something happens next that a reconciler would notice."""
        while self._events and self._is_stale(self._events[0]):
            heappop(self._events)
        return Instant(_whole(self._events[0][0])) if self._events else None

    def advance(self, to: Instant) -> None:
        """Let everything up to and including ``to`` happen."""
        while (due := self.next_event_at()) is not None and due <= to:
            at, kind, _, number, attempt = heappop(self._events)
            self._account(Instant(max(_whole(at), self.now)))
            self._happen(kind, number, AttemptId(attempt))
        self._account(to)

    def _happen(self, kind: int, number: int, attempt: AttemptId) -> None:
        if kind == ARRIVES:
            self._arrive(number)
        elif kind == ENDS:
            self._end(attempt)
        else:
            self._raise_limit(number)

    def _is_stale(self, event: tuple[float, int, int, int, str]) -> bool:
        _, kind, _, number, attempt = event
        if kind not in (ENDS, NEARS_LIMIT):
            return False
        run = self._attempts.get(AttemptId(attempt))
        if run is None:
            return True
        seen = self._observations.get(run.id)
        if seen is None or seen.state is not ObservedState.RUNNING:
            return True
        return kind == ENDS and run.version != number

    def _account(self, to: Instant) -> None:
        span = to - self.now
        if span > 0 and self.waiting:
            self.queued_s += span
            self.idle_gpu_s += span * self.free_gpus
            self.audit.passed(span)
        self.now = to

    def _plan(self, at: float, kind: int, number: int, attempt: str) -> None:
        heappush(self._events, (at, kind, next(self._order), number, attempt))

    def _arrive(self, at: int) -> None:
        spec = self.specs[at]
        self._commits += 1
        commit = paper_commit(self._commits)
        self._jobs[spec.id] = DesiredJob(id=spec.id, commit=commit, spec=spec)
        if spec.elastic is not None:
            self._sizes[spec.id] = paper_sizes(self.asks[at], self.policy.default_duration_s)
        self._submissions[spec.id] = Submission(
            commit=commit, committed_at=Instant(EPOCH + self.asks[at].submit_s)
        )
        self.waiting += 1

    def _end(self, attempt: AttemptId) -> None:
        run, seen = self._attempts[attempt], self._observations[attempt]
        is_done = run.outcome is Outcome.SUCCEEDED
        ended = run.ends_at if is_done else run.gone_at or self.now
        self._free(run, ended)
        fate = self.fates[run.job]
        if is_done:
            fate.ended_s = ended - EPOCH
            fate.left_s = 0.0
            self.waiting -= 1
        else:
            fate.preemptions += 1
        self._observations[attempt] = altered(
            seen,
            state=ObservedState.ENDED,
            ended_at=Instant(_whole(ended)),
            exit_status=SUCCEEDED_STATUS if is_done else STOPPED_STATUS,
            outcome=run.outcome,
            checkpoint_at=Instant(_whole(ended)),
        )

    def _free(self, run: VirtualAttempt, ended: float, lost_s: float = 0.0) -> None:
        """Take back the GPUs of an attempt that leaves, and keep what it has done."""
        fate = self.fates[run.job]
        gpus = run.gpus
        fate.left_s -= run.kept_s(ended, lost_s)
        fate.held_gpu_s += (ended - run.began_at) * gpus
        self.stays.append(
            Stay(
                job=run.job,
                gpus=gpus,
                began_s=run.began_at - EPOCH,
                ended_s=ended - EPOCH,
                nodes=run.place,
            )
        )
        self.free_gpus += gpus
        self._move(run.place, 1)
        self.audit.left(self.specs[run.job].id, gpus)
        self.waiting += 1

    def _move(self, place: Place, sign: int) -> None:
        for node, gpus in place:
            self.free_on[node] += sign * gpus

    def _kept_idle(self, teams: Container[str]) -> int:
        """Return the GPUs that open windows of these teams keep and none of their jobs holds."""
        del teams
        return 0

    def _raise_limit(self, at: int) -> None:
        job = self._jobs.get(self.specs[at].id)
        if job is None or job.spec is None or job.spec.limit_s is None:
            return
        spec = with_digest(replace(job.spec, limit_s=Seconds(next_limit(job.spec.limit_s))))
        self._commits += 1
        self._jobs[spec.id] = replace(job, spec=spec, commit=paper_commit(self._commits))
        run = next(run for run in self._attempts.values() if run.job == at)
        self._watch_limit(at, run)


def _whole(at: float) -> int:
    """Return ``at`` in whole seconds, not earlier."""
    return ceil(at)
