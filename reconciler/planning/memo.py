"""Saves work between cycles, and never anything else.

A memo holds the last cycle: its books, its plan, and what that plan changed.  The next cycle
compares what it reads with what those were made from; whatever differs is worked out again, so
any memo gives the same plan as none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from reconciler.domain.plan import Decision, Plan
from reconciler.domain.status import StatusUpdate
from reconciler.domain.units import JobId
from reconciler.planning.books import Books
from reconciler.planning.desk import Desk
from reconciler.planning.shapes import Known
from reconciler.planning.statuses import update_of
from reconciler.planning.value.decide import ValueMemo
from reconciler.planning.waits import Kept


@dataclass(frozen=True, kw_only=True)
class Memo:
    """What one planning call leaves for the next."""

    known: Known
    books: Books
    plan: Plan
    decided: Mapping[JobId, Decision]
    """The plan's decisions about jobs that were compared with others."""
    news: frozenset[JobId]
    """Jobs whose status the plan may change; of all others it is already what it says."""
    loud: frozenset[JobId]
    """Jobs whose decision is in the digest."""

    ranking: tuple[JobId, ...] = ()
    """Jobs that want devices, first in rank first; empty under an order that ranks when asked."""
    desk: Desk | None = None
    """What the value order was asked with; None under another order."""
    kept: Kept | None = None
    """What it told to who waits."""
    value: ValueMemo = field(default_factory=ValueMemo)

    @cached_property
    def update(self) -> StatusUpdate:
        """The statuses that change by the plan: what ``next_statuses`` returns for it."""
        return update_of(self.books, self.plan, self.news)
