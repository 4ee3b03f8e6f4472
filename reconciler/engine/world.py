"""What is the world of a real cycle?  Main, the status branch, the launcher, this machine.

:class:`LiveWorld` is the live answer to ``ports.World``.  It keeps the rule that makes crashes
harmless: what a plan decides is one commit, pushed by compare-and-swap before anything is acted
on, so after a crash at any point the next cycle reads either nothing of it or all of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from reconciler.domain.attempt import Observation
from reconciler.domain.plan import Action, Kill, Launch, Plan, PlannerState, Stop
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.status import StatusUpdate
from reconciler.domain.units import CommitId, Instant
from reconciler.engine.decision import Decided, decision_commit
from reconciler.engine.launch_failures import LaunchFailures
from reconciler.engine.launches import Launches, live_runs
from reconciler.engine.lessons import ended_attempts, history_after
from reconciler.engine.logging import Log
from reconciler.engine.machine import Machine
from reconciler.engine.main_reader import Look, MainReader
from reconciler.engine.notifier import Notifier
from reconciler.engine.requests import run_ref
from reconciler.engine.state_dir import StateDir
from reconciler.errors import BackendError, DeposedError, InvariantError, LauncherError
from reconciler.ports import ApplyResult, Launcher
from reconciler.snapshots.assemble import Assembler
from reconciler.snapshots.inputs import INPUTS_FILE, Inputs, Recorded
from reconciler.snapshots.plain import plain
from reconciler.snapshots.recorded import recorded_at
from reconciler.specs.serialize import Forecast
from reconciler.store.git.remote import remote_refs
from reconciler.store.status_store import StatusStore
from reconciler.store.status_tree import StatusTree

MAIN = "main"
FIRST_CYCLE_S = 15.0
"""Until a policy was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a live world is put together from."""

    main: MainReader
    statuses: StatusStore
    assembler: Assembler
    launches: Launches
    launcher: Launcher
    machine: Machine
    notifier: Notifier
    state: StateDir
    runs_dir: str
    clock: Callable[[], Instant]
    monotonic_s: Callable[[], float]
    remote_poll_s: float
    log: Log
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """The status branch as last read or written, with what was parsed of it."""

    tree: StatusTree
    recorded: Recorded | None
    """The newest decision's inputs, as the next delta starts from them."""
    inputs: Inputs | None
    """The same, as a value."""
    forecast: Forecast | None


