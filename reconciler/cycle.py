"""One cycle: observe, plan, check, record, act.

The order is the safety.  The plan is checked before anything is recorded, and recorded (pushed by
compare-and-swap) before anything is acted on, so that after a crash at any point the next cycle
finds what was intended and asks for it again under the same attempt id.

A cycle that changes no status records nothing: the requests it may still make (a launch or a stop
asked again) were recorded when they were decided.
"""

from collections.abc import Callable
from dataclasses import dataclass

from reconciler.domain.plan import Plan
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.status import StatusUpdate
from reconciler.planning.guard import in_full
from reconciler.planning.memo import Memo
from reconciler.planning.plan import plan
from reconciler.ports import ApplyResult, World


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleReport:
    """What one cycle saw, decided and did."""

    snapshot: Snapshot
    plan: Plan
    memo: Memo
    update: StatusUpdate
    outcomes: tuple[ApplyResult, ...]


Guard = Callable[[Memo], None]


def run_cycle(world: World, memo: Memo | None = None, *, guard: Guard = in_full) -> CycleReport:
    """Run one cycle over ``world`` and return what came of it.

    ``guard`` looks at the plan before it is recorded.

    Raises ``InvariantError`` before anything is recorded if the plan breaks a rule,
    ``StaleRevisionError`` before anything is acted on if somebody else recorded first, and
    ``BackendError`` if the world could not be read completely.
    """
    snapshot = world.observe()
    decided, memo = plan(snapshot, memo)
    guard(memo)
    update = memo.update
    if update:
        world.record(snapshot, decided, update)
    outcomes = tuple(world.apply(action) for action in decided.actions)
    return CycleReport(snapshot=snapshot, plan=decided, memo=memo, update=update, outcomes=outcomes)
