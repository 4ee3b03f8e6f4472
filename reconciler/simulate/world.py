"""A world on virtual time that the one cycle runs over, as it runs over the live one.

``SimWorld`` keeps statuses and a main branch in memory and runs attempts as functions of time.
The planner cannot tell it from the real world: what it decides here it would decide there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from reconciler.cycle import CycleReport, run_cycle
from reconciler.domain.attempt import Observation, ObservedState
from reconciler.domain.budget import Budget
from reconciler.domain.cluster import Cluster, NodeState
from reconciler.domain.job import GangSize
from reconciler.domain.plan import Action, Kill, Launch, Plan, PlannerState, Stop
from reconciler.domain.policy import Policy
from reconciler.domain.reservation import OccurrenceTransition, ReservationStatus
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.status import JobStatus, StatusUpdate, Transition
from reconciler.domain.team import Team
from reconciler.domain.units import AttemptId, Instant, JobId, Seconds, TeamName
from reconciler.errors import LauncherError
from reconciler.planning.memo import Memo
from reconciler.ports import ApplyResult
from reconciler.simulate.events import Events
from reconciler.simulate.main_branch import MainBranch
from reconciler.simulate.runs import Behaviour, Run


class SimWorld:
    """Statuses, runs and files in memory; ``now`` moves only when it is told to."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        now: Instant,
        policy: Policy | None = None,
        teams: Mapping[TeamName, Team] | None = None,
        budgets: Mapping[str, Budget] | None = None,
    ) -> None:
        self.now = now
        self.cluster = cluster
        self.policy = policy or Policy()
        self.teams = dict(teams or {})
        self.budgets = dict(budgets or {})
        """With all their periods; a cycle is told those that are not over."""
        self.planner_state = PlannerState()
        self.reservations: dict[JobId, ReservationStatus] = {}
        self.calendar_log: list[tuple[Instant, OccurrenceTransition]] = []
        """Every change of an occurrence that was ever recorded."""
        self.main = MainBranch()
        self.events = Events()
        self.statuses: dict[JobId, JobStatus] = {}
        self.runs: dict[AttemptId, Run] = {}
        self.behaviours: dict[JobId, Behaviour] = {}
        self.sizes: dict[JobId, tuple[GangSize, ...]] = {}
        """Legal sizes of jobs that have several."""
        self.planner_state = PlannerState()
        """As the last commit recorded it."""
        self.log: list[tuple[Instant, Transition]] = []
        """Every transition ever recorded."""
        self.commits = 0
        self.launches: list[AttemptId] = []
        """Every attempt that really began, in order."""
        self.is_silent = False
        """True while no launcher answers."""
        self.loses_actions = False
        """True while the reconciler dies between recording and acting."""
        self._saved: dict[tuple[JobId, str, int], Seconds] = {}
        self._previous_look_at: Instant | None = None

    # The port

    def observe(self) -> Snapshot:
        """Return everything there is to know at ``now``."""
        live = {
            status.live_attempt.id: job
            for job, status in self.statuses.items()
            if status.live_attempt is not None
        }
        snapshot = Snapshot(
            now=self.now,
            desired=self.main.desired(),
            statuses={job: self.statuses[job] for job in sorted(self.statuses)},
            observations={attempt: self._seen(attempt) for attempt in sorted(live)},
            cluster=self.cluster,
            teams=self.teams,
            policy=self.policy,
            sizes=dict(self.sizes),
            planner_state=self.planner_state,
            previous_look_at=self._previous_look_at,
            reservations={name: self.reservations[name] for name in sorted(self.reservations)},
            budgets={name: self._current(self.budgets[name]) for name in sorted(self.budgets)},
        )
        self._previous_look_at = self.now
        return snapshot

    def record(self, snapshot: Snapshot, plan: Plan, update: StatusUpdate) -> None:
        """Make the statuses fact, and move the cursor."""
        for status in update.changed:
            self.statuses[status.job] = status
        for kept in update.reservations:
            self.reservations[kept.reservation] = kept
        self.planner_state = plan.planner_state
        self.log += [(plan.now, transition) for transition in update.transitions]
        self.calendar_log += [(plan.now, line) for line in update.occurrences]
        self.planner_state = plan.planner_state
        self.commits += 1
        if snapshot.desired.commit == self.main.tip:
            self.main.acted_on()

    def apply(self, action: Action) -> ApplyResult:
        """Ask for one action; a failure is told, never raised."""
        if self.loses_actions:
            return ApplyResult(action=action, ok=False, message="the reconciler died")
        try:
            self._do(action)
        except LauncherError as error:
            return ApplyResult(action=action, ok=False, message=str(error))
        return ApplyResult(action=action, ok=True)

    def _do(self, action: Action) -> None:
        if self.is_silent:
            raise LauncherError("the launcher does not answer")
        if isinstance(action, Launch):
            self._launch(action)
            return
        run = self.runs.get(action.attempt)
        if run is None:
            return
        if isinstance(action, Stop) and run.stop_at is None:
            run.stop_at, run.grace_s = self.now, action.grace_s
        elif isinstance(action, Kill) and run.kill_at is None:
            run.kill_at = self.now
        self._wake_at_end(run)

    def _launch(self, action: Launch) -> None:
        if action.attempt in self.runs:
            return
        status = self.statuses[action.job]
        attempt = status.live_attempt
        if attempt is None or attempt.id != action.attempt:
            raise LauncherError(f"{action.attempt} was never recorded as launching")
        behaviour = self.behaviours[action.job]
        key = (action.job, status.submission, status.generation)
        made = sum(run.job == action.job for run in self.runs.values())
        run = Run(
            attempt=action.attempt,
            job=action.job,
            began_at=self.now,
            resumed_s=self._saved.get(key, Seconds(0)),
            behaviour=behaviour,
            runs_command=attempt.runs_command,
            trouble=behaviour.troubles.get(made),
        )
        self.runs[action.attempt] = run
        self.launches.append(action.attempt)
        self._wake_at_end(run)

    def _seen(self, attempt: AttemptId) -> Observation:
        if self.is_silent:
            return Observation(attempt=attempt, state=ObservedState.UNKNOWN)
        run = self.runs.get(attempt)
        if run is None:
            return Observation(attempt=attempt, state=ObservedState.ABSENT)
        return run.observe(self.now)

    def _current(self, budget: Budget) -> Budget:
        periods = tuple(period for period in budget.periods if period.end > self.now)
        return budget if periods == budget.periods else replace(budget, periods=periods)

    def _wake_at_end(self, run: Run) -> None:
        """Plan the run's end as something that happens, as far as is known now."""
        self.events.at(run.ending().at, lambda: self._save(run))

    def _save(self, run: Run) -> None:
        ending = run.ending()
        status = self.statuses.get(run.job)
        if ending.at > self.now or status is None:
            return
        if any(attempt.id == run.attempt for attempt in status.attempts):
            key = (run.job, status.submission, status.generation)
            self._saved[key] = max(self._saved.get(key, Seconds(0)), ending.saved_s)

    # What people and machines do to it

    def set_node(self, name: str, state: NodeState) -> None:
        """Change a node's state; what runs on a node that goes down is lost."""
        self.cluster = replace(
            self.cluster,
            nodes=tuple(
                replace(node, state=state) if node.name == name else node
                for node in self.cluster.nodes
            ),
        )
        if state is not NodeState.DOWN:
            return
        for status in self.statuses.values():
            attempt = status.live_attempt
            run = self.runs.get(attempt.id) if attempt is not None else None
            if attempt is None or run is None or run.lost_at is not None:
                continue
            if any(share.node == name for share in attempt.allocation.shares):
                run.lost_at = self.now
                self._wake_at_end(run)

    def advance(self, span_s: int) -> None:
        """Let ``span_s`` seconds pass, with everything that happens in them."""
        target = Instant(self.now + span_s)
        while (due := self.events.next_at()) is not None and due <= target:
            self.now = max(self.now, due)
            self.events.happen(self.now)
        self.now = target

    def cycles(self, span_s: int, memo: Memo | None = None) -> Iterator[CycleReport]:
        """Run cycles for ``span_s`` seconds: a second after one that changed something, after
        each event, and at most ``cycle_s`` apart.

        Yields each cycle's report, with the world as that cycle left it.
        """
        end = Instant(self.now + span_s)
        while True:
            report = run_cycle(self, memo)
            memo = report.memo
            yield report
            if self.now >= end:
                return
            due = self.events.next_at()
            soonest = Instant(self.now + (1 if report.update else self.policy.cycle_s))
            if due is not None:
                soonest = min(soonest, max(due, Instant(self.now + 1)))
            self.advance(min(soonest, end) - self.now)
