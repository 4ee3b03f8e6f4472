"""How closely a plan is looked at before it is recorded.

``in_full`` recomputes every rule from the snapshot and the plan.  ``in_brief`` looks only at what
this plan gives and takes, against what is known to be held: it costs next to nothing and is for
traces of a hundred thousand cycles, of which some are looked at in full.
"""

from functools import reduce
from operator import or_

from reconciler.domain.cluster import Allocation
from reconciler.domain.plan import Decision, Verb
from reconciler.domain.reason import Reason
from reconciler.domain.units import JobId
from reconciler.errors import InvariantError
from reconciler.planning.decisions import Decisions
from reconciler.planning.invariants import check
from reconciler.planning.memo import Memo
from reconciler.planning.topology import bits_of


def in_full(memo: Memo) -> None:
    """Raise ``InvariantError`` if the memo's plan breaks any rule."""
    check(memo.books.snapshot, memo.plan)


def in_brief(memo: Memo) -> None:
    """Raise ``InvariantError`` if what the memo's plan gives was not there to be given."""
    decisions = memo.plan.decisions
    bare = decisions.bare if isinstance(decisions, Decisions) else decisions.__getitem__
    changed = [bare(job) for job in sorted(memo.loud)]
    if not any(d.attempt is not None or d.hold is not None for d in changed):
        return
    leaving = _leaving(memo, changed)
    goes, stays = _held(memo, leaving)
    given = 0
    for decision in changed:
        wanted = memo.books.standings[decision.job].spec
        started = decision.attempt.allocation if decision.attempt is not None else None
        allocation = decision.hold or started
        if allocation is None:
            continue
        devices = _whole(decision, allocation, memo)
        taken = stays | given if decision.hold is not None else stays | goes | given
        if devices & taken:
            raise InvariantError(
                f"plan gives {decision.job} devices that somebody has; nothing was recorded or done"
            )
        if wanted is None:
            raise InvariantError(f"plan gives {decision.job} devices without a spec")
        given |= devices


def _held(memo: Memo, leaving: set[JobId]) -> tuple[int, int]:
    """Return the devices of those that leave, and of all others that hold any."""
    if memo.desk is not None:
        holdings = memo.desk.holdings
        going = (holdings.of[job].devices for job in leaving if job in holdings.of)
        goes = reduce(or_, going, 0)
        return goes, holdings.taken & ~goes
    where = memo.known.where
    goes = stays = 0
    for job, standing in memo.books.live.items():
        if standing.live is not None:
            devices = bits_of(standing.live.allocation, where)
            goes, stays = (goes | devices, stays) if job in leaving else (goes, stays | devices)
    return goes, stays


def _leaving(memo: Memo, changed: list[Decision]) -> set[JobId]:
    going = {
        decision.job
        for decision in changed
        if decision.verb not in (Verb.START, Verb.KEEP, Verb.WAIT)
    }
    stopping = {
        job for job in memo.books.restless if memo.books.settled[job].reason is Reason.STOPPING
    }
    return going | stopping


def _whole(decision: Decision, allocation: Allocation, memo: Memo) -> int:
    devices = bits_of(allocation, memo.known.where)
    if devices.bit_count() != allocation.gpus:
        raise InvariantError(f"plan gives {decision.job} devices the cluster does not have")
    return devices
