"""What is decided about a job without comparing it with others.

Facts come first (an attempt that ended), then what main says (gone, rewritten, a new submission,
suspended, invalid), then bounds (time limit, a draining node).  What is left over is a job that
wants devices, which the ranking decides about.

Rule kept: an edit never stops work unless it says so.  An invalid document keeps the last valid
spec running; a job that is not running waits until its document is right again.
"""

from collections.abc import Mapping
from math import ceil

from reconciler.domain.attempt import Attempt, AttemptPhase, ObservedState, StopCause
from reconciler.domain.cluster import Cluster, NodeState
from reconciler.domain.plan import Decision, Verb
from reconciler.domain.problem import SpecProblem
from reconciler.domain.reason import Reason
from reconciler.domain.snapshot import DesiredJob, Snapshot
from reconciler.domain.status import JobPhase
from reconciler.domain.units import Instant, NodeName, Seconds
from reconciler.planning.deletion import Pruning, is_due
from reconciler.planning.retry import after_attempt, is_at_limit, is_out_of_gpu_hours
from reconciler.planning.standing import Standing

NEWEST_REFUSED = "the newest document is refused: "


def settle(
    snapshot: Snapshot,
    standing: Standing,
    prune: Pruning,
    states: Mapping[NodeName, NodeState] | None = None,
) -> Decision | None:
    """Return the decision about one job, or None for a job that wants to start.

    ``states`` are :func:`node_states` of the cluster, for who asks about many jobs.
    """
    if standing.status is None:
        return _without_status(snapshot, standing)
    if standing.has_ended:
        return _finish(snapshot, standing)
    if standing.is_finished:
        return _decide(standing, Verb.KEEP, Reason.ALREADY_FINISHED, refusal(standing.wanted))
    if snapshot.desired.is_rewritten:
        if standing.live is not None:
            return _keep_live(standing)
        return _wait_for_history(standing)
    if standing.wanted is None:
        return _file_gone(snapshot, standing, prune)
    if standing.live is not None:
        known = node_states(snapshot.cluster) if states is None else states
        return _live(snapshot, standing, known)
    return _idle(standing, standing.wanted)


def settles_again_at(snapshot: Snapshot, standing: Standing) -> Instant | None:
    """Return when time alone may change what is settled about a job: its limit, its grace."""
    status, spec, live = standing.status, standing.spec, standing.live
    if status is None or standing.is_finished:
        return None
    if standing.wanted is None:
        since = snapshot.now if status.absent_since is None else status.absent_since
        return Instant(since + max(snapshot.policy.deletion.grace_s, 1))
    if live is None or live.started_at is None or spec is None:
        return None
    left_s = []
    if spec.limit_s is not None:
        left_s.append(spec.limit_s - status.ran_s)
    if spec.max_gpu_hours is not None:
        left_s.append(ceil((spec.max_gpu_hours * 3600 - status.gpu_seconds) / live.gpus))
    return Instant(live.started_at + min(left_s)) if left_s else None


def _decide(standing: Standing, verb: Verb, reason: Reason, detail: str = "") -> Decision:
    return Decision(job=standing.id, verb=verb, reason=reason, detail=detail)


def _without_status(snapshot: Snapshot, standing: Standing) -> Decision:
    if snapshot.desired.is_rewritten or standing.wanted is None:
        return _wait_for_history(standing)
    return reject(standing, standing.wanted)


def _wait_for_history(standing: Standing) -> Decision:
    status = standing.status
    return Decision(
        job=standing.id,
        verb=Verb.WAIT,
        reason=Reason.HISTORY_REWRITTEN,
        detail="main does not descend from the commit last acted on; an operator must accept it",
        hold=status.holds[0].devices if status is not None and status.holds else None,
    )


def _finish(snapshot: Snapshot, standing: Standing) -> Decision:
    assert standing.status is not None and standing.attempt is not None
    after = after_attempt(
        standing.status,
        standing.attempt,
        standing.spec,
        policy=snapshot.policy.retry,
        now=snapshot.now,
    )
    detail = standing.end_detail
    reason = after.reason
    if standing.attempt.phase is AttemptPhase.CANCELLED:
        reason, detail = standing.status.reason, standing.status.message
    return _decide(standing, Verb.FINISH, reason, detail)


def _file_gone(snapshot: Snapshot, standing: Standing, prune: Pruning) -> Decision:
    live = standing.live
    is_due_now = is_due(standing, now=snapshot.now, policy=snapshot.policy.deletion)
    is_blocked = standing.id in prune.blocked
    is_leaving = live is not None and live.phase is AttemptPhase.STOPPING
    is_cancelled = live is not None and live.stop_cause is StopCause.CANCEL
    if is_leaving and (is_cancelled or is_blocked or not is_due_now):
        return _keep_live(standing)
    if is_blocked:
        return _decide(
            standing,
            Verb.KEEP,
            Reason.PRUNE_BLOCKED,
            "its file left main with too many others at once; an admin must allow it",
        )
    if is_due_now:
        return _decide(standing, Verb.CANCEL, Reason.FILE_DELETED, "its file left main")
    return _decide(
        standing,
        Verb.KEEP,
        Reason.DELETION_GRACE,
        "its file left main; it is cancelled when the grace is over",
    )