class LiveWorld:
    """Observes, records and acts; remembers between cycles only what it would read again."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._failures = LaunchFailures(parts.launcher, parts.monotonic_s)
        self._branch: Branch | None = None
        self._look: Look | None = None
        self._inputs: Inputs | None = None
        self._snapshot: Snapshot | None = None
        self._looked_at: Instant | None = None
        self._asked_s = float("-inf")

    @property
    def cycle_s(self) -> float:
        """The longest time between two cycles, from the policy last read."""
        return float(self._snapshot.policy.cycle_s) if self._snapshot else FIRST_CYCLE_S

    def observe(self) -> Snapshot:
        """Return everything the planner may know, of one moment.

        Raises ``BackendError`` where main, the status branch or a commit they name cannot be
        read whole, ``DeposedError`` where the branch says that another reconciler holds it.
        """
        parts = self._parts
        looked_at = parts.clock()
        branch = self._read_branch()
        tree = branch.tree
        look = parts.main.look(tree.cursor.desired if tree.cursor else None)
        self._refuse_other_cluster(look)
        inputs = self._learn(branch, look, looked_at)
        snapshot = parts.assembler.assemble(look.reading, tree, inputs)
        self._look, self._inputs, self._snapshot = look, inputs, snapshot
        self._looked_at = looked_at
        parts.launches.forget_all_but(tree.statuses)
        parts.notifier.look(look, tree)
        return snapshot

    def _learn(self, branch: Branch, look: Look, looked_at: Instant) -> Inputs:
        """Return what is in no commit: observations, devices, instants, what was remembered."""
        parts, tree = self._parts, branch.tree
        platform = look.reading.platform
        runs = live_runs(tree.statuses)
        polled = parts.launcher.poll(runs) if runs else {}
        observations = self._failures.judge(polled, runs, platform.policy.lost_after_s)
        found = parts.machine.look(platform)
        recorded = branch.inputs
        state = recorded.next_planner_state if recorded else PlannerState()
        return Inputs(
            desired=look.commit,
            now=_not_before(parts.clock(), recorded),
            looked_at=looked_at,
            previous_look_at=self._looked_at or (recorded.looked_at if recorded else None),
            cursor=tree.cursor.desired if tree.cursor else None,
            is_rewritten=look.is_rewritten,
            allowed_prune=look.allowed_prune,
            observations=dict(sorted(observations.items())),
            node_states=found.node_states,
            devices=found.devices,
            planner_state=state,
            next_planner_state=state,
            versions=parts.versions,
        )

    def record(self, snapshot: Snapshot, plan: Plan, update: StatusUpdate) -> None:
        """Make the plan one pushed commit; a cycle in which nothing happened makes none.

        Raises ``StaleRevisionError`` when somebody wrote first, ``DeposedError`` when this
        reconciler may not write any more, ``BackendError`` when the remote is silent.
        """
        parts, branch, look, inputs = self._parts, self._branch, self._look, self._inputs
        assert branch is not None and look is not None and inputs is not None
        inputs = replace(inputs, next_planner_state=plan.planner_state)
        made = decision_commit(
            Decided(
                snapshot=snapshot,
                plan=plan,
                update=update,
                inputs=inputs,
                before=branch.recorded,
                published=branch.forecast,
                runs_dir=parts.runs_dir,
                epoch=parts.statuses.held.epoch if parts.statuses.held else 0,
                history=self._history(branch.tree, update, snapshot),
            )
        )
        if made is None:
            return
        before = branch.tree
        commit = parts.statuses.commit(before.commit, made.files, made.message, at=snapshot.now)
        after = _over(before, commit, made.files, update)
        self._branch = Branch(
            tree=after, recorded=made.recorded, inputs=inputs, forecast=made.published
        )
        for each in update.transitions:
            parts.log.event(
                "status", job=each.job, phase=f"{each.before or 'new'}->{each.after}",
                reason=each.reason, attempt=each.attempt, commit=commit[:10],
            )  # fmt: skip
        for line in update.occurrences:
            parts.log.event(
                "reservation", reservation=line.reservation,
                phase=f"{line.before or 'new'}->{line.after}", reason=line.reason,
                commit=commit[:10],
            )  # fmt: skip
        parts.notifier.recorded(before, after, look.reading)

    def _history(self, tree: StatusTree, update: StatusUpdate, snapshot: Snapshot) -> bytes | None:
        ended = list(ended_attempts(tree.statuses, update.changed))
        if not ended:
            return None
        return history_after(
            tree.history,
            ended,
            launches=self._parts.launches,
            cluster=snapshot.cluster,
            runs_dir=self._parts.runs_dir,
            weighs_places=bool(snapshot.policy.spread_slowdown),
            log=self._parts.log,
        )

    def apply(self, action: Action) -> ApplyResult:
        """Ask the launcher for one recorded action; its failures come back as a result."""
        word = type(action).__name__.lower()
        try:
            self._ask(action)
        except BackendError as error:
            self._parts.log.event(
                f"{word}-failed", job=action.job, attempt=action.attempt, why=error
            )
            if isinstance(action, Launch):
                self._failures.failed(action.attempt, error)
            return ApplyResult(action=action, ok=False, message=str(error))
        self._parts.log.event(word, job=action.job, attempt=action.attempt)
        self._failures.launched(action.attempt)
        return ApplyResult(action=action, ok=True)

    def news(self) -> str:
        """Return what a new cycle would see, in a word or two; empty: nothing.

        Asks the launcher at every call and the remote every ``remote_poll_s`` seconds.  A remote
        that does not answer is no news: the next cycle finds out and says so.
        """
        attempt = self._news_of_runs()
        if attempt:
            return f"run {attempt}"
        now_s = self._parts.monotonic_s()
        if now_s - self._asked_s < self._parts.remote_poll_s:
            return ""
        self._asked_s = now_s
        statuses, main = self._parts.statuses, f"refs/heads/{MAIN}"
        try:
            tips = remote_refs(statuses.repo, statuses.remote, main, statuses.ref)
        except BackendError:
            return ""
        if self._look is not None and tips.get(main) != self._look.tip:
            return "main moved"
        if self._branch is not None and tips.get(statuses.ref) != self._branch.tree.commit:
            return "status moved"
        return ""

    def _news_of_runs(self) -> str:
        if self._branch is None or self._inputs is None:
            return ""
        runs = live_runs(self._branch.tree.statuses)
        seen = self._parts.launcher.poll(runs) if runs else {}
        for attempt, observation in sorted(seen.items()):
            if _mark(observation) != _mark(self._inputs.observations.get(attempt)):
                return attempt
        return ""

    def keep_evidence(self, error: InvariantError) -> str:
        """Save the snapshot of the plan that broke an invariant; return the file's path."""
        document = {"error": str(error), "snapshot": plain(self._snapshot)}
        return str(self._parts.state.save_crash(document, self._parts.clock()))

    def _ask(self, action: Action) -> None:
        parts, branch, snapshot = self._parts, self._branch, self._snapshot
        assert branch is not None and snapshot is not None
        status = branch.tree.statuses[action.job]
        attempt = next((each for each in status.attempts if each.id == action.attempt), None)
        if attempt is None:
            raise LauncherError(f"{action.attempt} is not in the status of {action.job}")
        match action:
            case Launch():
                parts.launcher.launch(parts.launches.request(status, attempt, snapshot.cluster))
            case Stop():
                parts.launcher.stop(run_ref(status, attempt), action.grace_s)
            case Kill():
                parts.launcher.kill(run_ref(status, attempt))

    def _read_branch(self) -> Branch:
        statuses = self._parts.statuses
        tip = statuses.fetch()
        if tip is None:
            raise BackendError(f"{statuses.ref} is gone from the remote", retryable=False)
        if self._branch is None or self._branch.tree.commit != tip:
            tree = statuses.read(tip)
            recorded = recorded_at(statuses.repo, tip) if INPUTS_FILE in tree.files else None
            self._branch = Branch(
                tree=tree,
                recorded=recorded,
                inputs=recorded.inputs() if recorded else None,
                forecast=tree.forecast,
            )
        lease = self._branch.tree.lease
        if lease != statuses.held:
            raise DeposedError(
                f"{statuses.ref} is held by "
                + (f"{lease.holder} (epoch {lease.epoch})" if lease else "nobody")
                + ": this reconciler stops"
            )
        return self._branch

    def _refuse_other_cluster(self, look: Look) -> None:
        named, ours = look.reading.platform.cluster.id, self._parts.statuses.cluster
        if named != ours:
            raise BackendError(
                f"conf at {look.commit} names cluster {named}, this reconciler runs {ours}; the "
                "id of a cluster never changes: put it back, or see docs/operations.md",
                retryable=False,
            )


def _over(
    before: StatusTree,
    commit: CommitId,
    files: Mapping[str, bytes | None],
    update: StatusUpdate,
) -> StatusTree:
    """Return the tree of our own commit without reading it back."""
    statuses = dict(before.statuses) | {status.job: status for status in update.changed}
    reservations = dict(before.reservations)
    for each in update.reservations:
        reservations[each.reservation] = each
        statuses.pop(each.reservation, None)
    for status in update.changed:
        reservations.pop(status.job, None)
    kept = {
        path: data
        for path, data in {**before.files, **files}.items()
        if data is not None and path.startswith(".headway/")
    }
    return StatusTree(
        commit=commit,
        statuses=dict(sorted(statuses.items())),
        reservations=dict(sorted(reservations.items())),
        files=kept,
    )


def _not_before(now: Instant, recorded: Inputs | None) -> Instant:
    """Return ``now``, or the instant of the newest decision where this clock is behind it."""
    return now if recorded is None else max(now, recorded.now)


def _mark(seen: Observation | None) -> tuple[object, ...]:
    """Return what of an observation calls for a cycle at once; progress does not."""
    if seen is None:
        return ()
    return (seen.state, seen.exit_status, seen.outcome)
