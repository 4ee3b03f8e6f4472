"""Which requests to the world a set of decisions asks for.

Every request is idempotent by attempt id, so what a crash may have swallowed is asked again: the
launch of an attempt that no launcher knows, the stop of one that is asked to leave and still runs.
"""

from collections.abc import Iterable, Mapping

from reconciler.domain.attempt import Attempt, AttemptPhase, ObservedState, StopCause
from reconciler.domain.plan import Action, Decision, Kill, Launch, Stop, Verb
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.units import JobId
from reconciler.planning.contenders import stop_cause
from reconciler.planning.lifecycle import is_overdue
from reconciler.planning.standing import Standing


def actions(
    decisions: Iterable[Decision], jobs: Mapping[JobId, Standing], snapshot: Snapshot
) -> tuple[Action, ...]:
    """Return the requests, in the order of the decisions, everything that ends something first."""
    ends: list[Action] = []
    launches: list[Action] = []
    for decision in decisions:
        action = _action(decision, jobs[decision.job], snapshot)
        if isinstance(action, Launch):
            launches.append(action)
        elif action is not None:
            ends.append(action)
    return (*ends, *launches)


def _action(decision: Decision, standing: Standing, snapshot: Snapshot) -> Action | None:
    if decision.verb is Verb.START and decision.attempt is not None:
        return Launch(job=standing.id, attempt=decision.attempt.id)
    live = standing.live
    if live is None:
        return None
    if decision.verb is not Verb.KEEP:
        cause = stop_cause(decision)
        return None if cause is None else _stop(standing, live, cause)
    if live.phase is AttemptPhase.STOPPING:
        if is_overdue(live, now=snapshot.now):
            return Kill(job=standing.id, attempt=live.id)
        return _stop(standing, live, live.stop_cause or StopCause.CANCEL)
    seen = standing.observed
    is_absent = seen is not None and seen.state is ObservedState.ABSENT
    if is_absent and not snapshot.desired.is_rewritten:
        return Launch(job=standing.id, attempt=live.id)
    return None


def _stop(standing: Standing, attempt: Attempt, cause: StopCause) -> Stop | None:
    """Ask an attempt to leave; not one whose launcher does not answer."""
    seen = standing.observed
    if attempt.phase is AttemptPhase.STOPPING and (
        seen is None or seen.state is not ObservedState.RUNNING
    ):
        return None
    return Stop(job=standing.id, attempt=attempt.id, grace_s=attempt.grace_s, cause=cause)


def asks_again(standing: Standing) -> bool:
    """True for a live attempt about which something may be asked although nothing is decided."""
    live, seen = standing.live, standing.observed
    if live is None:
        return False
    is_absent = seen is not None and seen.state is ObservedState.ABSENT
    return is_absent or live.phase is AttemptPhase.STOPPING