def node_states(cluster: Cluster) -> dict[NodeName, NodeState]:
    """Return the state of each node."""
    return {node.name: node.state for node in cluster.nodes}


def _live(snapshot: Snapshot, standing: Standing, states: Mapping[NodeName, NodeState]) -> Decision:
    live, spec, wanted, status = standing.live, standing.spec, standing.wanted, standing.status
    assert live is not None and wanted is not None and status is not None
    if standing.newer is not None and not wanted.problems:
        if live.stop_cause is not StopCause.CANCEL:
            return _decide(
                standing, Verb.CANCEL, Reason.NEW_SUBMISSION, "a newer submission takes its place"
            )
        return _keep_live(standing)
    if live.phase is AttemptPhase.STOPPING or spec is None:
        return _keep_live(standing)
    if spec.suspend:
        return _decide(standing, Verb.SUSPEND, Reason.SUSPEND_ASKED, "the document says suspend")
    if is_at_limit(status, spec, ran_s=live.running_s(snapshot.now)):
        return _decide(standing, Verb.FINISH, Reason.TIME_LIMIT, "reached time.limit")
    if is_out_of_gpu_hours(status, spec, gpu_s=live.running_s(snapshot.now) * live.gpus):
        return _decide(standing, Verb.FINISH, Reason.GPU_HOURS_LIMIT, "used max_gpu_hours")
    if _must_leave_its_node(states, standing, live):
        return _decide(standing, Verb.SUSPEND, Reason.NODE_DRAINING, "its node is being emptied")
    return _keep_live(standing)


def _keep_live(standing: Standing) -> Decision:
    live, seen = standing.live, standing.observed
    assert live is not None
    if live.phase is AttemptPhase.STOPPING:
        return _decide(standing, Verb.KEEP, Reason.STOPPING)
    if standing.wanted is not None and standing.wanted.problems:
        return _decide(
            standing, Verb.KEEP, Reason.SPEC_INVALID_KEEPS_RUNNING, refusal(standing.wanted)
        )
    if seen is None or seen.state is ObservedState.UNKNOWN:
        return _decide(standing, Verb.KEEP, Reason.LAUNCHER_SILENT)
    if seen.state is ObservedState.ABSENT:
        return _decide(standing, Verb.KEEP, Reason.LAUNCH_ASKED_AGAIN)
    return _decide(standing, Verb.KEEP, Reason.RUNS)


def _must_leave_its_node(
    states: Mapping[NodeName, NodeState], standing: Standing, live: Attempt
) -> bool:
    """True for preemptible work on a draining node, and for what never began on its node.

    A launch that no launcher knows would be asked again for ever on a node that is not ready.
    """
    seen = standing.observed
    never_began = (
        live.phase is AttemptPhase.LAUNCHING
        and seen is not None
        and seen.state is ObservedState.ABSENT
    )
    on = {states.get(share.node, NodeState.DOWN) for share in live.allocation.shares}
    if never_began:
        return on != {NodeState.READY}
    return live.preemptible and NodeState.DRAINING in on


def _idle(standing: Standing, wanted: DesiredJob) -> Decision | None:
    status, spec = standing.status, standing.spec
    assert status is not None
    if wanted.problems or spec is None:
        return reject(standing, wanted)
    if spec.suspend:
        settled = status.phase is JobPhase.SUSPENDED
        verb = Verb.KEEP if settled else Verb.SUSPEND
        return _decide(standing, verb, Reason.SUSPEND_ASKED, "the document says suspend")
    if is_at_limit(status, spec, ran_s=Seconds(0)):
        return _decide(standing, Verb.FINISH, Reason.TIME_LIMIT, "reached time.limit")
    if is_out_of_gpu_hours(status, spec, gpu_s=0):
        return _decide(standing, Verb.FINISH, Reason.GPU_HOURS_LIMIT, "used max_gpu_hours")
    return None


def reject(standing: Standing, wanted: DesiredJob) -> Decision:
    """Return the refusal of a job's document; a wildcard request is a security event."""
    is_event = any(problem.is_security_event for problem in wanted.problems)
    reason = Reason.WILDCARD_REQUEST if is_event else Reason.SPEC_INVALID
    return _decide(standing, Verb.REJECT, reason, refusal(wanted))


def refusal(wanted: DesiredJob | None) -> str:
    """Return what is wrong with the newest document, who brought it and in which commit.

    Empty for a document without problems.
    """
    if wanted is None or not wanted.problems:
        return ""
    first = min(wanted.problems, key=lambda problem: (not problem.is_security_event, problem))
    more = f" (+{len(wanted.problems) - 1} more)" if len(wanted.problems) > 1 else ""
    commit = wanted.problems_commit or ("" if wanted.spec else wanted.commit)
    who = f"; by {wanted.author}" if wanted.author else ""
    where = f" in {commit[:12]}" if commit else ""
    return f"{NEWEST_REFUSED}{_line(first)}{more}{who}{where}"


def _line(problem: SpecProblem) -> str:
    where = f"{problem.file}:{problem.line}:{problem.column}" if problem.line else problem.file
    return f"{where}: {problem.code} {problem.message}"
